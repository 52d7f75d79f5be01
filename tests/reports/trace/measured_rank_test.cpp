#include "reports/trace/measured_rank.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "tests/catch.hpp"
#include "tests/reports/trace/trace_files.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

const Mesh kMesh({2, 1, 1, 4, 1}, "tp-cp-ep-dp-pp");

const UsedGroups kUsed = {{"tensor", {"all_reduce"}}, {"data", {"reduce_scatter", "all_gather"}}};

double us(const json& value) { return 1e-6 * value.get<double>(); }

MeasuredRank measured(const DeviceTrace& trace, const UsedGroups& used = kUsed) {
  return measured_rank(trace, steps_of(trace, 1), GroupNames(kMesh, Rank(2), used), TraceRules::load());
}

std::string group(const CollectiveFacts& facts, const UsedGroups& used = kUsed) {
  return GroupNames(kMesh, Rank(2), used).of(facts, "all_reduce", {}, TraceRules::load());
}

}  // namespace

TEST_CASE("figures of a trace's steps are the sums that its maker counted moment by moment") {
  const json expected = read_json(tests::source_dir() + "/tests/fixtures/kineto_expected.json");
  const DeviceTrace trace = traces::of_fixtures();
  CHECK(steps_of(trace, 1).warm_up == expected["warm_up"]);
  const MeasuredRank found = measured(trace);
  REQUIRE(found.steps.size() == expected["steps"].size());
  for (std::size_t i = 0; i < found.steps.size(); ++i) {
    const RankStep& step = found.steps[i];
    const json& wanted = expected["steps"][i];
    CAPTURE(wanted["name"]);
    CHECK(step.step_s == Approx(us(wanted["time"])));
    CHECK(step.computing_s == Approx(us(wanted["computing"])));
    CHECK(step.communicating_s == Approx(us(wanted["communicating"])));
    CHECK(step.exposed_s == Approx(us(wanted["exposed"])));
    CHECK(step.idle_s == Approx(us(wanted["idle"])));
    REQUIRE(step.classes.size() == wanted["classes"].size());
    for (const auto& [cls, sum] : step.classes) {
      CAPTURE(cls);
      REQUIRE(wanted["classes"].contains(cls));
      CHECK(sum.seconds == Approx(us(wanted["classes"][cls])));
    }
  }
}

TEST_CASE("collectives of a trace have kind, group, size, bytes and number") {
  const json expected = read_json(tests::source_dir() + "/tests/fixtures/kineto_expected.json");
  const MeasuredRank found = measured(traces::of_fixtures());
  for (std::size_t i = 0; i < found.steps.size(); ++i) {
    json listed = json::array();
    for (const auto& [key, sum] : found.steps[i].collectives)
      listed.push_back({key.kind, key.group, key.group_size, key.bytes, std::llround(sum.count), std::llround(1e6 * sum.seconds)});
    CHECK(listed == expected["steps"][i]["collectives"]);
  }
}

TEST_CASE("a step's typical figures are medians, each by itself") {
  std::vector<RankStep> steps(3);
  steps[0].classes["products"] = {2, 5};
  steps[1].classes["products"] = {2, 3};
  steps[2].classes["products"] = {2, 4};
  steps[2].classes["loss"] = {1, 9};
  const RankStep middle = median_step(steps), mean = mean_step(steps);
  CHECK(middle.classes.at("products").seconds == 4);
  CHECK(middle.classes.at("loss").seconds == 0);
  CHECK(mean.classes.at("loss").seconds == 3);
}

TEST_CASE("a process group is the plan's group with the same ranks, whatever its name") {
  CollectiveFacts facts;
  facts.ranks = "[2, 3]";
  facts.description = "mesh_dp";
  CHECK(group(facts) == "tensor");
  facts.ranks = "[0, 2, 4, 6]";
  CHECK(group(facts) == "data");
  CHECK(group(facts, {{"shard", {"all_reduce"}}}) == "data");  // the plan does not shard: `shard` has one rank
  facts.ranks = "[0, 2, ...]";
  facts.group_size = 4;
  CHECK(group(facts) == "data");
  facts.ranks = "[1, 2]";
  facts.group_size = 2;
  CHECK(group(facts) == "ranks 1, 2");
}

TEST_CASE("of groups with the same ranks the one counts that the simulation uses for the kind") {
  const Mesh pipeline({1, 1, 1, 1, 2}, "tp-cp-ep-dp-pp");  // two stages: the embedding's group has the pipeline's ranks
  const GroupNames names(pipeline, Rank(1), {{"pipeline", {"send", "recv"}}, {"embedding", {"all_reduce"}}});
  CollectiveFacts facts;
  facts.ranks = "[0, 1]";
  CHECK(names.of(facts, "all_reduce", {}, TraceRules::load()) == "embedding");
  CHECK(names.of(facts, "send", {}, TraceRules::load()) == "pipeline");
}

