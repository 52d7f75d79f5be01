#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "models/base/error.hpp"
#include "models/plan/plan.hpp"
#include "reports/prediction/plan_title.hpp"
#include "reports/prediction/prediction.hpp"
#include "reports/prediction/text.hpp"

namespace tandem {

namespace {

std::string line(const std::string& what, const std::string& value) { return "  " + padded(what, 26) + value + "\n"; }

std::string headline(const Prediction& p, const Plan& plan) {
  const std::string active = has_active_parameters(plan.model) ? " (" + active_text(plan.model) + ")" : "";
  const std::string parameters = count_text(count_parameters(plan.model, plan.model.vocab_size).total) + " parameters" + active;
  return stack_text(plan) + "\n" + title(plan) + ", " + parameters + adapters_text(plan) + ": " + degrees(plan) + ", " + count_text(p.ranks) +
         " ranks (" + std::to_string(p.roles.size()) + " distinct) on " + plan.cluster.preset +
         device_text(plan) + ", global batch " + count_text(plan.training.global_batch_size) + " x " + count_text(plan.training.seq_length) +
         " tokens\n";
}

std::string range(const StepRange& r) {
  return r.share == 0 ? "" : " (" + time_text(r.low_s) + " to " + time_text(r.high_s) + ", " + number_text(100 * r.share, 0) + " %)";
}

std::string signed_time(double seconds) { return (seconds < 0 ? "-" : "+") + time_text(std::abs(seconds)); }

/// Lines on the perturbation: its cost and its changes.
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

/// "MFU 37.3 % of 989.4 TFLOP/s": of the device's peak in the type that products compute in.
std::string utilisation(const std::string& what, double share, double tflops) {
  return share > 0 ? ", " + what + " " + number_text(share * 100, 1) + " % of " + number_text(tflops / share, 1) : "";
}

/// With a comma between thousands, or with one decimal below them.
std::string grouped(double value) { return value < 1000 ? number_text(value, 1) : count_text(std::llround(value)); }

/// Whether launches, the critical rank's own or its partners', take a share of its step that is shown, a tenth of a percent.
bool books_launches(const Prediction& p) {
  const auto& parts = p.roles[p.critical_role].time_breakdown_s;
  const auto launch = parts.find("launch");
  return launch != parts.end() && launch->second >= 0.0005 * p.step_time.seconds();
}

std::string rates(const Prediction& p, const Plan& plan) {
  const std::string peak = p.mfu > 0 ? " (" + std::string(name(plan.training.dtypes.compute)) + ")\n" : "\n";
  const double devices = static_cast<double>(plan.cluster.devices);
  return line("step time", time_text(p.step_time.seconds()) + range(p.range)) +
         (p.range.wider.empty() ? "" : line("beyond the records", p.range.wider)) +
         (p.makespan == p.step_time ? "" : line("of a step alone", time_text(p.makespan.seconds()))) + disturbance(p) +
         line("throughput", count_text(std::llround(p.tokens_per_s)) + " tokens/s (" + grouped(p.tokens_per_s / devices) +
                                " per device), " + number_text(p.samples_per_s, 2) + " samples/s") +
         "  " + padded("model FLOP rate", 26) + number_text(p.model_tflops_per_device, 2) + " TFLOP/s per device" +
         utilisation("MFU", p.mfu, p.model_tflops_per_device) + peak + "  " + padded("hardware FLOP rate", 26) +
         number_text(p.hardware_tflops_per_device, 2) + " TFLOP/s per device" +
         utilisation("HFU", p.hfu, p.hardware_tflops_per_device) + peak +
         line("pipeline bubble", number_text(p.bubble_fraction * 100, 1) + " %" + (books_launches(p) ? " (excluding waits for host launches)" : ""));
}

/// The breakdown of a step, the largest share first; shares of zero are left out.
std::string where_time_goes(const RolePrediction& role, double step_s) {
  std::vector<std::pair<std::string, double>> parts(role.time_breakdown_s.begin(), role.time_breakdown_s.end());
  std::erase_if(parts, [](const auto& part) { return part.second <= 0; });
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string out = "where the time goes (rank " + std::to_string(role.ranks.front()) + ", which computes most)\n";
  for (const auto& [what, seconds] : parts)
    out += line(what, aligned(time_text(seconds), 9) + aligned(number_text(100 * seconds / step_s, 1) + " %", 9));
  return out;
}

/// What decides whether the rank that needs most fits, beside its device's memory.
std::string memory_beside_device(const Prediction& p, std::int64_t sharing) {
  const std::int64_t needed = p.roles[neediest_role(p)].needed_bytes.count();
  const std::string device = bytes_text(p.device_memory.count()), verdict = p.fits ? ", fits" : ", DOES NOT FIT";
  if (sharing > 1)
    return bytes_text(needed) + "; the " + std::to_string(sharing) + " ranks that share a device need " + bytes_text(needed * sharing) +
           " of its " + device + verdict;
  return bytes_text(needed) + " of the device's " + device + verdict;
}

std::string memory(const Prediction& p, std::int64_t sharing) {
  const RolePrediction& role = p.roles[neediest_role(p)];
  std::string out = "memory of rank " + std::to_string(role.ranks.front()) + ", which needs most: ";
  out += memory_beside_device(p, sharing) + "\n";
  for (std::size_t k = 0; k < kMemoryKinds; ++k)
    if (role.memory_bytes[k].count())
      out += line(std::string(name(static_cast<MemoryKind>(k))), aligned(bytes_text(role.memory_bytes[k].count()), 9));
  out += line("live at its peak", aligned(bytes_text(role.live_peak_bytes.count()), 9));
  return role.needed_bytes < role.arena_bytes ? out : out + line("arena", aligned(bytes_text(role.arena_bytes.count()), 9));
}

/// Notes that no other line tells: the headline counts ranks, and messages name a folder of presets.
std::string notes(const Prediction& p) {
  std::string out;
  std::size_t unverified = 0;
  for (const std::string& note : p.notes)
    if (note.starts_with("not verified: "))
      ++unverified;
    else if (note.find(" simulated as ") == std::string::npos && !note.starts_with("taken from TANDEM_PRESETS="))
      out += "note: " + note + "\n";
  if (unverified == 0) return out;
  return out + std::to_string(unverified) + (unverified == 1 ? " fact in use is" : " facts in use are") +
         " not verified in a source (`tandem explain PLAN step_time_s` lists them)\n";
}

}  // namespace

std::size_t neediest_role(const Prediction& p) {
  const auto needs_less = [](const RolePrediction& a, const RolePrediction& b) { return a.needed_bytes < b.needed_bytes; };
  return static_cast<std::size_t>(std::max_element(p.roles.begin(), p.roles.end(), needs_less) - p.roles.begin());
}

std::size_t fullest_role(const Prediction& p) {
  const auto holds_less = [](const RolePrediction& a, const RolePrediction& b) { return a.live_peak_bytes < b.live_peak_bytes; };
  return static_cast<std::size_t>(std::max_element(p.roles.begin(), p.roles.end(), holds_less) - p.roles.begin());
}

std::string to_text(const Prediction& p, const Plan& plan) {
  require(p.heaviest_role < p.roles.size() && p.critical_role < p.roles.size(), "a prediction without its roles");
  std::string out = headline(p, plan) + rates(p, plan) + where_time_goes(p.roles[p.critical_role], p.step_time.seconds());
  out += memory(p, plan.cluster.ranks_per_device);
  if (p.measured_products) out += to_text(*p.measured_products) + "\n";
  return out + notes(p);
}

}  // namespace tandem
