#pragma once
// How much memory a process of this host can still get.

#include <cstdint>
#include <optional>
#include <string>

namespace tandem::exec {

/// Bytes: what the kernel calls available, with free swap, or what a control group of this process still allows, if that is less.
/// Other processes may take them first. Reads `root`/proc and `root`/sys; nothing where the kernel does not say (proc(5); Linux:
/// Documentation/admin-guide/cgroup-v2.rst, memory.max, memory.current, memory.stat).
std::optional<std::int64_t> free_memory(const std::string& root = "");

}  // namespace tandem::exec
