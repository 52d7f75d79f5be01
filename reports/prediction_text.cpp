#include <cmath>

#include "models/base/error.hpp"
#include "models/plan.hpp"
#include "reports/prediction.hpp"
#include "reports/plan_title.hpp"
#include "reports/text.hpp"

namespace tandem {

namespace {

std::string line(const std::string& what, const std::string& value) { return "  " + padded(what, 26) + value + "\n"; }

std::string degrees(const Plan& plan) {
  const ParallelSpec& p = plan.parallel;
  return "tensor " + std::to_string(p.tensor) + " x pipeline " + std::to_string(p.pipeline) + " x data " +
         std::to_string(p.data);
}

std::string counted(std::size_t n, const std::string& what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

std::string headline(const Prediction& p, const Plan& plan) {
  return title(plan) + ": " + degrees(plan) + ", " + count_text(p.ranks) +
         " ranks in " + counted(p.roles.size(), "role") + " on " + plan.cluster.preset +
         ", global batch " + count_text(plan.training.global_batch_size) + " x " + count_text(plan.training.seq_length) +
         " tokens\n";
}

std::string range(const StepRange& r) {
  return r.share == 0 ? "" : " (" + time_text(r.low_s) + " to " + time_text(r.high_s) + ", " + number_text(100 * r.share, 0) + " %)";
}

std::string signed_time(double seconds) { return (seconds < 0 ? "-" : "+") + time_text(std::abs(seconds)); }

/// What the perturbation costs, and what it is.
std::string disturbance(const Prediction& p) {
  if (!p.perturbation) return "";
  const PerturbationCost& cost = *p.perturbation;
  const double added = (p.step_time - cost.undisturbed).seconds(), without = cost.undisturbed.seconds();
  std::string out = line("of it by perturbation", signed_time(added) + " (" + number_text(100 * added / without, 2) + " % of " +
                                                      time_text(without) + " without it)");
  if (const StepSpread& s = cost.spread; s.seeds > 0)
    out += line("over " + std::to_string(s.seeds) + " seeds", "mean " + time_text(s.mean_s) + ", " + signed_time(s.low_s - s.mean_s) + " to " +
                                                                   signed_time(s.high_s - s.mean_s) + ", standard deviation " +
                                                                   time_text(s.deviation_s));
  for (const std::string& change : cost.changes) out += line("", change);
  return out;
}

std::string rates(const Prediction& p) {
  return line("step time", time_text(p.step_time.seconds()) + range(p.range)) +
         (p.makespan == p.step_time ? "" : line("of a step alone", time_text(p.makespan.seconds()))) + disturbance(p) +
         line("throughput", number_text(p.tokens_per_s, 0) + " tokens/s, " + number_text(p.samples_per_s, 2) + " samples/s") +
         line("model FLOP rate", number_text(p.model_tflops_per_device, 2) + " TFLOP/s per device, MFU " +
                                     number_text(p.mfu * 100, 1) + " %") +
         line("hardware FLOP rate", number_text(p.hardware_tflops_per_device, 2) + " TFLOP/s per device, HFU " +
                                        number_text(p.hfu * 100, 1) + " %") +
         line("pipeline bubble", number_text(p.bubble_fraction * 100, 1) + " %");
}

std::string where_time_goes(const RolePrediction& role, double step_s) {
  std::string out = "where the time goes (rank " + std::to_string(role.ranks.front()) + ")\n";
  for (const auto& [what, seconds] : role.time_breakdown_s)
    out += line(what, aligned(time_text(seconds), 9) + aligned(number_text(100 * seconds / step_s, 1) + " %", 9));
  return out;
}

std::string memory(const Prediction& p) {
  const RolePrediction& role = p.roles[p.heaviest_role];
  std::string out = "memory of the heaviest rank (" + std::to_string(role.ranks.front()) + "): " +
                    bytes_text(role.peak_memory_bytes.count()) + (p.fits ? ", fits\n" : ", DOES NOT FIT\n");
  for (std::size_t k = 0; k < kMemoryKinds; ++k)
    if (role.memory_bytes[k].count())
      out += line(std::string(name(static_cast<MemoryKind>(k))), aligned(bytes_text(role.memory_bytes[k].count()), 9));
  return out + line("arena / live peak", bytes_text(role.arena_bytes.count()) + " / " + bytes_text(role.live_peak_bytes.count()));
}

}  // namespace

std::string to_text(const Prediction& p, const Plan& plan) {
  require(p.heaviest_role < p.roles.size() && p.critical_role < p.roles.size(), "a prediction without its roles");
  std::string out = headline(p, plan) + rates(p) + where_time_goes(p.roles[p.critical_role], p.step_time.seconds()) + memory(p);
  if (p.measured_products) out += to_text(*p.measured_products) + "\n";
  for (const std::string& note : p.notes) out += "note: " + note + "\n";
  return out;
}

}  // namespace tandem
