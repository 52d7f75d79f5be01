// Whether the ranks of all processes fit into the memory of their hosts.
#include "experiments/tandem/training/host_memory.hpp"

#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::program;

namespace {

constexpr std::int64_t kGib = std::int64_t{1} << 30;

exec::MemoryPool host(const std::string& name, std::int64_t gib) { return {name, true, gib * kGib}; }
exec::MemoryPool group(const std::string& name, std::int64_t gib) { return {name, false, gib * kGib}; }

MemoryNeed need(std::int64_t ranks, std::int64_t gib, const std::vector<exec::MemoryPool>& pools) {
  return {{"host-" + (pools.empty() ? "" : pools.front().key), "machine", 1}, ranks, gib * kGib, pools};
}

std::string told(const std::vector<MemoryNeed>& all) {
  const auto problem = memory_shortage("plan.json", all);
  return problem ? problem->message() : "";
}

}  // namespace

TEST_CASE("Processes of one host are refused if together they need more than it has, with both figures") {
  CHECK(told({need(2, 3, {host("a", 8)}), need(2, 3, {host("a", 8)})}).empty());
  const std::string text = told({need(2, 5, {host("b", 8)}), need(2, 5, {host("a", 8)}), need(1, 4, {host("a", 8)})});
  CHECK(text.find("plan.json: 3 ranks of 2 processes need 9.00 GiB of memory, and their host host-a has 8.00 GiB free; ") == 0);
  CHECK(told({need(2, 5, {host("a", 8)}), need(2, 5, {host("b", 8)})}).empty());
}

TEST_CASE("One process is refused alone, and hosts that say nothing are not judged") {
  CHECK(told({need(1, 9, {host("a", 8)})}).find("plan.json: 1 rank needs 9.00 GiB of memory, and this host has 8.00 GiB free; ") == 0);
  CHECK(told({need(4, 9, {host("a", 8)})}).find("plan.json: 4 ranks need 9.00 GiB") == 0);
  CHECK(told({need(1, 1, {host("a", 8)}), need(4, 9, {host("b", 8)})}).find("plan.json: 4 ranks need 9.00 GiB of memory, and their host host-b has") == 0);
  CHECK(told({need(1, 900, {}), need(1, 900, {})}).empty());
}

TEST_CASE("Processes with control groups of their own may need more together than each group allows") {
  const auto in = [](const std::string& name, std::int64_t gib) { return need(1, gib, {host("a", 16), group(name, 4)}); };
  CHECK(told({in("one", 3), in("two", 3), in("three", 3)}).empty());
  CHECK(told({in("one", 3), in("one", 3)}).find("2 ranks of 2 processes need 6.00 GiB of memory, and the memory limit of a control group "
                                                "on their host host-a leaves 4.00 GiB; ") != std::string::npos);
  CHECK(told({in("one", 3), in("two", 5)}).find("1 rank needs 5.00 GiB of memory, and the memory limit of a control group on its host "
                                                "host-a leaves 4.00 GiB; ") != std::string::npos);
  CHECK(told({in("one", 4), in("two", 4), in("three", 4), in("four", 4), in("five", 4)}).find("5 ranks of 5 processes need 20.0 GiB") !=
        std::string::npos);
}
