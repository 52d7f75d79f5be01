#include "models/base/files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "models/base/error.hpp"

namespace tandem {
namespace {

namespace fs = std::filesystem;

/// A name below something that is no folder is the name of nothing.
bool says_absent(const std::error_code& reason) {
  return reason == std::errc::no_such_file_or_directory || reason == std::errc::not_a_directory;
}

FileKind kind_of(fs::file_type type) {
  switch (type) {
    case fs::file_type::regular: return FileKind::regular;
    case fs::file_type::directory: return FileKind::folder;
    default: return FileKind::other;
  }
}

FileKind absent_or_link(const std::string& path) {
  std::error_code ignored;
  return fs::is_symlink(fs::symlink_status(path, ignored)) ? FileKind::broken_link : FileKind::absent;
}

}  // namespace

FileState file_state(const std::string& path) {
  std::error_code reason;
  const fs::file_type type = fs::status(path, reason).type();
  if (type == fs::file_type::not_found || says_absent(reason)) return {absent_or_link(path), {}};
  if (reason || type == fs::file_type::none) return {FileKind::unknown, reason};
  return {kind_of(type), {}};
}

bool file_exists(const std::string& path) {
  const FileKind kind = file_state(path).kind;
  return kind == FileKind::regular || kind == FileKind::folder || kind == FileKind::other;
}

bool is_folder(const std::string& path) { return file_state(path).kind == FileKind::folder; }

bool is_regular_file(const std::string& path) { return file_state(path).kind == FileKind::regular; }

std::string why_unreadable(const std::string& path) {
  const FileState state = file_state(path);
  switch (state.kind) {
    case FileKind::absent: return "there is no such file";
    case FileKind::folder: return "is a directory, not a file";
    case FileKind::broken_link: return "is a link to a file that is not there";
    case FileKind::unknown: return "cannot be read: " + state.reason.message();
    case FileKind::regular:
    case FileKind::other: break;
  }
  return ::access(path.c_str(), R_OK) == 0 ? "" : "cannot be read: " + std::generic_category().message(errno);
}

std::error_code make_folders(const std::string& path) {
  std::error_code reason;
  fs::create_directories(path, reason);
  return reason;
}

std::error_code remove_file(const std::string& path) {
  std::error_code reason;
  fs::remove(path, reason);
  return reason;
}

std::error_code remove_folder(const std::string& path) {
  std::error_code reason;
  fs::remove_all(path, reason);
  return reason;
}

std::error_code exchange_folder(const std::string& from, const std::string& to) {
  const unsigned both = is_folder(to) ? RENAME_EXCHANGE : 0;
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), both) == 0) return {};
  if (errno != EINVAL && errno != ENOSYS) return {errno, std::generic_category()};
  // A file system that cannot exchange names: for a moment none has the name.
  if (const std::string old = from + ".old"; both != 0 && ::rename(to.c_str(), old.c_str()) == 0) {
    if (::rename(from.c_str(), to.c_str()) == 0)
      return {::rename(old.c_str(), from.c_str()) == 0 ? 0 : errno, std::generic_category()};
    const int why = errno;
    static_cast<void>(::rename(old.c_str(), to.c_str()));
    return {why, std::generic_category()};
  }
  return {::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno, std::generic_category()};
}

std::optional<std::int64_t> written_at(const std::string& path) {
  std::error_code reason;
  const auto time = fs::last_write_time(path, reason);
  return reason ? std::nullopt : std::optional<std::int64_t>(time.time_since_epoch().count());
}

std::string absolute_path(const std::string& path) {
  std::error_code reason;
  const fs::path whole = fs::absolute(path, reason);
  return reason ? path : whole.string();
}

std::string canonical_path(const std::string& path) {
  std::error_code reason;
  const fs::path whole = fs::weakly_canonical(absolute_path(path), reason);
  return reason ? std::string() : whole.string();
}

std::string link_target(const std::string& path) {
  std::error_code reason;
  const fs::path target = fs::read_symlink(path, reason);
  return reason ? std::string() : target.string();
}

std::string temporary_folder() {
  std::error_code reason;
  const fs::path folder = fs::temp_directory_path(reason);
  if (!reason) return folder.string();
  throw ConfigError(Problem{"", "TMPDIR", folder.string(), "is no folder for temporary files: " + reason.message(),
                            "unset it, or name a folder that can be written"});
}

FolderEntries folder_entries(const std::string& path) {
  FolderEntries found;
  fs::directory_iterator entry(path, found.reason);
  for (; !found.reason && entry != fs::directory_iterator(); entry.increment(found.reason))
    found.names.push_back(entry->path().filename().string());
  std::sort(found.names.begin(), found.names.end());
  return found;
}

}  // namespace tandem
