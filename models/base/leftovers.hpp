#pragma once
// Temporary files that a killed process leaves beside its output.

#include <string>
#include <vector>

namespace tandem {

/// Removes unfinished files of killed processes: regular files PATH.PID.new beside `path` (at the end of its
/// symbolic links) whose process has ended. They must be unwritten for ten minutes, since a writer may run on
/// another host. Returns their paths, ascending. A file that cannot be read or removed stays and is not returned.
std::vector<std::string> remove_leftovers(const std::string& path);

/// Likewise for folders NAME.PID.new in `folder`. Their age is that of the last write to them or to a file in them.
std::vector<std::string> remove_leftover_folders(const std::string& folder);

}  // namespace tandem
