#include "models/base/output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/input.hpp"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as many as Linux follows

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw ConfigError(Problem{path, "", "", reason, ""});
}

std::string cannot(int error) { return "cannot be written: " + std::generic_category().message(error); }

fs::path folder_of(const fs::path& place) {
  const fs::path parent = place.parent_path();
  std::error_code failed;
  return fs::canonical(parent.empty() ? fs::path(".") : parent, failed);
}

/// The number of the open file that an entry of this process's list of them stands for; -1 for any other name.
int descriptor_of(const fs::path& place) {
  const fs::path folder = folder_of(place);
  std::error_code failed;
  if (folder.empty() || (folder != fs::canonical("/proc/self/fd", failed) && folder != fs::canonical("/dev/fd", failed))) return -1;
  const std::string digits = place.filename().string();
  int number = -1;
  const auto [end, wrong] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return wrong == std::errc() && end == digits.data() + digits.size() && fs::exists(place, failed) ? number : -1;
}

/// The links of /proc are no names of files: they stand for what is open, even where it has no name any more.
bool of_a_process(const fs::path& place) { return folder_of(place).string().starts_with("/proc/"); }

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// Opens a new file for writing. A file or a link that has its name is removed, never followed: names of neighbours can be guessed.
int open_new(const std::string& path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const int file = ::open(path.c_str(), kFlags, 0666);
  return file < 0 && errno == EEXIST && ::unlink(path.c_str()) == 0 ? ::open(path.c_str(), kFlags, 0666) : file;
}

/// Waits until the disk has what was written. Some file systems cannot say.
bool synchronise(int file) { return ::fsync(file) == 0 || errno == EINVAL || errno == ENOTSUP; }

/// The new name is on the disk, too; where the folder cannot be opened the system does it in its own time.
void synchronise_folder(const fs::path& place) {
  const int folder = ::open(folder_of(place).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  synchronise(folder);
  ::close(folder);
}

/// Writes a whole new file to the disk; the error number where that fails, else 0.
int write_new(const std::string& path, std::string_view text) {
  const int file = open_new(path);
  if (file < 0) return errno;
  const bool written = write_all(file, text) && synchronise(file);
  const int why = written ? 0 : errno;
  return ::close(file) != 0 && written ? errno : why;
}

void write_in_place(const OutputPlace& place, const std::string& name, std::string_view text) {
  if (place.descriptor >= 0) {
    if (!write_all(place.descriptor, text)) refuse(name, cannot(errno));
    return;
  }
  const int file = ::open(place.path.c_str(), O_WRONLY | O_TRUNC | O_NOCTTY | O_CLOEXEC);
  bool written = file >= 0 && write_all(file, text);
  const int why = errno;
  if (file >= 0 && ::close(file) != 0 && written) refuse(name, cannot(errno));
  if (!written) refuse(name, cannot(why));
}

bool takes_bytes(const OutputPlace& place) {
  if (place.descriptor >= 0) return ::write(place.descriptor, "", 0) == 0;
  std::error_code ignored;
  if (!fs::is_character_file(place.path, ignored)) return access(place.path.c_str(), W_OK) == 0;
  const int file = ::open(place.path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file < 0) return false;
  const bool taken = ::write(file, "", 0) == 0;  // a full device refuses even nothing
  const int why = errno;
  ::close(file);
  errno = why;
  return taken;
}

}  // namespace

std::string OutputPlace::beside() const { return path + "." + std::to_string(getpid()) + ".new"; }

OutputPlace output_place(const std::string& path) {
  fs::path place(path);
  std::error_code failed;
  for (int links = 0; links <= kMostLinks; ++links) {
    if (const int descriptor = descriptor_of(place); descriptor >= 0) return {place.string(), true, descriptor};
    if (!fs::is_symlink(fs::symlink_status(place, failed))) break;
    if (of_a_process(place)) return {place.string(), true};
    const fs::path target = fs::read_symlink(place, failed);
    if (failed) break;
    place = place.parent_path() / target;  // an absolute target stands alone
  }
  const bool ring = fs::is_symlink(fs::symlink_status(place, failed));  // opening it says what is wrong
  const bool in_place = ring || (fs::exists(place, failed) && !fs::is_regular_file(place, failed));
  return {place.string(), in_place};
}

bool takes_output(const OutputPlace& place) {
  if (place.in_place) return takes_bytes(place);
  const int file = open_new(place.beside());
  if (file < 0) return false;
  ::close(file);
  return unlink(place.beside().c_str()) == 0;
}

void require_no_input(const std::string& path) {
  const OutputPlace place = output_place(path);
  const std::string input = input_behind(path, place.path, place.descriptor);
  if (input.empty()) return;
  const std::string which = input == path ? "is read by this command" : "is the same file as " + input + ", which this command reads,";
  throw ConfigError(Problem{path, "", "", which + " and would be written over", "give another file"});
}

void write_text(const std::string& path, std::string_view text) {
  if (is_folder(path)) refuse(path, "is a directory, not a file");
  require_no_input(path);
  const OutputPlace place = output_place(path);
  if (place.in_place) return write_in_place(place, path, text);
  const std::string beside = place.beside();  // another process may write the same file now
  int why = write_new(beside, text);
  if (why == 0 && ::rename(beside.c_str(), place.path.c_str()) != 0) why = errno;
  if (why == 0) {
    note_written(place.path);
    return synchronise_folder(place.path);
  }
  remove_file(beside);
  refuse(path, cannot(why));
}

}  // namespace tandem
