#include "models/base/output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/input.hpp"
#include "models/base/new_file.hpp"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as many as Linux follows

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw ConfigError(Problem{path, "", "", reason, ""});
}

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
  const int file = open_new_file(place.beside());
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

OutputFile::OutputFile(const std::string& path) : name_(path) {
  if (is_folder(path)) refuse(path, "is a directory, not a file");
  require_no_input(path);
  place_ = output_place(path);
  if (!place_.in_place) {
    beside_ = std::make_unique<NewFile>(place_.beside(), name_);  // another process may write the same file now
    return;
  }
  file_ = place_.descriptor >= 0 ? place_.descriptor : ::open(place_.path.c_str(), O_WRONLY | O_TRUNC | O_NOCTTY | O_CLOEXEC);
  if (file_ < 0) refuse_writing(name_, errno);
}

OutputFile::~OutputFile() {
  if (file_ >= 0 && place_.descriptor < 0) ::close(file_);
}

void OutputFile::add(std::string_view bytes) {
  if (beside_) return beside_->add(bytes);
  if (!write_all(file_, bytes)) refuse_writing(name_, errno);
}

void OutputFile::commit() {
  if (!beside_) {
    const bool closed = place_.descriptor >= 0 || ::close(std::exchange(file_, -1)) == 0;
    if (!closed) refuse_writing(name_, errno);
    return;
  }
  beside_->close();
  if (::rename(beside_->path().c_str(), place_.path.c_str()) != 0) {
    const int why = errno;
    remove_file(beside_->path());
    refuse_writing(name_, why);
  }
  note_written(place_.path);
  synchronise_folder(folder_of(place_.path).string());
}

void write_text(const std::string& path, std::string_view text) {
  OutputFile file(path);
  file.add(text);
  file.commit();
}

}  // namespace tandem
