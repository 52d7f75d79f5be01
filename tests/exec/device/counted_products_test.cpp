// What a device prepares for products of experts whose rows are counted in the step.
#include <algorithm>
#include <vector>

#include "exec/device/works/work.hpp"
#include "tests/catch.hpp"

namespace tandem::exec::test {
namespace {

constexpr std::int64_t kRanks = 2, kExperts = 3, kWide = 16, kNarrow = 8, kMost = 64;

/// An operation and operands that nobody reads.
struct Counted {
  Op op;
  std::vector<Tensor> in, out;
  KernelContext context;

  Launch launch(const std::vector<std::int32_t>& rows) const { return {op, DType::bf16, in, out, context, rows}; }
};

Tensor tensor(std::uintptr_t address, std::int64_t elements, DType type = DType::bf16) {
  return {reinterpret_cast<std::byte*>(address), type, elements};
}

std::vector<Counted> operations() {
  const Tensor rows = tensor(1 << 20, kMost * kWide), more = tensor(2 << 20, kMost * kNarrow),
               weights = tensor(3 << 20, kExperts * kWide * kNarrow), counts = tensor(4 << 20, kRanks * kExperts, DType::int32);
  const GroupedMatMul product{kRanks, kExperts, kMost / 2, kNarrow, kWide, true, true};
  const GroupedWeightGrad gradient{kRanks, kExperts, kMost / 2, kWide, kNarrow, true, true};
  return {{product, {rows, weights, counts}, {more}, {}}, {gradient, {rows, more, counts, weights}, {weights}, {}}};
}

std::vector<device::Product> products_of(const Launch& launch) {
  static std::byte scratch[1 << 20];
  std::vector<device::Product> all;
  for (const device::Work& work : device::works_of(launch, {{}, nullptr, scratch}))
    if (const auto* product = std::get_if<device::Product>(&work)) all.push_back(*product);
  return all;
}

}  // namespace

TEST_CASE("products of one expert have the shapes of products whose rows are counted") {
  for (const Counted& c : operations()) {
    CHECK(device::most_rows(c.launch({})) == kMost);
    const auto counted = products_of(c.launch({0, 5, 0, 0, 2, 0}));  // one expert's rows, from two ranks
    REQUIRE_FALSE(counted.empty());
    for (const device::Product& p : counted) {
      const std::int64_t rows = std::holds_alternative<GroupedMatMul>(c.op) ? p.shape.out.cols : p.shape.summed();
      const Op one = device::of_one_expert(c.op, rows);
      const std::vector<std::int32_t> all{static_cast<std::int32_t>(rows)};
      const auto prepared = products_of({one, DType::bf16, c.in, c.out, c.context, all});
      REQUIRE(prepared.size() == 1);
      CHECK(prepared[0].shape == p.shape);
    }
  }
}

TEST_CASE("scratch memory for the most rows is enough for any numbers of rows") {
  for (const Counted& c : operations()) {
    const std::int64_t most = device::most_scratch_bytes(c.launch({}));
    std::int64_t largest = 0;
    for (std::int32_t first = 0; first <= kMost; ++first)
      largest = std::max(largest, device::scratch_bytes(c.launch({first, 0, 0, static_cast<std::int32_t>(kMost) - first, 0, 0})));
    CHECK(most == largest);
    CHECK(device::scratch_bytes(c.launch({9, 1, 30, 0, 20, 4})) <= most);
  }
}

}  // namespace tandem::exec::test
