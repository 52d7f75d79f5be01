#include <algorithm>

#include "models/base/text.hpp"
#include "sim/simulate.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

/// BLOOM on A100 of 80 GB with fewer micro-batches, which need as much (bigscience-workshop/bigscience:
/// train/tr11-176B-ml/chronicles-prequel.md): a trial of two tensor ranks, and the layout of four that ran.
std::string bloom(std::int64_t tensor, std::int64_t pipeline, bool blocking, const std::string& stack = "megatron-deepspeed") {
  return R"({"model": {"family": "gpt", "num_layers": 72, "hidden_size": 14336, "num_attention_heads": 64, "vocab_size": 250880},
    "parallel": {"tensor": )" + std::to_string(tensor) + R"(, "pipeline": )" + std::to_string(pipeline) + R"(, "data": 32, "zero_stage": 1},
    "training": {"seq_length": 2048, "micro_batch_size": 1, "global_batch_size": 384, "precision": "fp16", "recompute": "full",
                 "flash_attention": false, "optimizer": "adamw", "launch_blocking": )" + (blocking ? "true" : "false") + R"(},
    "cluster": {"devices": )" + std::to_string(32 * tensor * pipeline) + R"(, "preset": "dgx-a100-80gb"}, "stack": ")" + stack + "\"}";
}

Prediction predict(const std::string& text) {
  const Plan plan = parse_plan(text, "bloom.json");
  return simulate(plan, lower(plan), *make_topology(plan.cluster));
}

bool tells_of_holes(const Prediction& p) {
  return std::any_of(p.notes.begin(), p.notes.end(), [](const std::string& n) { return n.find("in pieces between tensors") != n.npos; });
}

}  // namespace

TEST_CASE("what would fit as it is alive does not where all buckets are there at once and leave holes that no tensor fits in") {
  const Prediction p = predict(bloom(2, 6, false));
  CHECK(p.roles[p.heaviest_role].needed_bytes < p.device_memory);
  CHECK_FALSE(p.fits);
  CHECK(tells_of_holes(p));
  const Prediction one_buffer = predict(bloom(2, 6, false, "tandem"));  // which has none
  CHECK_FALSE(tells_of_holes(one_buffer));
}

TEST_CASE("a layout that ran fits") {
  const Prediction p = predict(bloom(4, 12, true));
  CHECK(p.fits);
  CHECK_FALSE(tells_of_holes(p));
}

TEST_CASE("a device has what its driver lets processes have of what it was built with") {
  const Prediction p = predict(bloom(4, 12, true));
  CHECK(p.device_memory.count() == 85'094'039'552);
  CHECK(p.device_memory < make_topology(parse_plan(bloom(4, 12, true), "bloom.json").cluster)->device().memory);
}
