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

/// The kind of file at a path. Follows symbolic links.
FileState file_state(const std::string& path);

/// Whether anything is at a path, links followed; false if the system does not say.
bool file_exists(const std::string& path);

bool is_folder(const std::string& path);
bool is_regular_file(const std::string& path);

/// Why `path` cannot be read as a file: "there is no such file",
/// "cannot be read: Permission denied". Empty if it can be read.
std::string why_unreadable(const std::string& path);

/// Creates a folder and its parents. Returns the reason if that fails.
std::error_code make_folders(const std::string& path);

/// Removes a file if it exists. Returns the reason if it stays.
std::error_code remove_file(const std::string& path);

/// Removes a folder with its content. Returns the reason if anything stays.
std::error_code remove_folder(const std::string& path);

/// Renames a folder. If the new name exists, the two folders swap names, atomically if
/// the file system can, so that the name always exists. Returns the reason if that fails.
std::error_code exchange_folder(const std::string& from, const std::string& to);

/// Time of the last write, in ticks of the file clock. Nothing if the system does not say.
std::optional<std::int64_t> written_at(const std::string& path);

/// The absolute path; unchanged if the current folder no longer exists.
std::string absolute_path(const std::string& path);

/// The absolute path without links and dots, as far as it exists; empty if the system does not say.
std::string canonical_path(const std::string& path);

/// The target of a symbolic link; empty if there is none.
std::string link_target(const std::string& path);

/// The folder for temporary files. Throws ConfigError if $TMPDIR is not a folder.
std::string temporary_folder();

/// Names in a folder, sorted. Also the reason if there are none or some are missing.
struct FolderEntries {
  std::vector<std::string> names;
  std::error_code reason;
};
FolderEntries folder_entries(const std::string& path);

}  // namespace tandem
