// What the kernel's files say about free memory. Their forms are those of proc(5) and of the kernel's cgroup-v2.rst and
// cgroup-v1/memory.rst.

#include "exec/process/memory_pools.hpp"

#include <filesystem>
#include <fstream>
#include <set>

#include "exec/process/neighbours.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kKiB = 1024, kMiB = 1024 * kKiB;

void put(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

std::vector<std::int64_t> left_of(const std::vector<exec::MemoryPool>& pools) {
  std::vector<std::int64_t> left;
  for (const exec::MemoryPool& p : pools) left.push_back(p.left);
  return left;
}

using Left = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("a process shares the host's available memory, and what each limited control group of it leaves") {
  const tests::TemporaryFolder place;
  const fs::path root = place.path();
  const auto left = [&] { return left_of(exec::memory_pools(root.string())); };
  CHECK(left().empty());
  put(root / "proc/meminfo", "MemTotal:        8192 kB\nMemFree:         1024 kB\nMemAvailable:    4096 kB\nSwapFree:         512 kB\n");
  CHECK(left() == Left{4608 * kKiB});
  const fs::path group = root / "sys/fs/cgroup/jobs/mine";
  put(root / "proc/self/cgroup", "1:name=systemd:/other\n0::/jobs/mine\n");
  put(group / "memory.max", "max\n");
  put(group / "memory.current", std::to_string(3 * kMiB) + "\n");
  CHECK(left() == Left{4608 * kKiB});
  put(group / "memory.max", std::to_string(5 * kMiB) + "\n");
  CHECK(left() == Left{4608 * kKiB, 2 * kMiB});
  put(group / "memory.stat", "anon 1\nfile 2\ninactive_file " + std::to_string(kMiB) + "\n");
  CHECK(left() == Left{4608 * kKiB, 3 * kMiB});
  put(group.parent_path() / "memory.max", std::to_string(4 * kMiB) + "\n");
  put(group.parent_path() / "memory.current", std::to_string(4 * kMiB + kKiB) + "\n");
  CHECK(left() == Left{4608 * kKiB, 3 * kMiB, 0});
}

TEST_CASE("control groups of version 1 limit a process, too, in a container and not") {
  const tests::TemporaryFolder place;
  const fs::path root = place.path(), mount = root / "sys/fs/cgroup/memory";
  const auto left = [&] { return left_of(exec::memory_pools(root.string())); };
  const auto limit = [](const fs::path& group, std::int64_t most, std::int64_t used, std::int64_t files) {
    put(group / "memory.limit_in_bytes", std::to_string(most) + "\n");
    put(group / "memory.usage_in_bytes", std::to_string(used) + "\n");
    put(group / "memory.stat", "inactive_file 7\ntotal_inactive_file " + std::to_string(files) + "\n");
  };
  constexpr std::int64_t kUnlimited = 9223372036854771712;
  put(root / "proc/self/cgroup", "5:cpu,cpuacct:/other\n4:hugetlb,memory:/jobs/mine\n1:name=systemd:/x\n0::/\n");
  limit(mount / "jobs/mine", 5 * kMiB, 3 * kMiB, kMiB);
  limit(mount / "jobs", kUnlimited, 3 * kMiB, 0);
  limit(mount, kUnlimited, 9 * kMiB, 0);
  CHECK(left() == Left{3 * kMiB});
  limit(mount / "jobs", 4 * kMiB, 3 * kMiB, 0);
  CHECK(left() == Left{3 * kMiB, kMiB});
  put(root / "proc/self/cgroup", "4:memory:/docker/some\n");  // the path outside, with the own group mounted at the root
  limit(mount, 2 * kMiB, kMiB / 2, 0);
  CHECK(left() == Left{3 * kMiB / 2});
}

TEST_CASE("a host without a boot id is told from others by its name") {
  const tests::TemporaryFolder place;
  put(place.path() / "proc/meminfo", "MemAvailable:    4096 kB\n");
  const auto pools = exec::memory_pools(place.path().string());
  REQUIRE(pools.size() == 1);
  CHECK(pools.front().key == exec::introduce_self().host);
  CHECK_FALSE(pools.front().key.empty());
}

TEST_CASE("pools of two processes have the same key where they are the same") {
  const tests::TemporaryFolder place;
  const fs::path root = place.path();
  put(root / "proc/meminfo", "MemAvailable:    4096 kB\n");
  put(root / "proc/sys/kernel/random/boot_id", "a-b\n");
  for (const std::string group : {"jobs", "jobs/one", "jobs/two"}) {
    put(root / "sys/fs/cgroup" / group / "memory.max", std::to_string(kMiB) + "\n");
    put(root / "sys/fs/cgroup" / group / "memory.current", "0\n");
  }
  const auto pools_in = [&](const std::string& group) {
    put(root / "proc/self/cgroup", "0::" + group + "\n");
    return exec::memory_pools(root.string());
  };
  const auto one = pools_in("/jobs/one"), two = pools_in("/jobs/two");
  REQUIRE(one.size() == 3);
  REQUIRE(two.size() == 3);
  CHECK(one[0].of_host);
  CHECK(one[0].key == two[0].key);
  CHECK_FALSE(one[1].of_host);
  CHECK(one[1].key != two[1].key);
  CHECK(one[2].key == two[2].key);
  put(root / "proc/sys/kernel/random/boot_id", "c-d\n");
  CHECK(pools_in("/jobs/one")[2].key != one[2].key);
}

TEST_CASE("this host says how much memory is free") {
  const auto pools = exec::memory_pools();
  REQUIRE_FALSE(pools.empty());
  CHECK(pools.front().of_host);
  CHECK(pools.front().left > 16 * kMiB);
  std::set<std::string> keys;
  for (const auto& p : pools) keys.insert(p.key);
  CHECK(keys.size() == pools.size());
}
