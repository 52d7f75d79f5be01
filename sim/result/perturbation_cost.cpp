#include "sim/result/perturbation_cost.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>

#include "models/base/threads.hpp"
#include "reports/prediction/text.hpp"
#include "sim/engine/simulate_step.hpp"
#include "sim/result/steady_state.hpp"

namespace tandem::sim {
namespace {

/// Text of a factor (0.8, 0.25), as short as possible within six digits.
std::string share(double factor) {
  std::string text = number_text(factor, 6);
  while (text.ends_with('0')) text.pop_back();
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

std::vector<std::string> changes_of(const Perturbation& p) {
  std::vector<std::string> out;
  for (const SlowDevice& d : p.slow_devices) {
    const std::string of_node = " of node " + std::to_string(d.node), at = share(d.factor);
    if (d.rank >= 0) out.push_back("the device of rank " + std::to_string(d.rank) + " computes at " + at + " of its speed");
    else if (d.device >= 0) out.push_back("device " + std::to_string(d.device) + of_node + " computes at " + at + " of its speed");
    else out.push_back("all devices" + of_node + " compute at " + at + " of their speed");
  }
  for (const SlowLink& l : p.slow_links) out.push_back(l.link + " at " + share(l.factor) + " of its bandwidth");
  for (const std::string& link : p.lost_links) out.push_back(link + " lost");
  if (const Jitter& j = p.jitter; j.relative > 0)
    out.push_back("jitter of " + share(j.relative) + " on every computation, seed " + std::to_string(j.seed) + ": every rank is its own");
  return out;
}

StepSpread spread_of(const std::vector<double>& seconds) {
  const auto count = static_cast<double>(seconds.size());
  StepSpread out;
  out.seeds = static_cast<std::int64_t>(seconds.size());
  for (const double s : seconds) out.mean_s += s / count;
  double squares = 0;
  for (const double s : seconds) squares += (s - out.mean_s) * (s - out.mean_s);
  out.deviation_s = std::sqrt(squares / (count - 1));
  const auto [low, high] = std::minmax_element(seconds.begin(), seconds.end());
  out.low_s = *low;
  out.high_s = *high;
  return out;
}

/// Simulates other seeds of a step, from any thread.
class OtherSeeds {
 public:
  OtherSeeds(const DisturbedStep& step, const TellProgress& progress)
      : step_(step), progress_(progress), free_{&step.simulated} {}

  /// Step time of seed number `n`; the step's own is 0. Overlapping steps have another graph, so they are simulated from the start.
  double seconds(std::int64_t n) {
    tell();
    Options other = step_.options;
    other.jitter->seed += static_cast<std::uint64_t>(n);
    if (other.steps_overlap) return step_time(step_.setup, other).seconds();
    SimulatedStep& simulated = taken();
    simulate_again(step_.setup, *other.jitter, simulated);
    const std::lock_guard guard(mutex_);
    free_.push_back(&simulated);
    return simulated.step_time.seconds();
  }

 private:
  void tell() {
    const std::lock_guard guard(mutex_);
    ++begun_;
    if (progress_) progress_("seed " + std::to_string(begun_) + " of " + std::to_string(step_.options.jitter->seeds));
  }

  /// Takes a simulated step that no other thread uses.
  SimulatedStep& taken() {
    const std::lock_guard guard(mutex_);
    if (free_.empty()) return *more_.emplace_back(std::make_unique<SimulatedStep>(for_another_seed(step_.simulated)));
    SimulatedStep* const step = free_.back();
    free_.pop_back();
    return *step;
  }

  const DisturbedStep& step_;
  const TellProgress& progress_;
  std::mutex mutex_;
  std::int64_t begun_ = 1;
  std::vector<SimulatedStep*> free_;
  std::vector<std::unique_ptr<SimulatedStep>> more_;
};

}  // namespace

Duration undisturbed(const Setup& setup, const Options& options, const Topology& plain) {
  Options calm = options;
  calm.jitter.reset();
  return step_time({setup.graph, setup.mesh, plain, setup.cost, setup.replay}, calm);
}

StepSpread spread_over_seeds(const DisturbedStep& step, int at_once, const TellProgress& progress) {
  std::vector<double> seconds(static_cast<std::size_t>(step.options.jitter->seeds), step.time.seconds());
  OtherSeeds others(step, progress);
  for_each_index(seconds.size() - 1, {.most = at_once},
                 [&](std::size_t i) { seconds[i + 1] = others.seconds(static_cast<std::int64_t>(i + 1)); });
  return spread_of(seconds);
}

PerturbationCost perturbation_cost(const Perturbation& perturbation, const DisturbedStep& step, const Topology& plain, int at_once,
                                   const TellProgress& progress) {
  PerturbationCost out;
  out.changes = changes_of(perturbation);
  out.undisturbed = undisturbed(step.setup, step.options, plain);
  if (step.options.jitter && step.options.jitter->seeds > 1) out.spread = spread_over_seeds(step, at_once, progress);
  return out;
}

}  // namespace tandem::sim
