#include "experiments/validation/judged_record.hpp"

#include <algorithm>
#include <mutex>

#include "experiments/program/rehearsal.hpp"
#include "experiments/validation/parallel.hpp"
#include "experiments/validation/plan_digest.hpp"
#include "sim/error_book.hpp"
#include "sim/simulate.hpp"

namespace tandem::program {

namespace {

constexpr double kTera = 1e12;
constexpr std::string_view kUnverified = "not verified: ";  // how a prediction's notes begin that name such a fact

/// The figure of a role that the measuring tool would have shown: a framework's allocator counts the libraries' workspaces too.
/// What it keeps of tensors past it gives back when the device is full.
Bytes as_measured(const RolePrediction& role, const std::string& kind, const Device& device) {
  if (kind != "device" && kind != "reserved") return role.live_peak_bytes + device.library_memory;
  const Bytes room = std::max(device.memory - role.peak_memory_bytes, Bytes(0)), cached = std::min(role.cached_bytes, room);
  return (kind == "device" ? role.peak_memory_bytes : role.arena_bytes + device.library_memory) + cached;
}

double peak_memory(const Prediction& p, const Measurement& m, std::int64_t last_stage, const Device& device) {
  Bytes peak;
  for (const RolePrediction& role : p.roles)
    if (m.memory_rank != "last_stage" || role.coords[Axis::pp] == last_stage)
      peak = std::max(peak, as_measured(role, m.memory_kind, device));
  return static_cast<double>(peak.count());
}

void predict(JudgedRecord& out) {
  const Measurement& m = out.measured;
  const Plan plan = parse_plan(m.plan_json, m.id);
  require_lowerable(plan);
  const TaskGraph graph = lower(plan);
  const auto topology = topology_of(plan, "");
  sim::SimulateOptions options;
  options.range_without = m.set;
  const Prediction p = sim::simulate(plan, graph, *topology, options);
  out.plan = digest(plan, *topology);
  out.step_time_s = p.step_time.seconds();
  out.low_s = p.range.low_s, out.high_s = p.range.high_s;
  if (m.peak_memory_bytes) out.peak_memory_bytes = peak_memory(p, m, plan.parallel.pipeline - 1, topology->device());
  out.flops = p.hardware_tflops_per_device * kTera * p.step_time.seconds() * static_cast<double>(plan.cluster.devices);
  out.situation = sim::situation_of(p, *topology);
  out.fits = p.fits;
  for (const std::string& note : p.notes)
    if (note.starts_with(kUnverified)) out.unverified.push_back(note.substr(kUnverified.size()));
}

/// What the plan takes on the cluster that it names; nothing when that is refused.
void predict_as_named(JudgedRecord& out) {
  const Measurement& m = out.measured;
  try {
    const Plan plan = parse_plan(m.named_plan_json, m.id);
    require_lowerable(plan);
    const auto topology = topology_of(plan, "");
    const Prediction p = sim::simulate(plan, lower(plan), *topology);
    out.named_step_time_s = p.step_time.seconds();
    if (m.peak_memory_bytes) out.named_peak_memory_bytes = peak_memory(p, m, plan.parallel.pipeline - 1, topology->device());
  } catch (const ConfigError&) {
    return;
  }
}

}  // namespace

JudgedRecord judge(const Measurement& measurement) {
  JudgedRecord out;
  out.measured = measurement;
  try {
    if (out.moved()) predict_as_named(out);
    predict(out);
  } catch (const ConfigError& e) {
    out.refused = e.problems().front().message();
  } catch (const ContractError& e) {
    throw ContractError(measurement.id + ": " + e.what());
  }
  return out;
}

std::vector<JudgedRecord> judge(const std::vector<Measurement>& measurements, int jobs,
                                const std::function<void(std::int64_t)>& done) {
  std::vector<JudgedRecord> out(measurements.size());
  std::mutex counting;
  std::int64_t finished = 0;
  for_each_index(measurements.size(), jobs, [&](std::size_t i) {
    out[i] = judge(measurements[i]);
    const std::lock_guard lock(counting);
    done(++finished);
  });
  return out;
}

}  // namespace tandem::program
