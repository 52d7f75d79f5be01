#include "experiments/tandem/search/context_advice.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "experiments/tandem/base/fields.hpp"
#include "experiments/tandem/planning/assessment.hpp"
#include "experiments/tandem/search/axes/default_axes.hpp"
#include "models/graph/task_graph.hpp"
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

/// The plan with other ranks, as its stack would run it; nullopt if it cannot.
std::optional<Plan> shared(const Plan& plan, const Sharing& s) {
  nlohmann::json document = nlohmann::json::parse(to_json(plan, -1));
  study::set_field(document, "parallel.context", s.context);
  study::set_field(document, "parallel.data", s.data);
  study::set_field(document, "parallel.context_mode", s.mode);
  study::set_field(document, "cluster.devices", s.devices);
  study::set_field(document, "training.flash_attention", true);
  if (s.full) study::set_field(document, "training.recompute", "full");
  for (const char* follows : {"parallel.expert_tensor", "parallel.bucket_bytes"}) study::set_field(document, follows, nullptr);
  try {
    Plan out = parse_plan(document.dump(), plan.file);
    require_lowerable(out);
    const std::vector<Problem> refused = stack_problems(out, out.stack.name, out.stack.as_of);
    const auto of_context = [](const Problem& p) { return p.field.find("context") != std::string::npos; };
    if (std::any_of(refused.begin(), refused.end(), of_context)) return std::nullopt;
    return out;
  } catch (const ConfigError&) {  // a degree that does not divide, or a stack that refuses it
    return std::nullopt;
  }
}

/// The bytes that a device needs; nullopt if the plan does not fit.
std::optional<std::int64_t> needed(const Plan& plan) {
  const auto topology = make_topology(plan.cluster);
  const TaskGraph graph = lower(plan);
  const std::int64_t room = topology->device().usable_memory.count() / topology->ranks_per_device();
  for (const Program& program : graph.programs)
    if (program.memory.live_peak_bytes.count() > room) return std::nullopt;
  sim::SimulateOptions options;
  options.every_breakdown = false;
  const Prediction p = sim::simulate(plan, graph, *topology, options);
  if (!p.fits) return std::nullopt;
  return planning::needed_on_device(p, topology->ranks_per_device());
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
      if (const std::optional<std::int64_t> bytes = needed(*with)) return text_of(plan, way, *bytes);
  return "";
}

}  // namespace tandem::search
