#pragma once
// Input files: all files are read here. A file is opened once, so pipes work. It can be
// inspected before it is read whole. Read files are remembered, so that no output replaces them.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tandem {

/// A file, a device or a pipe that is open for reading.
class InputFile {
 public:
  /// Throws ConfigError if the file cannot be read or is a folder.
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// Size of a plain file in bytes; nothing for a pipe or a device.
  std::optional<std::uint64_t> size() const;

  /// The first `count` bytes, or all if there are fewer. Later reads return them again. Valid until the next call.
  std::string_view head(std::size_t count);

  /// The next bytes, starting with the first one even after a look ahead; empty at the end. Valid until the next call.
  std::string_view block();

  /// The bytes of a plain file from `at` on, independent of other reads.
  /// Several threads may call it. Throws ConfigError if there are fewer.
  void read_at(std::uint64_t at, std::span<std::byte> to) const;

  /// All bytes; replaces `block` and must be the last call. Throws ConfigError if the file
  /// is larger than `most` or half of the host's memory, for a plain file before reading.
  std::string whole(std::size_t most);

 private:
  bool read_more(std::size_t count);

  std::string path_;
  int file_ = -1;
  std::string read_;
  bool passed_on_ = false;  ///< `block` has returned read_
};

/// Bytes of memory available to this process: by machine, control group and address-space limit.
std::uint64_t host_memory();

/// From now on remembers every plain file that is read; require_no_input (output.hpp) refuses
/// to replace it. For programs. Code that calls the libraries may overwrite its inputs.
void guard_inputs();

/// Remembers a file that will be read. Does nothing if inputs are not guarded or it is not a plain file.
void note_input(const std::string& path);

/// Notes that this process wrote the file. It may write the file again, even after reading it.
void note_written(const std::string& path);

/// Lets `output` replace `input`, which it continues. Both are names as given to the reader and the writer.
void permit_replacing(const std::string& output, const std::string& input);

/// The remembered input that is the same file as `place`, of the output named `output`.
/// `descriptor`, unless -1, stands for `place`. Empty: none, or it may be replaced.
std::string input_behind(const std::string& output, const std::string& place, int descriptor);

}  // namespace tandem
