// Which splits of layers over stages the options of stacks say, by date.
#include "models/stack/stack_splits.hpp"

#include "models/plan/plan.hpp"
#include "tests/catch.hpp"

using namespace tandem;

namespace {

StackSplits of(const std::string& stack, Month as_of, std::int64_t chunks = 1, std::int64_t recurrences = 0) {
  Plan p;
  p.stack.name = stack;
  p.stack.as_of = as_of;
  p.parallel.pipeline = 4;
  p.parallel.virtual_pipeline = chunks;
  p.model.recurrence.heads = recurrences;
  return stack_splits(p);
}

}  // namespace

TEST_CASE("Megatron-LM sets the ends' layers since September 2024, and those of every chunk since June 2025") {
  CHECK(of("megatron-core", {2024, 8}).choice == StageChoice::none);
  CHECK(of("megatron-core", {2024, 9}).choice == StageChoice::ends);
  CHECK(of("megatron-core", {2024, 9}, 2).choice == StageChoice::none);  // not with interleaved schedules
  CHECK(of("megatron-core", {2025, 2}, 2).choice == StageChoice::ends);
  CHECK(of("megatron-core", {2025, 6}, 2).choice == StageChoice::any);
  CHECK(of("megatron-core", {2025, 6}).empty_ends);
  CHECK(of("nemo", {2025, 6}).choice == StageChoice::any);
}

TEST_CASE("Megatron-LM splits a hybrid's pattern since February 2026, each stage with a layer") {
  CHECK(of("megatron-core", {2026, 1}, 1, 8).choice == StageChoice::none);
  CHECK(of("megatron-core", {2026, 2}, 1, 8).choice == StageChoice::any);
  CHECK_FALSE(of("megatron-core", {2026, 2}, 1, 8).empty_ends);
}

TEST_CASE("stacks that split by a rule of their own say no split") {
  for (const char* stack : {"internevo", "nanotron", "megatron-deepspeed", "jax", "no-such-stack"})
    CHECK(of(stack, {2026, 1}).choice == StageChoice::none);
}
