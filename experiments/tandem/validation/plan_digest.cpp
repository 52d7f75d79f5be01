#include "experiments/tandem/validation/plan_digest.hpp"

#include <nlohmann/json.hpp>

#include "sim/result/error_book.hpp"

namespace tandem::program {

namespace {

using nlohmann::json;

void erase(json& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys) object.erase(key);
}

json without_names(json plan) {
  erase(plan, {"name", "notes"});
  for (const char* part : {"model", "parallel", "training", "cluster"})
    if (plan.contains(part)) erase(plan[part], {"name", "notes"});
  return plan;
}

/// Vocabulary padding depends on the tensor degree, so it belongs to the layout.
json without_layout(json plan) {
  plan.erase("parallel");
  plan["model"].erase("pad_vocab_to");
  erase(plan["training"], {"micro_batch_size", "recompute", "recompute_layers", "recompute_modules", "recompute_every_second_matmul"});
  return plan;
}

std::string degree(const char* axis, std::int64_t n) { return n > 1 ? std::string(" ") + axis + std::to_string(n) : ""; }

std::string summary(const Plan& p) {
  const ParallelSpec& q = p.parallel;
  std::string out = p.model.name.empty() ? std::string(name(p.model.family)) : p.model.name;
  out += "," + degree("tp", q.tensor) + degree("cp", q.context) + degree("ep", q.expert) +
         (q.expert_tensor == q.tensor ? "" : " etp" + std::to_string(q.expert_tensor)) + degree("pp", q.pipeline) +
         degree("vp", q.virtual_pipeline) + " dp" + std::to_string(q.data);
  if (q.zero_stage > 0) out += " zero" + std::to_string(q.zero_stage);
  out += ", batch " + std::to_string(p.training.global_batch_size) + " by " + std::to_string(p.training.micro_batch_size) +
         " x " + std::to_string(p.training.seq_length) + ", " + p.training.precision + ", recompute " +
         std::string(name(p.training.recompute));
  return out + ", " + std::to_string(p.cluster.devices) + " x " + p.cluster.preset;
}

}  // namespace

PlanDigest digest(const Plan& plan, const Topology& topology) {
  const json whole = without_names(json::parse(to_json(plan, -1)));
  PlanDigest out;
  out.device = topology.device().name;
  out.compute = name(plan.training.dtypes.compute);
  out.summary = summary(plan);
  out.whole = whole.dump();
  out.task = without_layout(whole).dump();
  out.devices = plan.cluster.devices;
  out.calibration = topology.device().calibration;
  out.traits = sim::traits_on(plan, topology);
  return out;
}

}  // namespace tandem::program
