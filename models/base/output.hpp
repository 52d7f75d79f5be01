#pragma once
// Files out: the one way a result reaches a file, whatever its name stands for.

#include <memory>
#include <string>
#include <string_view>

namespace tandem {

/// Where an output goes that was named by a path.
struct OutputPlace {
  std::string path;      ///< the name at the end of its symbolic links, which need not exist
  bool in_place = false;  ///< a device, a pipe or a name of an open file (/dev/stdout): nothing can be put in its place
  int descriptor = -1;   ///< the open file of this process that the name stands for; -1: none

  /// The neighbour that this process writes before it takes the place's name; meaningless in place.
  std::string beside() const;
};

/// Follows symbolic links, so that what is written replaces the file and not a link to it.
OutputPlace output_place(const std::string& path);

/// Whether write_text can write here, else `errno` says why. Permissions alone do not tell: root has them all, and some file systems
/// take no files. A pipe waits for its reader: it is not opened. Leaves nothing behind.
bool takes_output(const OutputPlace& place);

/// Throws ConfigError, naming both, where writing to `path` would replace or change a remembered input (input.hpp).
void require_no_input(const std::string& path);

class NewFile;

/// Writes to a neighbour of the file that `path` names, waits until the disk has it, and renames it into place, so neither a
/// reader nor a power cut leaves half a file; a link in the neighbour's place is not followed; what can
/// have nothing in its place is written to, an open file of this process where it stands. Throws ConfigError when the place cannot be
/// written or is a remembered input. What is not committed leaves nothing behind.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void add(std::string_view bytes);
  /// Last, once.
  void commit();

 private:
  std::string name_;
  OutputPlace place_;
  std::unique_ptr<NewFile> beside_;  ///< nothing where the place itself is written to
  int file_ = -1;
};

/// The whole of an OutputFile.
void write_text(const std::string& path, std::string_view text);

}  // namespace tandem
