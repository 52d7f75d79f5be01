#pragma once
// A new file that is written in parts.

#include <string>
#include <string_view>

namespace tandem {

/// Removed with this object unless it was closed. Throws ConfigError with the file's final name if it cannot be written.
class NewFile {
 public:
  NewFile(std::string path, std::string name);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void add(std::string_view bytes);
  /// Waits until the file is on disk.
  void close();
  const std::string& path() const { return path_; }

 private:
  std::string path_, name_;
  int file_ = -1;
};

/// Opens a new file for writing; -1 with `errno` on failure. Removes an
/// existing file or link and never follows it, because names can be guessed.
int open_new_file(const std::string& path);

/// Waits until a folder's names are on disk. If it cannot be opened, leaves that to the system.
void synchronise_folder(const std::string& folder);

/// Writes all bytes; false with `errno` on failure.
bool write_all(int file, std::string_view bytes);

/// "cannot be written: No space left on device".
[[noreturn]] void refuse_writing(const std::string& name, int error);

}  // namespace tandem
