#include "models/base/input.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include "models/base/error.hpp"

namespace tandem {
namespace {

constexpr std::size_t kBlock = std::size_t{64} << 10;

[[noreturn]] void refuse(const std::string& path, std::string reason, std::string remedy = "") {
  throw ConfigError(Problem{path, "", "", std::move(reason), std::move(remedy)});
}

[[noreturn]] void refuse_unreadable(const std::string& path, int error) {
  refuse(path, "cannot be read: " + std::generic_category().message(error));
}

std::string size_text(std::uint64_t bytes) {
  return bytes >> 20 > 0 ? std::to_string(bytes >> 20) + " MiB" : std::to_string(bytes) + " bytes";
}

using FileId = std::pair<dev_t, ino_t>;

std::optional<FileId> plain(int failed, const struct stat& s) {
  return failed == 0 && S_ISREG(s.st_mode) ? std::optional(FileId(s.st_dev, s.st_ino)) : std::nullopt;
}

std::optional<FileId> plain_file(const std::string& path) {
  struct stat s{};
  return plain(::stat(path.c_str(), &s), s);
}

std::optional<FileId> plain_file(int descriptor) {
  struct stat s{};
  return plain(::fstat(descriptor, &s), s);
}

/// The files that this process has read.
class Inputs {
 public:
  void guard() {
    const std::lock_guard lock(mutex_);
    guarded_ = true;
  }
  void note(const std::string& path, const std::optional<FileId>& file) {
    const std::lock_guard lock(mutex_);
    if (guarded_ && file && !written_.contains(*file)) files_[path] = *file;
  }
  void wrote(const std::optional<FileId>& file) {
    const std::lock_guard lock(mutex_);
    if (guarded_ && file) written_.insert(*file);
  }
  void permit(const std::string& output, const std::string& input) {
    const std::lock_guard lock(mutex_);
    permitted_.insert({output, input});
  }
  /// A number is given to another file when its own is gone: the input must still be what was read.
  std::string behind(const std::string& output, const std::optional<FileId>& place) {
    const std::lock_guard lock(mutex_);
    for (const auto& [input, file] : files_)
      if (place == file && plain_file(input) == file && !permitted_.contains({output, input})) return input;
    return "";
  }

 private:
  std::mutex mutex_;
  bool guarded_ = false;
  std::map<std::string, FileId> files_;
  std::set<FileId> written_;
  std::set<std::pair<std::string, std::string>> permitted_;
};

Inputs& inputs() {
  static Inputs all;
  return all;
}

/// The memory limit of a container's control group, of version 2 or 1; nothing if it has none.
std::optional<std::uint64_t> group_memory() {
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream in(file);
    std::uint64_t bytes = 0;
    if (in >> bytes) return bytes;
  }
  return std::nullopt;
}

}  // namespace

InputFile::InputFile(std::string path) : path_(std::move(path)), file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY)) {
  if (file_ < 0) refuse_unreadable(path_, errno);
  struct stat s{};
  if (::fstat(file_, &s) == 0 && S_ISDIR(s.st_mode)) {
    ::close(file_);
    refuse(path_, "is a directory, not a file");
  }
  inputs().note(path_, plain_file(file_));
}

InputFile::~InputFile() { ::close(file_); }

std::optional<std::uint64_t> InputFile::size() const {
  struct stat s{};
  if (::fstat(file_, &s) != 0 || !S_ISREG(s.st_mode)) return std::nullopt;
  return static_cast<std::uint64_t>(s.st_size);
}

/// Reads until there are `count` bytes; false where the file ends before.
bool InputFile::read_more(std::size_t count) {
  while (read_.size() < count) {
    const std::size_t before = read_.size();
    read_.resize(before + std::min(kBlock, count - before));
    const ssize_t n = ::read(file_, read_.data() + before, read_.size() - before);
    const int error = errno;
    read_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    if (n < 0 && error != EINTR) refuse_unreadable(path_, error);
    if (n == 0) return false;
  }
  return true;
}

std::string_view InputFile::head(std::size_t count) {
  read_more(count);
  return std::string_view(read_).substr(0, count);
}

std::string_view InputFile::block() {
  if (passed_on_) read_.clear();
  if (read_.empty()) read_more(kBlock);
  passed_on_ = true;
  return read_;
}

void InputFile::read_at(std::uint64_t at, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t n = ::pread(file_, to.data(), to.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) refuse_unreadable(path_, errno);
    if (n == 0) refuse(path_, "is cut short", "copy it again, or give another one");
    to = to.subspan(static_cast<std::size_t>(n));
    at += static_cast<std::uint64_t>(n);
  }
}

std::string InputFile::whole(std::size_t most) {
  const std::uint64_t bytes = size().value_or(0);
  const auto too_large = [&] { refuse(path_, "is larger than " + size_text(most), "is it the right file?"); };
  if (bytes > most) too_large();
  if (const std::uint64_t memory = host_memory(); bytes > memory / 2)
    refuse(path_, "has " + size_text(bytes) + ", too many for the " + size_text(memory) + " of this host's memory",
           "give a smaller file");
  read_.reserve(bytes + 1);
  while (read_more(std::min(most, read_.size() + kBlock - 1) + 1))
    if (read_.size() > most) too_large();
  return std::move(read_);
}

std::uint64_t host_memory() {
  const auto pages = static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PHYS_PAGES)));
  std::uint64_t bytes = pages * static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PAGESIZE)));
  struct rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  if (limited) bytes = std::min<std::uint64_t>(bytes, limit.rlim_cur);
  return std::min(bytes, group_memory().value_or(bytes));
}

void guard_inputs() { inputs().guard(); }

void note_input(const std::string& path) { inputs().note(path, plain_file(path)); }

void note_written(const std::string& path) { inputs().wrote(plain_file(path)); }

void permit_replacing(const std::string& output, const std::string& input) { inputs().permit(output, input); }

std::string input_behind(const std::string& output, const std::string& place, int descriptor) {
  return inputs().behind(output, descriptor >= 0 ? plain_file(descriptor) : plain_file(place));
}

}  // namespace tandem
