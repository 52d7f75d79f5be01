#pragma once
// Who the other processes are, and whether those of this host still live.

#include <string>
#include <vector>

#include "exec/process/carrier.hpp"

namespace tandem::exec {

struct Neighbour {
  std::string host;     ///< its name
  std::string machine;  ///< the same for all processes that see each other's numbers
  int pid = 0;
};

/// This process.
Neighbour introduce_self();

/// False once a process of this machine has ended; true for those of others, of whom nothing is known.
bool lives(const Neighbour& self, const Neighbour& other);

}  // namespace tandem::exec
