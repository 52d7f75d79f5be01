#include "models/base/new_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "models/base/error.hpp"

namespace tandem {
namespace {

std::string remedy_of(int error) {
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS: return "give another place, or make its folder writable for this user";
    case ENOSPC:
    case EDQUOT: return "make room there, or give another place";
    default: return "give another place";
  }
}

/// Some file systems cannot say.
bool synchronise(int file) { return ::fsync(file) == 0 || errno == EINVAL || errno == ENOTSUP; }

}  // namespace

int open_new_file(const std::string& path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const int file = ::open(path.c_str(), kFlags, 0666);
  return file < 0 && errno == EEXIST && ::unlink(path.c_str()) == 0 ? ::open(path.c_str(), kFlags, 0666) : file;
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

void refuse_writing(const std::string& name, int error) {
  throw ConfigError(Problem{name, "", "", "cannot be written: " + std::generic_category().message(error), remedy_of(error)});
}

NewFile::NewFile(std::string path, std::string name) : path_(std::move(path)), name_(std::move(name)), file_(open_new_file(path_)) {
  if (file_ < 0) refuse_writing(name_, errno);
}

NewFile::~NewFile() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(path_.c_str());
}

void NewFile::add(std::string_view bytes) {
  if (!write_all(file_, bytes)) refuse_writing(name_, errno);
}

void NewFile::close() {
  if (!synchronise(file_)) refuse_writing(name_, errno);
  const bool closed = ::close(std::exchange(file_, -1)) == 0;
  if (closed) return;
  const int why = errno;
  ::unlink(path_.c_str());
  refuse_writing(name_, why);
}

void synchronise_folder(const std::string& folder) {
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  synchronise(file);
  ::close(file);
}

}  // namespace tandem
