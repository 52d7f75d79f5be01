#include "experiments/tandem/explain/rows.hpp"
#include "models/graph/stage_flops.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {

namespace {

constexpr double kTera = 1e12;

std::string seconds_of(const ExplainedCase& c) { return number_text(c.prediction.step_time.seconds(), 6) + " s"; }

/// Matrix FLOPs of a step on all devices, counted on the graph.
double flops(const ExplainedCase& c, bool recomputation) {
  FlopsOfStages flops(c.graph);
  double all = 0;
  for (const Program& p : c.graph.programs) {
    const StageFlops of = flops.of(p);
    all += recomputation ? of.hardware : of.model;
  }
  return all * static_cast<double>(c.prediction.ranks) / static_cast<double>(c.graph.programs.size());
}

std::string rate(const ExplainedCase& c, bool recomputation) {
  return number_text(flops(c, recomputation) / kTera, 3) + " TFLOPs / (" + count_text(c.topology->devices()) + " devices x " +
         seconds_of(c) + ")";
}

std::string of_peak(const ExplainedCase& c, double reached) {
  const DType compute = c.plan.training.dtypes.compute;
  const auto peak = c.topology->device().peak.find(compute);
  if (peak == c.topology->device().peak.end()) return "the device has no published rate for " + std::string(name(compute));
  return number_text(reached, 3) + " / " + number_text(peak->second.flops_per_second() / kTera, 1) + " TFLOP/s (" +
         std::string(name(compute)) + ")";
}

}  // namespace

std::vector<Row> rate_rows() {
  return {
      {"tokens_per_s", "training.global_batch_size x training.seq_length / step_time_s",
       [](const ExplainedCase& c, std::size_t) {
         return count_text(c.plan.training.global_batch_size) + " x " + count_text(c.plan.training.seq_length) + " / " + seconds_of(c);
       },
       RangeKind::shrinks, {}},
      {"samples_per_s", "training.global_batch_size / step_time_s",
       [](const ExplainedCase& c, std::size_t) { return count_text(c.plan.training.global_batch_size) + " / " + seconds_of(c); },
       RangeKind::shrinks, {}},
      {"model_tflops_per_device",
       "matrix FLOPs of a step without recomputation / (devices x step_time_s): 6 for each weight of a matrix product and token, however many tensor ranks hold it, and attention's products over all pairs of positions, with flash attention over unmasked pairs. An embedding's look-up counts nothing; experts count for the tokens that they process, not for empty places",
       [](const ExplainedCase& c, std::size_t) { return rate(c, false); }, RangeKind::shrinks, {}},
      {"hardware_tflops_per_device", "all matrix FLOPs of a step, with recomputation and empty places of experts / (devices x step_time_s)",
       [](const ExplainedCase& c, std::size_t) { return rate(c, true); }, RangeKind::shrinks, {}},
      {"mfu", "model_tflops_per_device / the device's dense peak in the compute type",
       [](const ExplainedCase& c, std::size_t) { return of_peak(c, c.prediction.model_tflops_per_device); }, RangeKind::shrinks,
       {"device:peak_flops_per_s"}},
      {"hfu", "hardware_tflops_per_device / the device's dense peak in the compute type",
       [](const ExplainedCase& c, std::size_t) { return of_peak(c, c.prediction.hardware_tflops_per_device); }, RangeKind::shrinks,
       {"device:peak_flops_per_s"}},
  };
}

}  // namespace tandem::program
