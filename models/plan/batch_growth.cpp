#include "models/plan/batch_growth.hpp"

#include <algorithm>

namespace tandem {
namespace {

/// Sequences between two increments. Megatron-LM divides in floating point, so this does too. Integer division would differ
/// where an increment is not a whole number of sequences.
double sequences_between(const BatchGrowth& g) {
  return static_cast<double>(g.ramp.samples) / static_cast<double>((g.full - g.ramp.start) / g.ramp.increment);
}

std::int64_t over(std::int64_t sequences, std::int64_t batch) { return (sequences - 1) / batch + 1; }

}  // namespace

std::int64_t BatchGrowth::batch_after(std::int64_t consumed) const {
  if (ramp.start == 0 || ramp.start == full || consumed > ramp.samples) return full;
  return ramp.start + static_cast<std::int64_t>(static_cast<double>(consumed) / sequences_between(*this)) * ramp.increment;
}

std::int64_t BatchGrowth::steps_at(std::int64_t consumed, std::int64_t most) const {
  const std::int64_t batch = batch_after(consumed);
  if (batch == full) return most;
  const double next = static_cast<double>((batch - ramp.start) / ramp.increment + 1) * sequences_between(*this);
  const double left = std::min(next, static_cast<double>(ramp.samples)) - static_cast<double>(consumed);
  const auto surely = static_cast<std::int64_t>(left / static_cast<double>(batch)) - 1;
  std::int64_t n = std::clamp<std::int64_t>(surely, 1, most);
  while (n < most && batch_after(consumed + n * batch) == batch) ++n;
  return n;
}

std::int64_t BatchGrowth::steps_of(std::int64_t sequences, End end) const {
  std::int64_t steps = 0, consumed = 0;
  for (std::int64_t batch = batch_after(0); batch != full && consumed < sequences; batch = batch_after(consumed)) {
    const std::int64_t n = steps_at(consumed, over(sequences - consumed, batch));
    steps += n;
    consumed += n * batch;
  }
  const std::int64_t left = std::max<std::int64_t>(0, sequences - consumed);
  if (left == 0) return steps;
  return steps + (end == End::whole_batches ? left / full : over(left, full));
}

}  // namespace tandem
