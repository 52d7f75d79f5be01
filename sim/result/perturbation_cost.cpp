#include "sim/result/perturbation_cost.hpp"

#include <algorithm>
#include <cmath>

#include "reports/prediction/text.hpp"
#include "sim/engine/simulate_step.hpp"
#include "sim/result/steady_state.hpp"

namespace tandem::sim {
namespace {

/// 0.8, 0.25: as short as it can be within six digits.
std::string share(double factor) {
  std::string text = number_text(factor, 6);
  while (text.ends_with('0')) text.pop_back();
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

std::vector<std::string> changes_of(const Perturbation& p) {
  std::vector<std::string> out;
  for (const SlowDevice& d : p.slow_devices) {
    const std::string who = d.rank >= 0 ? "the device of rank " + std::to_string(d.rank)
                                        : "device " + std::to_string(d.device) + " of node " + std::to_string(d.node);
    out.push_back(who + " computes at " + share(d.factor) + " of its speed");
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

/// Of one more seed. Steps that overlap are another graph, simulated from the start.
Duration step_time(const Setup& setup, const Options& options, SimulatedStep& simulated) {
  if (options.steps_overlap) return sim::step_time(setup, options);
  simulate_again(setup, *options.jitter, simulated);
  return simulated.step_time;
}

}  // namespace

Duration undisturbed(const Setup& setup, const Options& options, const Topology& plain) {
  Options calm = options;
  calm.jitter.reset();
  return step_time({setup.graph, setup.mesh, plain, setup.cost, setup.replay}, calm);
}

PerturbationCost perturbation_cost(const Perturbation& perturbation, const DisturbedStep& step, const Topology& plain,
                                   const TellProgress& progress) {
  const auto& [setup, options, time, simulated] = step;
  PerturbationCost out;
  out.changes = changes_of(perturbation);
  out.undisturbed = tandem::sim::undisturbed(setup, options, plain);
  if (!options.jitter || options.jitter->seeds < 2) return out;
  const std::int64_t seeds = options.jitter->seeds;
  std::vector<double> seconds{time.seconds()};
  for (Options other = options; static_cast<std::int64_t>(seconds.size()) < seeds;) {
    const auto done = static_cast<std::int64_t>(seconds.size());
    if (progress) progress("seed " + std::to_string(done + 1) + " of " + std::to_string(seeds));
    ++other.jitter->seed;
    seconds.push_back(step_time(setup, other, simulated).seconds());
  }
  out.spread = spread_of(seconds);
  return out;
}

}  // namespace tandem::sim
