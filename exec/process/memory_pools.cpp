#include "exec/process/memory_pools.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

namespace tandem::exec {
namespace {

using Count = std::optional<std::int64_t>;

/// The number behind a word at the beginning of a line.
Count number_behind(const std::string& path, const std::string& word) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string first;
    std::int64_t number = 0;
    if (words >> first >> number && first == word) return number;
  }
  return std::nullopt;
}

/// A file with one number; nothing for others, such as "max".
Count only_number(const std::string& path) {
  std::ifstream in(path);
  std::int64_t number = 0;
  return in >> number ? Count(number) : std::nullopt;
}

/// Pages of files do not count as used: the kernel gives them up.
Count left_in_group(const std::string& folder) {
  const Count most = only_number(folder + "/memory.max"), used = only_number(folder + "/memory.current");
  if (!most || !used) return std::nullopt;
  const std::int64_t files = number_behind(folder + "/memory.stat", "inactive_file").value_or(0);
  return std::max<std::int64_t>(0, *most - (*used - files));
}

/// This process' control group, as a path from the root of all: "/" or "/a/b"; empty if there is none of version 2.
std::string own_group(const std::string& root) {
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("0::")) return line.substr(3);
  return "";
}

/// Tells this kernel from those of other hosts.
std::string kernel(const std::string& root) {
  std::ifstream in(root + "/proc/sys/kernel/random/boot_id");
  std::string id;
  in >> id;
  return id;
}

class Pools {
 public:
  explicit Pools(const std::string& root) : root_(root), kernel_(kernel(root)) {
    add_host();
    for (std::string group = own_group(root); !group.empty(); group.resize(group.rfind('/'))) add_group("/sys/fs/cgroup" + group);
    add_group("/sys/fs/cgroup");  // where a container has mounted its own group
  }

  std::vector<MemoryPool> take() { return std::move(pools_); }

 private:
  void add_host() {
    const std::string said = root_ + "/proc/meminfo";
    if (const Count available = number_behind(said, "MemAvailable:"))
      pools_.push_back({kernel_, true, (*available + number_behind(said, "SwapFree:").value_or(0)) * 1024});
  }

  void add_group(const std::string& folder) {
    struct stat s{};
    const Count left = left_in_group(root_ + folder);
    if (!left || ::stat((root_ + folder).c_str(), &s) != 0) return;
    const std::string key = kernel_ + " " + std::to_string(s.st_ino);
    if (pools_.empty() || pools_.back().key != key) pools_.push_back({key, false, *left});
  }

  const std::string& root_;
  const std::string kernel_;
  std::vector<MemoryPool> pools_;
};

}  // namespace

std::vector<MemoryPool> memory_pools(const std::string& root) { return Pools(root).take(); }

}  // namespace tandem::exec
