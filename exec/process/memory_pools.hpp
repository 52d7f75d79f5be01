#pragma once
// How much memory a process of this host can still get, and which processes share it.

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::exec {

/// Memory that several processes share.
struct MemoryPool {
  std::string key;          ///< equal for all processes that share it, and for no others, on all hosts
  bool of_host = true;      ///< else of a control group
  std::int64_t left = 0;    ///< bytes; other processes may take them first
};

/// What the kernel calls available on the host, with free swap, and what each limited control group of this process still allows.
/// Reads `root`/proc and `root`/sys; empty where the kernel does not say (proc(5), cgroups(7); Linux: Documentation/admin-guide,
/// cgroup-v2.rst and cgroup-v1/memory.rst). A group's folder has the same inode in all containers.
std::vector<MemoryPool> memory_pools(const std::string& root = "");

}  // namespace tandem::exec
