// Whether the ranks of all processes of a host fit into its memory.
#include "experiments/tandem/training/host_memory.hpp"

#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::program;

namespace {

constexpr std::int64_t kGib = std::int64_t{1} << 30;

MemoryNeed need(const std::string& machine, std::int64_t ranks, std::int64_t gib, std::optional<std::int64_t> left) {
  if (left) *left *= kGib;
  return {{"host-" + machine, machine, 1}, ranks, gib * kGib, left};
}

std::string told(const std::vector<MemoryNeed>& all) {
  const auto problem = memory_shortage("plan.json", all);
  return problem ? problem->message() : "";
}

}  // namespace

TEST_CASE("Processes of one host are refused if together they need more than it has, with both figures") {
  CHECK(told({need("a", 2, 3, 8), need("a", 2, 3, 8)}).empty());
  const std::string text = told({need("b", 2, 5, 8), need("a", 2, 5, 8), need("a", 1, 4, 8)});
  CHECK(text.find("plan.json: 3 ranks of 2 processes need 9.00 GiB of memory, and their host host-a has 8.00 GiB free; ") == 0);
  CHECK(told({need("a", 2, 5, 8), need("b", 2, 5, 8)}).empty());
}

TEST_CASE("One process is refused by the limit of its own, and hosts that say nothing are not judged") {
  CHECK(told({need("a", 1, 9, 8)}).find("plan.json: 1 rank needs 9.00 GiB of memory, and this host has 8.00 GiB free; ") == 0);
  CHECK(told({need("a", 4, 9, 8)}).find("plan.json: 4 ranks need 9.00 GiB") == 0);
  CHECK(told({need("a", 1, 3, 4), need("a", 1, 3, 16)}).empty());  // limits of their own: the host has at least the larger
  CHECK_FALSE(told({need("a", 1, 5, 4), need("a", 1, 3, 16)}).empty());
  CHECK(told({need("a", 1, 900, {}), need("a", 1, 900, {})}).empty());
}
