#include "models/plan/batch_growth.hpp"

#include "tests/catch.hpp"

using namespace tandem;
using End = BatchGrowth::End;

namespace {

/// update_train_iters of Megatron-LM (megatron/training/training.py), with its calculator of the batch, line by line.
std::int64_t train_iters(const BatchGrowth& g, std::int64_t train_samples) {
  const double each = double(g.ramp.samples) / double((g.full - g.ramp.start) / g.ramp.increment);
  std::int64_t iterations = 0, consumed = 0;
  while (consumed <= g.ramp.samples && consumed <= train_samples) {
    consumed += consumed > g.ramp.samples ? g.full : g.ramp.start + int(double(consumed) / each) * g.ramp.increment;
    ++iterations;
  }
  return train_samples > consumed ? iterations + (train_samples - consumed) / g.full : iterations;
}

}  // namespace

TEST_CASE("a run with a growing batch takes the steps that Megatron-LM counts") {
  const BatchGrowth gpt3{1536, {16, 16, 5'859'375}}, bloom{1024, {16, 16, 5'000'000}}, odd{48, {6, 7, 901}}, short_one{64, {32, 32, 64}};
  for (const BatchGrowth& g : {gpt3, bloom, odd, short_one, BatchGrowth{8, {2, 3, 7}}})
    for (const std::int64_t samples : {1, 5, 900, 12'345, 6'000'000, 146'484'375}) {
      CAPTURE(g.full, samples);
      CHECK(g.steps_of(samples, End::whole_batches) == train_iters(g, samples));
    }
}

TEST_CASE("a batch that is full from the beginning divides the sequences") {
  const BatchGrowth plain{512, {}}, full{512, {512, 8, 1000}};
  for (const BatchGrowth& g : {plain, full}) {
    CHECK(g.steps_of(5 * 512 + 1, End::whole_batches) == 5);
    CHECK(g.steps_of(5 * 512 + 1, End::all_sequences) == 6);
    CHECK(g.steps_of(5 * 512, End::all_sequences) == 5);
  }
}
