#pragma once
// Slurm's notation for lists of host names.

#include <string>
#include <string_view>
#include <vector>

namespace tandem::exec {

/// Expands "node[01-03,7],login" to node01, node02, node03, node7, login. Leading zeros are kept. Of several brackets in a name,
/// the last counts fastest. Returns nothing if the text is no such list or has more than 100,000 hosts. Source: Slurm's "hostlist
/// expressions" (man scontrol, show hostnames).
std::vector<std::string> expand_host_list(std::string_view text);

}  // namespace tandem::exec
