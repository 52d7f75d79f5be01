// What a device cannot do fails where the host emulates it.
#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/emulated/perform.hpp"

namespace tandem::exec::test {
namespace {

using device::Form;
using device::Grid;

/// One block whose threads call the block again, so that not all of them would reach a barrier.
struct CallsInside {
  Form form;

  Grid grid() const { return {1}; }
  template <class S, class Block>
  void run(Block& block) const {
    block.each(2, [&](std::int64_t i) { block.each(i, [](std::int64_t) {}); });
  }
};

/// A warp that takes `slots` slots, one each.
struct TakesSlots {
  Form form;
  std::int64_t slots;

  Grid grid() const { return {1}; }
  template <class S, class Block>
  void run(Block& block) const {
    block.template teams<32>(0, 1, [&](const auto& team, std::int64_t) { team.template each<1>(slots, [](device::Slot) {}); });
  }
};

struct Launches {
  Form form;
  Grid wanted;

  Grid grid() const { return wanted; }
  template <class S, class Block>
  void run(Block&) const {}
};

}  // namespace

TEST_CASE("a thread of an emulated block cannot call the block") {
  CHECK_THROWS_AS(tests::perform_kernel(CallsInside{Form::floats}), ContractError);
}

TEST_CASE("a team of an emulated block takes no more slots than its threads hold") {
  CHECK_NOTHROW(tests::perform_kernel(TakesSlots{Form::floats, 32}));
  CHECK_THROWS_AS(tests::perform_kernel(TakesSlots{Form::floats, 33}), ContractError);
}

TEST_CASE("an emulated kernel has no more blocks and shared memory than a device gives") {
  CHECK_NOTHROW(tests::perform_kernel(Launches{Form::floats, {1, tests::kMostShared}}));
  CHECK_THROWS_AS(tests::perform_kernel(Launches{Form::floats, {1, tests::kMostShared + 1}}), ContractError);
  CHECK_THROWS_AS(tests::perform_kernel(Launches{Form::floats, {std::int64_t{1} << 31}}), ContractError);
}

}  // namespace tandem::exec::test
