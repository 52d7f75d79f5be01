#pragma once
// The file system, asked without exceptions. std::filesystem's calls that touch a disk stand in models/base alone, each with an
// error code (tests/style checks it).

#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace tandem {

enum class FileKind {
  absent,
  regular,
  folder,
  other,       ///< a device, a pipe, a socket
  broken_link, ///< a symbolic link to something that is not there
  unknown,     ///< the system does not say: a folder without permission, a ring of links, a name that is too long
};

struct FileState {
  FileKind kind = FileKind::absent;
  std::error_code reason;  ///< set where the kind is unknown
};

/// What stands at a path, symbolic links followed.
FileState file_state(const std::string& path);

/// Whether anything is there, links followed; false where the system does not say.
bool file_exists(const std::string& path);

bool is_folder(const std::string& path);
bool is_regular_file(const std::string& path);

/// Why nothing can be read from `path` as from a file: "there is no such file", "cannot be read: Permission denied". Empty where
/// it can be read.
std::string why_unreadable(const std::string& path);

/// Makes a folder and those above it; the reason where that fails.
std::error_code make_folders(const std::string& path);

/// Removes a file if there is one; the reason where it stays.
std::error_code remove_file(const std::string& path);

/// Removes a folder with all that is in it; the reason where something stays.
std::error_code remove_folder(const std::string& path);

/// Gives a folder another name. Where a folder has that name the two change names in one go, so that the name is never missing. The
/// reason where that fails.
std::error_code exchange_folder(const std::string& from, const std::string& to);

/// When a file was last written, in ticks of the file clock; nothing where the system does not say.
std::optional<std::int64_t> written_at(const std::string& path);

/// `path` from the root; as it stands where the current folder is gone.
std::string absolute_path(const std::string& path);

/// `path` from the root without links and dots, as far as it exists; empty where the system does not say.
std::string canonical_path(const std::string& path);

/// What a symbolic link says; empty where there is none.
std::string link_target(const std::string& path);

/// The folder for temporary files. Throws ConfigError where $TMPDIR names none.
std::string temporary_folder();

/// Names in a folder, sorted, and why there are none or not all.
struct FolderEntries {
  std::vector<std::string> names;
  std::error_code reason;
};
FolderEntries folder_entries(const std::string& path);

}  // namespace tandem
