// What the kernel's files say about free memory. Their forms are those of proc(5) and of the kernel's cgroup-v2.rst.

#include "exec/process/free_memory.hpp"

#include <filesystem>
#include <fstream>

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

}  // namespace

TEST_CASE("free memory is what is available, or what the tightest control group of the process leaves") {
  const tests::TemporaryFolder place;
  const fs::path root = place.path();
  const auto left = [&] { return exec::free_memory(root.string()); };
  CHECK_FALSE(left());
  put(root / "proc/meminfo", "MemTotal:        8192 kB\nMemFree:         1024 kB\nMemAvailable:    4096 kB\nSwapFree:         512 kB\n");
  CHECK(left() == 4608 * kKiB);
  const fs::path group = root / "sys/fs/cgroup/jobs/mine";
  put(root / "proc/self/cgroup", "1:name=systemd:/other\n0::/jobs/mine\n");
  put(group / "memory.max", "max\n");
  put(group / "memory.current", std::to_string(3 * kMiB) + "\n");
  CHECK(left() == 4608 * kKiB);
  put(group / "memory.max", std::to_string(5 * kMiB) + "\n");
  CHECK(left() == 2 * kMiB);
  put(group / "memory.stat", "anon 1\nfile 2\ninactive_file " + std::to_string(kMiB) + "\n");
  CHECK(left() == 3 * kMiB);
  put(group.parent_path() / "memory.max", std::to_string(4 * kMiB) + "\n");
  put(group.parent_path() / "memory.current", std::to_string(4 * kMiB + kKiB) + "\n");
  CHECK(left() == 0);
}

TEST_CASE("this host says how much memory is free") {
  const auto left = exec::free_memory();
  REQUIRE(left);
  CHECK(*left > 16 * kMiB);
}
