// Regions and units by their sizes alone are those of the programs that a plan is lowered to.

#include <algorithm>
#include <tuple>

#include "models/lowering/shapes/stage_units.hpp"
#include "models/lowering/stage/stage_chunks.hpp"
#include "models/lowering/stage/stage_order.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::lowering;

namespace {

Plan plan_of(const std::string& model, const std::string& parallel, const std::string& training = "") {
  return parse_plan(R"({"stack": "tandem", "model": {)" + model + R"(}, "parallel": {)" + parallel +
                        R"(}, "training": {"seq_length": 64, "micro_batch_size": 1, "global_batch_size": 16)" + training +
                        R"(}, "cluster": {"preset": "dgx-a100-80gb", "devices": 16}})",
                    "plan.json");
}

const std::string kGpt = R"("num_layers": 8, "hidden_size": 72, "num_attention_heads": 4, "vocab_size": 1000)";
const std::string kMixture = kGpt + R"(, "moe": {"num_experts": 4, "layer_frequency": 2})";
const std::string kT5 = kGpt + R"(, "family": "t5", "num_decoder_layers": 4)";

}  // namespace

TEST_CASE("units by sizes alone are those of the lowered programs") {
  const auto [model, parallel] = GENERATE_COPY(
      std::pair(kGpt, std::string(R"("tensor": 2, "pipeline": 2, "data": 4, "zero_stage": 1, "bucket_bytes": "40 kB")")),
      std::pair(kGpt, std::string(R"("pipeline": 4, "data": 4, "virtual_pipeline": 2, "schedule": "interleaved", "bucket_bytes": "1 MB")")),
      std::pair(kGpt + R"(, "tie_embeddings": false)", std::string(R"("pipeline": 2, "data": 8, "zero_stage": 2, "schedule": "zb-h1")")),
      std::pair(kGpt, std::string(R"("data": 16, "zero_stage": 3)")),
      std::pair(kMixture, std::string(R"("pipeline": 2, "data": 8, "expert": 4, "zero_stage": 1, "bucket_bytes": "100 kB")")),
      std::pair(kT5, std::string(R"("pipeline": 2, "data": 8, "zero_stage": 1)")));
  CAPTURE(model, parallel);
  Plan plan = plan_of(model, parallel, R"(, "decoder_seq_length": )" + std::string(model == kT5 ? "32" : "0"));
  plan.stack.facts.buckets_in_first_chunk = GENERATE(false, true);
  const ModelRegions regions = model_regions(make_shapes(plan));
  const auto stages = stage_chunks(plan);
  const TaskGraph graph = lower(plan);
  REQUIRE(stages.size() == graph.programs.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StageUnits sized = stage_units(regions, stages[s], sharding_of(plan));
    const Program& program = graph.programs[s];
    CHECK(sized.flat_elements == program.flat_elements);
    CHECK(sized.shard_elements == program.shard_elements);
    const auto alike = [](const ShardUnit& a, const ShardUnit& b) {
      return std::tie(a.offset, a.elements, a.shards, a.shard_offset, a.replication) ==
             std::tie(b.offset, b.elements, b.shards, b.shard_offset, b.replication);
    };
    CHECK(std::equal(sized.units.begin(), sized.units.end(), program.units.begin(), program.units.end(), alike));
  }
}

TEST_CASE("Megatron-LM has buckets in the first stage's first chunk alone, and none holds gradients of two chunks") {
  const std::string staged = R"("pipeline": 2, "data": 8, "virtual_pipeline": 2, "schedule": "interleaved", "bucket_bytes": "100 kB", "overlap_grad_reduce": true)";
  Plan plan = plan_of(kGpt, staged);
  const auto buckets = [&](std::size_t stage) {
    const auto chunks = stage_chunks(plan)[stage];
    const StageUnits units = stage_units(model_regions(make_shapes(plan)), chunks, sharding_of(plan));
    std::vector<std::int64_t> of_chunk(2);
    for (const UnitRegions& u : units.unit_regions) {
      for (std::int32_t r = u.first; plan.stack.facts.buckets_in_first_chunk && r < u.first + u.count; ++r)
        CHECK(units.regions[static_cast<std::size_t>(r)].chunk == units.regions[static_cast<std::size_t>(u.first)].chunk);
      ++of_chunk[static_cast<std::size_t>(units.regions[static_cast<std::size_t>(u.first)].chunk)];
    }
    return of_chunk;
  };
  CHECK(buckets(1)[1] > 1);  // Tandem's own buckets end at 100 kB on every stage
  plan.stack.facts.buckets_in_first_chunk = true;
  CHECK(buckets(0)[0] > 1);
  CHECK(buckets(0)[1] == 1);
  CHECK(buckets(1) == std::vector<std::int64_t>{1, 1});
}

TEST_CASE("regions of a model do not depend on how many layers it has, as long as none differs") {
  const ModelRegions two = model_regions(make_shapes(plan_of(R"("num_layers": 2, )" + kGpt.substr(17), R"("data": 16)")));
  const Plan plan = plan_of(kGpt, R"("pipeline": 2, "data": 8, "zero_stage": 1)");
  const StageUnits sized = stage_units(two, stage_chunks(plan)[1], sharding_of(plan));
  CHECK(sized.flat_elements == lower(plan).programs[1].flat_elements);
}

TEST_CASE("the first layers of a stage are counted over its chunks in the order in which they run") {
  const std::vector<ChunkPart> chunks{{0, 0, 3}, {1, 6, 2}};
  CHECK(among_first(chunks, chunks[0], 0) == 3);
  CHECK(among_first(chunks, chunks[0], 2) == 2);
  CHECK(among_first(chunks, chunks[1], 2) == 0);
  CHECK(among_first(chunks, chunks[1], 4) == 1);
  CHECK(among_first(chunks, chunks[1], 9) == 2);
}
