#include "exec/process/memory_pools.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#include "exec/process/neighbours.hpp"

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

/// The memory controller in one version of control groups.
struct Version {
  std::string mount;       ///< where the root of all groups, or a container's own group, is mounted
  std::string controller;  ///< in a line of /proc/self/cgroup
  std::string most, used, files;
};

const std::vector<Version>& versions() {
  static const std::vector<Version> all = {
      {"/sys/fs/cgroup", "", "memory.max", "memory.current", "inactive_file"},
      {"/sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}};
  return all;
}

/// Version 1 writes "no limit" as the largest number of whole pages.
constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max() / 2;

/// Pages of files do not count as used: the kernel gives them up.
Count left_in_group(const std::string& folder, const Version& v) {
  const Count most = only_number(folder + "/" + v.most), used = only_number(folder + "/" + v.used);
  if (!most || !used || *most > kNoLimit) return std::nullopt;
  const std::int64_t files = number_behind(folder + "/memory.stat", v.files).value_or(0);
  return std::max<std::int64_t>(0, *most - (*used - files));
}

/// This process' control group, as a path from the root of all: "/" or "/a/b"; empty if there is none of that version. A line is
/// NUMBER:CONTROLLER,CONTROLLER...:PATH.
std::string own_group(const std::string& root, const Version& v) {
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers.find("," + v.controller + ",") != std::string::npos) return line.substr(second + 1);
  }
  return "";
}

class Pools {
 public:
  explicit Pools(const std::string& root) : root_(root), kernel_(kernel_name(root)) {
    add_host();
    for (const Version& v : versions()) {
      for (std::string group = own_group(root, v); !group.empty(); group.resize(group.rfind('/'))) add_group(v.mount + group, v);
      add_group(v.mount, v);
    }
  }

  std::vector<MemoryPool> take() { return std::move(pools_); }

 private:
  void add_host() {
    const std::string said = root_ + "/proc/meminfo";
    if (const Count available = number_behind(said, "MemAvailable:"))
      pools_.push_back({kernel_, true, (*available + number_behind(said, "SwapFree:").value_or(0)) * 1024});
  }

  void add_group(const std::string& folder, const Version& v) {
    struct stat s{};
    const Count left = left_in_group(root_ + folder, v);
    if (!left || ::stat((root_ + folder).c_str(), &s) != 0) return;
    const std::string key = kernel_ + " " + v.controller + std::to_string(s.st_ino);
    if (pools_.empty() || pools_.back().key != key) pools_.push_back({key, false, *left});
  }

  const std::string& root_;
  const std::string kernel_;
  std::vector<MemoryPool> pools_;
};

}  // namespace

std::vector<MemoryPool> memory_pools(const std::string& root) { return Pools(root).take(); }

}  // namespace tandem::exec
