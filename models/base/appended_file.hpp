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

  /// Appends a text. Returns the reason if that fails. A part that was written is cut off again, except from a device, a pipe, or a
  /// file that others had opened.
  std::error_code add(std::string_view text);
  /// Waits until what was appended is on the disk.
  void flush();

 private:
  std::error_code write_all(std::string_view text);

  int file_ = -1;
  bool own_ = false;  ///< opened here, not a descriptor of others
};

}  // namespace tandem
