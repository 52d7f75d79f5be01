#pragma once
// Files in: the one way a file is read. It is opened once, so a pipe can be read; it can be looked at before it is read whole; and
// what was read is remembered, so no output takes its place.

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
  /// Throws ConfigError where it cannot be read or is a directory.
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// Bytes that a plain file says it has; nothing for a pipe or a device.
  std::optional<std::uint64_t> size() const;

  /// The first `count` bytes, all where there are fewer. They are read again by what follows. Valid until the next call.
  std::string_view head(std::size_t count);

  /// The next bytes, from the first one on whatever was looked at; empty at the end. Valid until the next call.
  std::string_view block();

  /// Of a plain file the bytes from `at` on, whatever was read before; several threads may call it. Throws ConfigError where there are
  /// fewer.
  void read_at(std::uint64_t at, std::span<std::byte> to) const;

  /// Every byte, in place of `block`; to be called once, last. Throws ConfigError where these are more than `most` or than half of the host's memory,
  /// for a plain file before it is read.
  std::string whole(std::size_t most);

 private:
  bool read_more(std::size_t count);

  std::string path_;
  int file_ = -1;
  std::string read_;
  bool passed_on_ = false;  ///< read_ was given out by `block`
};

/// Bytes of memory that this process may have, by the machine, its control group and the limit of its addresses.
std::uint64_t host_memory();

/// From now on every plain file that is read is remembered, and require_no_input (output.hpp) refuses to replace it. For programs;
/// who calls the libraries may write what they read.
void guard_inputs();

/// Remembers a file that will be read. Does nothing where inputs are not guarded or there is no plain file.
void note_input(const std::string& path);

/// Tells that this process has written the file: it may write it again, though it read it meanwhile.
void note_written(const std::string& path);

/// `output` may take the place of `input`, which it goes on from: both names as they are given to whatever reads and writes.
void permit_replacing(const std::string& output, const std::string& input);

/// The remembered input that is the same file as `place`, of the output named `output`; `descriptor`, where not -1, stands for the
/// place. Empty: none, or it may be replaced.
std::string input_behind(const std::string& output, const std::string& place, int descriptor);

}  // namespace tandem
