#include "tests/sim/engine/random_plans.hpp"
#include "topology/plan_reader.hpp"

#include <nlohmann/json.hpp>

namespace tandem::sim::test {

using nlohmann::json;

namespace {

std::int64_t at(const json& part, const char* key) { return part[key].get<std::int64_t>(); }

}  // namespace

std::string PlanGenerator::text() {
  using Json = nlohmann::json;
  Json parallel{{"tensor", pick({1, 1, 2, 4, 8})}, {"pipeline", pick({1, 1, 2, 3, 4, 8})}, {"context", pick({1, 1, 1, 2, 4})}};
  std::int64_t data = std::int64_t{1} << (random_() % 8);
  if (one_in(4)) data += data / 2;
  const std::int64_t others = at(parallel, "tensor") * at(parallel, "pipeline") * at(parallel, "context");
  parallel["data"] = std::max<std::int64_t>(1, std::min(data, most_ / others));
  const bool experts = one_in(4);
  if (experts) parallel["expert"] = pick({1, 2, 4, 8});
  parallel["zero_stage"] = pick({0, 0, 1, 2, 3});
  if (at(parallel, "zero_stage") > 0 && one_in(4)) parallel["zero_group"] = pick({2, 4});
  parallel["schedule"] = pick<const char*>({"1f1b", "1f1b", "gpipe", "interleaved", "breadth-first", "zb-h1", "zb-h2"});
  const std::string schedule = parallel["schedule"];
  const int chunks = schedule == "interleaved" || schedule == "breadth-first" ? 2 : 1;
  if (chunks > 1) parallel["virtual_pipeline"] = chunks;
  for (const char* flag : {"sequence_parallel", "overlap_grad_reduce", "overlap_param_gather", "tensor_overlap", "overlap_tensor_sum",
                           "scatter_gather_tensors_in_pipeline", "overlap_p2p"})
    if (one_in(2)) parallel[flag] = one_in(2);
  parallel["context_mode"] = pick<const char*>({"ring", "all_gather", "ulysses"});
  parallel["rank_order"] = pick<const char*>({"tp-cp-ep-dp-pp", "tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "tp-pp-cp-ep-dp", "cp-ep-dp-tp-pp"});
  parallel["bucket_bytes"] = pick({1, 2'000'000, 160'000'000});

  const std::int64_t layers = at(parallel, "pipeline") * chunks * pick({1, 2}), micro = pick({1, 2});
  const std::int64_t count = at(parallel, "pipeline") * pick({1, 2});
  Json model{{"family", pick<const char*>({"gpt", "llama", "bloom"})}, {"num_layers", layers}, {"hidden_size", pick({256, 1024})},
             {"num_attention_heads", 16}, {"vocab_size", 4000}, {"tie_embeddings", one_in(2)}};
  if (experts) model["moe"] = {{"num_experts", 8}, {"experts_per_token", 2}, {"capacity_factor", pick({0.0, 1.25})}};
  Json training{{"seq_length", pick({128, 1024})}, {"micro_batch_size", micro}, {"global_batch_size", micro * count * at(parallel, "data")},
                {"recompute", pick<const char*>({"none", "selective", "full"})}, {"recompute_early_stop", one_in(2)},
                {"flash_attention", one_in(2)}};
  if (at(parallel, "context") > 1 && parallel["context_mode"] == "ring") training.erase("flash_attention");  // a ring keeps no score matrix
  Json cluster{{"preset", pick<const char*>({"dgx-a100-80gb", "dgx-a100-80gb", "dgx-1v", "dgx-h100", "dgx-b200", "gb200-nvl72", "hls-gaudi2",
                                             "trn1.32xlarge", "cpu-host", "mi300x-8x400g", "frontier"})},
               {"devices", others * at(parallel, "data")}};
  const std::string preset = cluster["preset"];
  if (preset == "dgx-1v") training["precision"] = "fp16";
  if (preset == "cpu-host") training["precision"] = "fp32";
  if (one_in(4)) training["dtypes"] = {{"gradient_reduce", "bf16"}};
  if (one_in(4)) cluster["override"] = {{"oversubscription", pick({2, 4})}};
  const bool cuda = preset.starts_with("dgx") || preset.starts_with("gb200");
  if (one_in(4) && cuda) training["cuda_graphs"] = pick<const char*>({"layers", "iteration"});
  if (one_in(4)) training["deterministic"] = training["fill_uninitialized_memory"] = true;
  if (one_in(4) && cuda) cluster["override"]["nccl_algo"] = pick<const char*>({"ring", "^nvls"});
  return Json{{"stack", "tandem"}, {"model", model}, {"parallel", parallel}, {"training", training}, {"cluster", cluster}}.dump();
}

std::optional<RandomPlan> PlanGenerator::draw() {
  const std::string document = text();
  try {
    RandomPlan out;
    out.plan = parse_plan(document, "random.json");
    require_lowerable(out.plan);
    out.topology = make_topology(out.plan.cluster);
    out.graph = lower(out.plan);
    return out;
  } catch (const ConfigError&) {
    return {};
  }
}

RandomPlan PlanGenerator::next() {
  for (;;)
    if (auto plan = draw()) return std::move(*plan);
}

Perturbation PlanGenerator::perturbation(const RandomPlan& of) {
  Perturbation p;
  const auto links = static_cast<std::uint32_t>(of.topology->link_count());
  const auto ranks = static_cast<std::uint32_t>(of.plan.world_size());
  for (std::uint32_t n = random_() % 2; n < 2; ++n)
    p.slow_devices.push_back({static_cast<std::int64_t>(random_() % ranks), -1, -1, pick({0.5, 0.8, 0.95})});
  for (std::uint32_t n = random_() % 3; n < 2 && links > 0; ++n)
    p.slow_links.push_back({of.topology->link_name(static_cast<std::int32_t>(random_() % links)), pick({0.1, 0.5, 0.9})});
  return p;
}

}  // namespace tandem::sim::test
