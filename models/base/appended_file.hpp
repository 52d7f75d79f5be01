#pragma once
// A file that grows by whole texts while it is open, such as a log that survives a killed process.

#include <string>
#include <string_view>
#include <system_error>

namespace tandem {

class AppendedFile {
 public:
  /// Opens an existing file, or the open file, device or pipe that the name stands for. Throws ConfigError if that fails.
  explicit AppendedFile(const std::string& path);
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  /// Appends a text. Returns the reason if that fails; then a part of the text may have been written.
  std::error_code add(std::string_view text);

 private:
  int file_ = -1;
};

}  // namespace tandem
