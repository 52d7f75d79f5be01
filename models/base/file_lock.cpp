#include "models/base/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/new_file.hpp"

namespace tandem {
namespace {

constexpr std::string_view kSays = "locked by process ";

std::string host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unnamed host";
}

/// The first line of the file.
std::string text_of(int file) {
  std::array<char, 512> bytes{};
  const ssize_t n = ::pread(file, bytes.data(), bytes.size(), 0);
  const std::string_view text(bytes.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
  return std::string(text.substr(0, text.find('\n')));
}

/// "process 12 on host". A holder writes its name just after it has the lock, so an empty file is read again.
std::string holder(int file) {
  for (int i = 0; i < 20; ++i) {
    if (const std::string text = text_of(file); text.starts_with(kSays)) return text.substr(kSays.find("process"));
    ::usleep(5000);
  }
  return "an unnamed process";
}

/// True unless the name was removed or given to another file since `file` was opened.
bool has_name(int file, const std::string& path) {
  struct stat open{}, named{};
  if (::fstat(file, &open) != 0 || ::stat(path.c_str(), &named) != 0) return false;
  return open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

/// Closes an open file on all ways out.
class Opened {
 public:
  explicit Opened(int file) : file_(file) {}
  ~Opened() {
    if (file_ >= 0) ::close(file_);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  int number() const { return file_; }
  int take() { return std::exchange(file_, -1); }

 private:
  int file_;
};

/// A file system without locks says one of these.
bool has_no_locks(int error) { return error == ENOLCK || error == ENOSYS || error == ENOTSUP || error == EINVAL; }

}  // namespace

FileLock::FileLock(std::string path, const std::string& place) : path_(std::move(path)) {
  for (;;) {
    Opened opened(::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666));
    const int file = opened.number();
    if (file < 0) refuse_writing(path_, errno);
    if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
      const int why = errno;
      if (why == EINTR) continue;
      if (why == EWOULDBLOCK)
        throw ConfigError(Problem{place, "", "", "is in use: " + holder(file) + " saves there", "wait for its end, or give another name"});
      if (!has_no_locks(why)) refuse_writing(path_, why);
      struct stat made{};
      if (::fstat(file, &made) == 0 && made.st_size == 0) ::unlink(path_.c_str());
      return;
    }
    if (!has_name(file, path_)) continue;  // its holder has just ended and removed it
    if (const std::string before = text_of(file); !before.empty() && !before.starts_with(kSays))
      throw ConfigError(Problem{path_, "", "", "is in the way of a lock and is none", "move it away"});
    const std::string text = std::string(kSays) + std::to_string(::getpid()) + " on " + host() + "\n";
    if (::ftruncate(file, 0) != 0 || ::pwrite(file, text.data(), text.size(), 0) < 0) refuse_writing(path_, errno);
    file_ = opened.take();
    return;
  }
}

FileLock::~FileLock() {
  if (file_ < 0) return;
  if (has_name(file_, path_)) ::unlink(path_.c_str());  // while it is locked, so that nobody else has just locked it
  ::close(file_);
}

}  // namespace tandem
