#include "tests/properties/stack_plans.hpp"

#include <algorithm>

#include "models/base/presets.hpp"
#include "sim/result/simulate.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::tests {

using nlohmann::json;

namespace {

constexpr std::int64_t kMostRanks = 64;
constexpr int kMostDraws = 3000;  ///< the strictest stack accepts one plan of some hundreds

const std::vector<std::int64_t> kHiddenSizes{256, 1024, 4096, 8192};
const std::vector<std::string> kFamilies{"gpt", "llama", "llama", "bloom", "bert"};
const std::vector<std::string> kPrecisions{"bf16", "bf16", "fp16", "fp8", "mxfp8", "nvfp4", "tf32", "fp32"};
// Fields that are never left out: the layout and the batch follow from them.
const std::vector<std::string> kKept{"tensor", "pipeline", "context", "data", "expert", "schedule", "virtual_pipeline", "seq_length",
                                     "micro_batch_size", "global_batch_size", "precision"};

}  // namespace

Plan parsed(const json& document) {
  Plan plan = parse_plan(document.dump(), "random.json");
  require_lowerable(plan);
  return plan;
}

bool legal(const json& document) {
  try {
    parsed(document);
    return true;
  } catch (const InfeasibleError&) {
    return false;
  }
}

double step_time_s(const json& document) {
  const Plan plan = parsed(document);
  return sim::simulate(plan, lower(plan), *make_topology(plan.cluster)).step_time.seconds();
}

StackPlans::StackPlans(std::uint32_t seed)
    : drawn_(seed, kMostRanks), random_(seed), stacks_(preset_names("models/stacks")), clusters_(preset_names("topology/presets")) {
  if (stacks_.empty() || clusters_.empty()) throw std::runtime_error("no stack or no cluster was found: set TANDEM_PRESETS");
}

void StackPlans::leave_out(json& part) {
  for (auto field = part.begin(); field != part.end();) {
    const bool kept = std::find(kKept.begin(), kKept.end(), field.key()) != kKept.end();
    field = !kept && one_in(2) ? part.erase(field) : std::next(field);
  }
}

/// Gives all ranks to the data axis, which several stacks require.
void StackPlans::replicate(json& plan) {
  json& parallel = plan["parallel"];
  for (const char* field : {"tensor", "pipeline", "context", "schedule", "virtual_pipeline", "expert"}) parallel.erase(field);
  parallel["data"] = plan["cluster"]["devices"];
  plan["training"]["global_batch_size"] = 2 * plan["cluster"]["devices"].get<int>() * plan["training"]["micro_batch_size"].get<int>();
}

json StackPlans::document(const std::string& stack, const std::string& cluster) {
  json out = json::parse(drawn_.text());
  out["stack"] = stack;
  out["cluster"]["preset"] = cluster;
  json& model = out["model"];
  model["family"] = pick(kFamilies);
  model["vocab_size"] = pick(kVocabularies);
  model["hidden_size"] = pick(kHiddenSizes);
  out["training"]["precision"] = pick(kPrecisions);
  if (one_in(3)) replicate(out);
  leave_out(out["parallel"]);
  leave_out(out["training"]);
  return out;
}

std::optional<StackPlan> StackPlans::draw(const std::string& stack, const std::string& cluster) {
  StackPlan out;
  out.document = document(stack, cluster);
  try {
    out.plan = parsed(out.document);
    out.step_time_s = step_time_s(out.document);
    return out;
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

StackPlan StackPlans::next() {
  const std::string& stack = stacks_[stack_++ % stacks_.size()];
  for (std::size_t i = 0; i < clusters_.size(); ++i) {
    const std::string& cluster = clusters_[cluster_++ % clusters_.size()];
    for (int n = 0; n < kMostDraws; ++n)
      if (auto plan = draw(stack, cluster)) return std::move(*plan);
  }
  throw std::runtime_error("no legal plan of stack " + stack + " was drawn");
}

}  // namespace tandem::tests
