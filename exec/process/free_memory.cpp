#include "exec/process/free_memory.hpp"

#include <algorithm>
#include <fstream>
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

Count smaller(Count a, Count b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

}  // namespace

std::optional<std::int64_t> free_memory(const std::string& root) {
  const std::string said = root + "/proc/meminfo";
  const Count available = number_behind(said, "MemAvailable:");
  Count left;
  if (available) left = (*available + number_behind(said, "SwapFree:").value_or(0)) * 1024;
  for (std::string group = own_group(root); !group.empty(); group.resize(group.rfind('/')))
    left = smaller(left, left_in_group(root + "/sys/fs/cgroup" + group));
  return smaller(left, left_in_group(root + "/sys/fs/cgroup"));  // where a container has mounted its own group
}

}  // namespace tandem::exec
