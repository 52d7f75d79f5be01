#pragma once
// Temporary files that a killed process leaves beside its output.

#include <string>
#include <vector>

namespace tandem {

/// Removes the halves of the file that `path` names (at the end of its symbolic links) that write_text had begun in processes that are gone: regular files PATH.PID.new beside it whose process
/// does not live and that nobody has written to for ten minutes (the writer may live on another host that shares the folder). Returns
/// their paths, ascending; what cannot be read or removed stays, and is not among them.
std::vector<std::string> remove_leftovers(const std::string& path);

/// Likewise for folders NAME.PID.new in `folder`. Their age is that of the last write to them or to a file in them.
std::vector<std::string> remove_leftover_folders(const std::string& folder);

}  // namespace tandem
