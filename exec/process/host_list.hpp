#pragma once
// Slurm's way to write the names of many hosts.

#include <string>
#include <string_view>
#include <vector>

namespace tandem::exec {

/// "node[01-03,7],login" as node01, node02, node03, node7, login. Numbers keep their leading zeros; a name may have several brackets,
/// the last of which counts fastest. Nothing where the text is no such list, or one of more than 100,000 hosts.
/// Source: Slurm's "hostlist expressions" (man scontrol, show hostnames).
std::vector<std::string> expand_host_list(std::string_view text);

}  // namespace tandem::exec
