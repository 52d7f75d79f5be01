#include "models/base/appended_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "models/base/error.hpp"
#include "models/base/output.hpp"

namespace tandem {

AppendedFile::AppendedFile(const std::string& path) {
  const OutputPlace place = output_place(path);
  own_ = place.descriptor < 0;
  file_ = place.descriptor >= 0 ? ::dup(place.descriptor) : ::open(place.path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file_ < 0) throw ConfigError(Problem{path, "", "", std::string("cannot be opened: ") + std::strerror(errno), "give another file"});
}

AppendedFile::~AppendedFile() { ::close(file_); }

void AppendedFile::flush() { ::fsync(file_); }

std::error_code AppendedFile::add(std::string_view text) {
  const off_t whole = own_ ? ::lseek(file_, 0, SEEK_END) : -1;  // -1: a pipe
  const std::error_code failed = write_all(text);
  if (failed && whole >= 0) [[maybe_unused]] const int cut = ::ftruncate(file_, whole);  // fails on a device, where nothing stays
  return failed;
}

std::error_code AppendedFile::write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(file_, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return {errno, std::generic_category()};
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

}  // namespace tandem
