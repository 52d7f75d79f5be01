#include "experiments/tandem/explain/derived_ranks.hpp"

#include "models/planfile/plan_draft.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::program {

namespace {

std::string times(const std::string& name, std::int64_t n) { return name + " " + std::to_string(n); }

}  // namespace

DerivedRanks derived_ranks(const Plan& plan, const Given& given) {
  const ParallelSpec& q = plan.parallel;
  const ClusterSpec& c = plan.cluster;
  const std::string others = times("tensor", q.tensor) + " x " + times("pipeline", q.pipeline) + " x " + times("context", q.context);
  const bool shared = c.ranks_per_device > 1;
  const std::string each = times("ranks_per_device", c.ranks_per_device);
  if (!given.contains("parallel.data"))
    return {"parallel.data", times("cluster.devices", c.devices) + (shared ? " x " + each : "") + " / (" + others + ") = " + std::to_string(q.data)};
  if (given.contains("cluster.devices")) return {};
  const std::string product = others + " x " + times("data", q.data);
  return {"cluster.devices", (shared ? "(" + product + ") / " + each : product) + " = " + std::to_string(c.devices)};
}

Given given_fields(const std::string& text, const std::string& path) {
  return read_draft(text, path, PlanContext{generation_of}).given;
}

}  // namespace tandem::program