TEST_CASE("without ranks a group is known by its description, else by its size if one group has it") {
  CollectiveFacts facts;
  facts.description = "DATA_PARALLEL_GROUP";
  CHECK(group(facts) == "data");
  facts.description = "undefined";
  facts.group_size = 2;
  CHECK(group(facts) == "tensor");
  facts.group_size = 3;
  CHECK(group(facts).empty());
}

TEST_CASE("of groups of one size the one counts that the simulation uses for the kind") {
  // Experts' ranks and data ranks are eight each. Only experts exchange rows (all-to-all); only data ranks sum gradients.
  const Mesh mesh({2, 1, 1, 8, 2}, "tp-cp-ep-dp-pp", {8});
  const UsedGroups used = {{"expert", {"all_to_all"}}, {"data", {"reduce_scatter", "all_gather"}}, {"tensor", {"all_gather"}}};
  const GroupNames names(mesh, Rank(2), used);
  REQUIRE(names.size("expert") == names.size("data"));
  CollectiveFacts facts;
  facts.group_size = 8;
  CHECK(names.of(facts, "all_to_all", {}, TraceRules::load()) == "expert");
  CHECK(names.of(facts, "reduce_scatter", {}, TraceRules::load()) == "data");
  CHECK(names.of(facts, "broadcast", {}, TraceRules::load()).empty());
  facts.group_size = 2;
  CHECK(names.of(facts, "all_gather", {}, TraceRules::load()) == "tensor");
}

TEST_CASE("a kernel that tells nothing counts for the only axis that communicates so") {
  // The kernels' names are NCCL's before 2.19. FSDP shards over data ranks: weights in one group, experts' in another of that axis.
  const UsedGroups used = {{"shard", {"all_gather", "reduce_scatter"}}, {"expert_shard", {"all_gather"}}, {"tensor", {"all_reduce"}}};
  const std::string gather = traces::kernel("ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclWorkElem)", 1, 20, 5, 1);
  const std::string scatter = traces::kernel("ncclKernel_ReduceScatter_RING_LL_Sum_float(ncclWorkElem)", 30, 40, 6, 2);
  const MeasuredRank found = measured(traces::of_text(traces::file_of(gather + "," + scatter)), used);
  CHECK(found.typical.classes.at("data communication").count == 2);
  REQUIRE(found.typical.collectives.size() == 2);
  CHECK(found.typical.collectives.begin()->first.group.empty());                   // all_gather: of which of the two groups?
  CHECK(std::next(found.typical.collectives.begin())->first.group == "shard");
  UsedGroups two_axes = used;
  two_axes["tensor"].insert("all_gather");
  const MeasuredRank open = measured(traces::of_text(traces::file_of(gather)), two_axes);
  CHECK(open.typical.classes.count("communication of an unknown group") == 1);
}

TEST_CASE("a group that a kernel only names is known by what the trace's head says of it") {
  DeviceTrace trace;
  trace.groups["7"].description = "EXPERT_MODEL_PARALLEL_GROUP";
  CollectiveFacts facts;
  facts.group = "7";
  facts.description = "undefined";  // PyTorch's word for a group without a description
  CHECK(GroupNames(kMesh, Rank(2), kUsed).of(facts, "all_to_all", trace, TraceRules::load()) == "expert");
  trace.groups["7"].ranks = {2, 3};
  CHECK(GroupNames(kMesh, Rank(2), kUsed).of(facts, "all_to_all", trace, TraceRules::load()) == "tensor");
}

TEST_CASE("old traces tell a collective by the annotation around its launch, else by its kernel") {
  const std::string send = traces::event("user_annotation", "nccl:all_to_all", 0, 10) + "," +
                           traces::kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", 1, 20, 5, 1) + "," +
                           traces::kernel("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", 30, 40, 5, 2);
  const MeasuredRank found = measured(traces::of_text(traces::file_of(send)));
  const auto& collectives = found.typical.collectives;
  REQUIRE(collectives.size() == 2);
  CHECK(collectives.begin()->first.kind == "all_reduce");
  CHECK(std::next(collectives.begin())->first.kind == "all_to_all");
  CHECK(collectives.begin()->first.bytes == 0);
  CHECK(found.typical.classes.count("communication of an unknown group") == 1);
}
