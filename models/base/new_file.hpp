#pragma once
// A new file that is written bit by bit.

#include <string>
#include <string_view>

namespace tandem {

/// Removed with this object unless it was closed. Throws ConfigError, with the name that it is to have, where it cannot be written.
class NewFile {
 public:
  NewFile(std::string path, std::string name);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void add(std::string_view bytes);
  /// Waits until the disk has it.
  void close();
  const std::string& path() const { return path_; }

 private:
  std::string path_, name_;
  int file_ = -1;
};

/// Opens one for writing; -1, and `errno` says why. A file or a link that stands there is removed, never followed: names of neighbours
/// can be guessed.
int open_new_file(const std::string& path);

/// Waits until the disk has the names of a folder; where the folder cannot be opened the system does it in its own time.
void synchronise_folder(const std::string& folder);

/// All of it; false, and `errno` says why.
bool write_all(int file, std::string_view bytes);

/// "cannot be written: No space left on device".
[[noreturn]] void refuse_writing(const std::string& name, int error);

}  // namespace tandem
