#pragma once
// The identities of the processes, and whether those on this machine are alive.

#include <string>
#include <vector>

#include "exec/process/carrier.hpp"

namespace tandem::exec {

struct Neighbour {
  std::string host;     ///< host name
  std::string machine;  ///< equal for processes that can see each other's process ids
  int pid = 0;
};

/// Tells this kernel from those of other hosts: its boot id in `root`/proc, else the host's name.
std::string kernel_name(const std::string& root = "");

/// Describes this process.
Neighbour introduce_self();

/// False once a process on this machine has ended. Always true for processes on other machines, whose state is unknown.
bool lives(const Neighbour& self, const Neighbour& other);

}  // namespace tandem::exec
