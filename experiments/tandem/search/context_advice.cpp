#include "experiments/tandem/search/context_advice.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "experiments/tandem/base/fields.hpp"
#include "experiments/tandem/planning/assessment.hpp"
#include "experiments/tandem/search/axes/default_axes.hpp"
#include "models/graph/task_graph.hpp"
#include "models/planfile/plan_advice.hpp"
#include "models/planfile/plan_draft.hpp"
#include "models/stack/resolve.hpp"
#include "reports/prediction/text.hpp"
#include "sim/result/simulate.hpp"
#include "topology/plan_reader.hpp"
#include "topology/topology.hpp"

namespace tandem::search {

namespace {

constexpr std::int64_t kMostContext = 64;

/// A way to share sequences.
struct Sharing {
  std::int64_t context = 1, data = 1, devices = 1;
  std::string mode;
  bool full = false;  ///< with full recomputation
};

using Changes = std::vector<std::pair<const char*, nlohmann::json>>;

/// The plan with other fields, as its stack would run it; nullopt if it cannot.
std::optional<Plan> changed(const Plan& plan, const Changes& changes) {
  nlohmann::json document = nlohmann::json::parse(to_json(plan, -1));
  for (const auto& [field, value] : changes) study::set_field(document, field, value);
  for (const char* follows : {"parallel.expert_tensor", "parallel.bucket_bytes"}) study::set_field(document, follows, nullptr);
  try {
    Plan out = parse_plan(document.dump(), plan.file);
    require_lowerable(out);
    const std::vector<Problem> refused = stack_problems(out, out.stack.name, out.stack.as_of);
    const auto of_changes = [&](const Problem& p) {
      return std::any_of(changes.begin(), changes.end(), [&](const auto& c) { return p.field.find(c.first) != std::string::npos; });
    };
    if (std::any_of(refused.begin(), refused.end(), of_changes)) return std::nullopt;
    return out;
  } catch (const ConfigError&) {  // a degree that does not divide, or a stack that refuses it
    return std::nullopt;
  }
}

std::optional<Plan> shared(const Plan& plan, const Sharing& s) {
  Changes changes = {{"parallel.context", s.context}, {"parallel.data", s.data}, {"parallel.context_mode", s.mode},
                     {"cluster.devices", s.devices}, {"training.flash_attention", true}};
  if (s.full) changes.emplace_back("training.recompute", "full");
  return changed(plan, changes);
}

/// What a plan that fits needs.
struct Need {
  std::int64_t bytes = 0;      ///< of a device
  double device_seconds = 0;  ///< of a step
};

/// Nullopt if the plan does not fit.
std::optional<Need> needed(const Plan& plan) {
  const auto topology = make_topology(plan.cluster);
  const TaskGraph graph = lower(plan);
  const std::int64_t room = topology->device().usable_memory.count() / topology->ranks_per_device();
  for (const Program& program : graph.programs)
    if (program.memory.live_peak_bytes.count() > room) return std::nullopt;
  sim::SimulateOptions options;
  options.every_breakdown = false;
  const Prediction p = sim::simulate(plan, graph, *topology, options);
  if (!p.fits) return std::nullopt;
  const auto devices = static_cast<double>(plan.cluster.devices);
  return Need{planning::needed_on_device(p, topology->ranks_per_device()), p.step_time.seconds() * devices};
}

std::vector<std::string> modes(const Plan& plan) {
  std::vector<std::string> out{std::string(name(plan.parallel.context_mode))};
  if (plan.parallel.context > 1) return out;
  for (const char* mode : {"ring", "all_gather", "ulysses"})
    if (mode != out.front()) out.emplace_back(mode);
  return out;
}

/// Ways to share sequences in the order in which they are tried.
std::vector<Sharing> ways(const Plan& plan) {
  const ParallelSpec& q = plan.parallel;
  const std::int64_t ranks = q.data * q.context;
  std::vector<Sharing> out;
  for (const bool more : {false, true})
    for (const bool full : {false, true})
      for (std::int64_t n = 2 * q.context; n <= kMostContext; n *= 2) {
        const bool here = ranks % n == 0, grows = n % ranks == 0 && n > ranks;
        if ((more ? !grows : !here) || (full && plan.training.recompute == Recompute::full)) continue;
        for (const std::string& mode : modes(plan))
          out.push_back({n, here ? ranks / n : 1, here ? plan.cluster.devices : plan.cluster.devices * (n / ranks), mode, full});
      }
  return out;
}

/// Whether one of the simpler changes that memory_advice names makes the plan fit and costs no more.
bool simpler_suffices(const Plan& plan, double device_seconds) {
  Changes simpler;
  if (plan.training.micro_batch_size > 1) simpler.emplace_back("training.micro_batch_size", 1);
  if (plan.parallel.zero_stage == 0) simpler.emplace_back("parallel.zero_stage", 1);
  if (plan.training.recompute != Recompute::full) simpler.emplace_back("training.recompute", "full");
  return std::any_of(simpler.begin(), simpler.end(), [&](const auto& change) {
    const std::optional<Plan> other = changed(plan, {change});
    const std::optional<Need> need = other ? needed(*other) : std::nullopt;
    return need && need->device_seconds <= device_seconds;
  });
}

std::string text_of(const Plan& plan, const Sharing& s, std::int64_t bytes) {
  std::string fields = "parallel.context " + std::to_string(s.context) + ", parallel.data " + std::to_string(s.data);
  if (s.mode != name(plan.parallel.context_mode)) fields += ", parallel.context_mode " + s.mode;
  if (s.full) fields += ", training.recompute full";
  if (s.devices != plan.cluster.devices) fields += ", cluster.devices " + std::to_string(s.devices);
  return "share each sequence among " + std::to_string(s.context) + " ranks (" + fields + "), with which a device needs " + bytes_text(bytes);
}

}  // namespace

std::string context_advice(const Plan& plan) {
  if (plan.training.seq_length < kLongSequence) return "";
  for (const Sharing& way : ways(plan))
    if (const std::optional<Plan> with = shared(plan, way))
      if (const std::optional<Need> need = needed(*with)) {
        return simpler_suffices(plan, need->device_seconds) ? "" : text_of(plan, way, need->bytes);
      }
  return "";
}

std::string ways_to_fit(const Plan& plan) {
  const std::string shared = context_advice(plan);
  return (shared.empty() ? "" : shared + "; or ") + memory_advice(plan);
}

}  // namespace tandem::search
