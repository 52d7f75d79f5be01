#pragma once
// Output files: all results are written here, whatever the path names.

#include <memory>
#include <string>
#include <string_view>

namespace tandem {

/// The place that an output's path names.
struct OutputPlace {
  std::string path;      ///< the name at the end of its symbolic links, which need not exist
  bool in_place = false;  ///< a device, a pipe or an open file (/dev/stdout), written directly
  int descriptor = -1;   ///< the open file of this process that the name stands for; -1: none

  /// Temporary file that this process writes before it is renamed to `path`; unused if `in_place`.
  std::string beside() const;
};

/// Follows symbolic links, so that what is written replaces the file and not a link to it.
OutputPlace output_place(const std::string& path);

/// Whether write_text can write here; else `errno` says why. Checks more than permissions: root has all, and
/// some file systems take no files. Does not open a pipe, which would wait for its reader. Leaves no file.
bool takes_output(const OutputPlace& place);

/// Throws ConfigError, naming both, if writing to `path` would replace or change a remembered input (input.hpp).
void require_no_input(const std::string& path);

class NewFile;

/// Writes a temporary file beside `path`, syncs it to disk and renames it, so neither a
/// reader nor a power cut sees half a file. It never follows a link in the temporary
/// file's place. Writes devices, pipes and open files directly. Throws ConfigError if the
/// place cannot be written or is a remembered input. Without commit() no file is left.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void add(std::string_view bytes);
  /// Completes the file. Call once, last.
  void commit();

 private:
  std::string name_;
  OutputPlace place_;
  std::unique_ptr<NewFile> beside_;  ///< null if the place is written directly
  int file_ = -1;
};

/// Writes a whole OutputFile.
void write_text(const std::string& path, std::string_view text);

}  // namespace tandem
