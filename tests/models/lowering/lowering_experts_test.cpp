// Layers of experts under tensor and expert parallelism: what travels, and what is kept, against closed forms.

#include "tests/models/lowering/memory_case.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

constexpr std::int64_t kExperts = 4, kChoices = 2, kFfn = 64;

struct ExpertCase : MemoryCase {
  std::int64_t expert = 1, expert_tensor = 0;  ///< 0: as the plan's default has it
  bool sequence_parallel = true, dropless = true;

  Plan made() const {
    nlohmann::json p = nlohmann::json::parse(to_json(plan()));
    p["parallel"]["expert"] = expert;
    p["parallel"].erase("expert_tensor");
    if (expert_tensor > 0) p["parallel"]["expert_tensor"] = expert_tensor;
    p["parallel"]["sequence_parallel"] = sequence_parallel && tensor > 1;
    p["model"]["moe"] = {{"num_experts", kExperts}, {"experts_per_token", kChoices}, {"ffn_hidden_size", kFfn}, {"rows_bound", 1},
                         {"capacity_factor", dropless ? 0.0 : 1.0}};
    return parse_plan(p.dump(), "experts.json");
  }
  std::int64_t tokens() const { return seq * batch; }
  /// Rows that one rank sends.
  std::int64_t sent() const { return tokens() * kChoices / (sequence_parallel ? tensor : 1); }
};

ExpertCase spread(std::int64_t tensor, std::int64_t expert, bool dropless) {
  ExpertCase c;
  c.layers = 2;
  c.tensor = tensor;
  c.data = c.expert = expert;
  c.dropless = dropless;
  return c;
}

/// Payload of a step's collectives of hidden rows whose task ends so.
std::int64_t payload_of(const TaskGraph& graph, std::string_view ending, Group group) {
  const Program& p = graph.programs.front();
  std::int64_t sum = 0;
  for (const Instance& i : p.instances)
    for (const Task& task : graph.of(i).tasks) {
      const auto* c = std::get_if<Collective>(&task.op);
      const bool of_rows = c != nullptr && c->group == group && c->dtype != DType::int32;
      if (of_rows && task.name.ends_with(ending)) sum += payload(task.op).count();
    }
  return sum;
}

bool has_task(const TaskGraph& graph, std::string_view name) {
  for (const Template& t : graph.templates)
    for (const Task& task : t.tasks)
      if (task.name == name) return true;
  return false;
}

}  // namespace

TEST_CASE("a tensor rank exchanges its own rows four times a layer, and gathers and scatters all twice") {
  const std::int64_t t = GENERATE(1, 2, 4), e = GENERATE(1, 2, 4);
  const bool dropless = GENERATE(false, true);
  const ExpertCase c = spread(t, e, dropless);
  CAPTURE(t, e, dropless);
  const TaskGraph graph = lower(c.made());
  graph.check();
  const std::int64_t once = 2 * c.layers * c.sent() * c.hidden;  // 16 bits
  CHECK(payload_of(graph, "_all_to_all", Group::expert) == (e > 1 ? 4 * once : 0));
  for (const char* name : {"dispatch", "drows"})
    CHECK(payload_of(graph, std::string(name) + "_all_gather", Group::tensor) == (t > 1 ? t * once : 0));
  for (const char* name : {"return", "dispatch_backward"})
    CHECK(payload_of(graph, std::string(name) + "_reduce_scatter", Group::tensor) == (t > 1 ? t * once : 0));
  // Neither the experts' input nor its gradient is gathered, and nothing of theirs is summed token by token.
  for (const char* name : {"ln2_all_gather", "mlp_gradient_all_gather", "experts_reduce_scatter", "experts_dgrad_reduce_scatter",
                           "dweights_all_reduce"})
    CHECK_FALSE(has_task(graph, name));
}

TEST_CASE("without sequence parallelism every tensor rank exchanges all rows") {
  ExpertCase c = spread(2, 2, true);
  c.sequence_parallel = false;
  const TaskGraph graph = lower(c.made());
  CHECK(payload_of(graph, "_all_to_all", Group::expert) == 4 * 2 * c.layers * c.tokens() * kChoices * c.hidden);
  CHECK(payload_of(graph, "dispatch_all_gather", Group::tensor) == 0);
  CHECK(has_task(graph, "experts_all_reduce"));
}

namespace {

/// Two layers on tensor x data ranks.
ExpertCase folded(std::int64_t tensor, std::int64_t data, std::int64_t expert, std::int64_t expert_tensor) {
  ExpertCase c;
  c.layers = 2;
  c.tensor = tensor;
  c.data = data;
  c.expert = expert;
  c.expert_tensor = expert_tensor;
  return c;
}

/// Tensor, data, expert, expert tensor.
const std::vector<std::array<std::int64_t, 4>> kFolded{{4, 1, 2, 2}, {2, 2, 4, 1}, {2, 4, 4, 1}, {4, 1, 4, 1},
                                                       {4, 1, 1, 2}, {2, 2, 1, 4}, {1, 4, 2, 2}, {4, 2, 4, 2}};

std::int64_t local_elements(const TaskGraph& graph, std::string_view part) {
  std::int64_t sum = 0;
  for (const Param& p : graph.programs.front().params)
    if (p.name.find(part) != std::string::npos) sum += p.elements();
  return sum;
}

}  // namespace

TEST_CASE("experts cut over other ranks than the rest: what a rank holds, multiplies, sends and gathers") {
  const auto [t, d, e, w] = GENERATE(from_range(kFolded));
  const ExpertCase c = folded(t, d, e, w);
  CAPTURE(t, d, e, w);
  const Plan plan = c.made();
  const TaskGraph graph = lower(plan);
  graph.check();
  // Every rank sends what it routes, and gathers it with those that share its experts' matrices.
  const std::int64_t once = 2 * c.layers * c.sent() * c.hidden;  // 16 bits
  CHECK(payload_of(graph, "_all_to_all", Group::expert) == (e > 1 ? 4 * once : 0));
  CHECK(payload_of(graph, "dispatch_all_gather", Group::expert_tensor) == (w > 1 ? w * once : 0));
  CHECK(payload_of(graph, "dispatch_backward_reduce_scatter", Group::expert_tensor) == (w > 1 ? w * once : 0));
  CHECK(payload_of(graph, "dispatch_all_gather", Group::tensor) == 0);
  // Two matrices of its experts, a part each; attention is cut over tensor ranks as ever.
  CHECK(local_elements(graph, "experts.fc1.weight") == c.layers * kExperts / e * kFfn / w * c.hidden);
  CHECK(local_elements(graph, "experts.fc2.weight") == c.layers * kExperts / e * kFfn / w * c.hidden);
  CHECK(local_elements(graph, "proj.weight") == c.layers * c.hidden * c.hidden / t);
  // Megatron-Core: expert_data_parallel_size = world / (expert_tensor x expert x pipeline).
  CHECK(make_mesh(plan).group_size(Group::expert_data) == t * d / (w * e));
  // What all ranks of a stage multiply together is what the tokens of its data ranks choose.
  std::int64_t flops = 0;
  for (const Instance& i : graph.programs.front().instances)
    for (const Task& task : graph.of(i).tasks)
      if (task.name.starts_with("experts.")) flops += matrix_flops(task.op).count();
  CHECK(t * d * flops == d * c.layers * 3 * 2 * (2 * c.tokens() * kChoices * c.hidden * kFfn));
}

TEST_CASE("experts take as much of the tensor axis as their ranks leave") {
  const auto default_of = [](std::int64_t t, std::int64_t d, std::int64_t e) {
    return folded(t, d, e, 0).made().parallel.expert_tensor;
  };
  CHECK(default_of(4, 2, 2) == 4);
  CHECK(default_of(4, 1, 2) == 2);
  CHECK(default_of(2, 2, 4) == 1);
  CHECK(default_of(2, 1, 1) == 2);
}

TEST_CASE("experts cut over other ranks than the rest need rows of their own on every tensor rank, and whole sets in a sharding group") {
  const auto fields = [](const Plan& plan) {
    std::vector<std::string> all;
    try {
      require_lowerable(plan);
    } catch (const InfeasibleError& e) {
      for (const Problem& p : e.problems()) all.push_back(p.field);
    }
    return all;
  };
  for (const auto& [data, field] : {std::pair(2, "parallel.expert_tensor"), std::pair(1, "parallel.expert")}) {
    ExpertCase c = folded(4, data, 2, 2);  // one data rank: two expert ranks need tensor ranks, however experts are cut
    c.sequence_parallel = false;
    CHECK(fields(c.made()) == std::vector<std::string>{field});
  }
  Plan grouped = folded(2, 4, 4, 1).made();
  CHECK(fields(grouped).empty());
  grouped.parallel.zero_stage = 1;
  CHECK(fields(grouped).empty());
  grouped.parallel.zero_group = 2;  // of two tensor ranks each, with four expert ranks
  CHECK(fields(grouped).empty());
  grouped.parallel.zero_group = 1;
  CHECK(fields(grouped) == std::vector<std::string>{"parallel.zero_group"});
  grouped.parallel.zero_stage = 0;  // nothing is sharded
  CHECK(fields(grouped).empty());
}

TEST_CASE("FLOPs of a rank do not depend on who routes") {
  const bool dropless = GENERATE(false, true);
  ExpertCase c = spread(2, 2, dropless);
  const auto products = [&](bool shared_rows) {
    c.sequence_parallel = shared_rows;
    const TaskGraph graph = lower(c.made());
    std::int64_t sum = 0;
    for (const Instance& i : graph.programs.front().instances)
      for (const Task& task : graph.of(i).tasks)
        if (task.name.starts_with("experts.")) sum += matrix_flops(task.op).count();
    return sum;
  };
  // Forward, and twice that backward, of two matrices that tensor ranks cut.
  CHECK(products(true) == c.layers * 3 * 2 * (2 * c.tokens() * kChoices * c.hidden * kFfn / c.tensor));
  CHECK(products(false) == products(true));
}

TEST_CASE("a layer of experts keeps a share of all but what its products read and write") {
  const std::int64_t t = GENERATE(1, 2), e = GENERATE(1, 2);
  const bool dropless = GENERATE(false, true);
  const ExpertCase c = spread(t, e, dropless);
  CAPTURE(t, e, dropless);
  const TaskGraph graph = lower(c.made());
  const StageOf stage(graph, 0);
  const std::int64_t sb = c.tokens(), rows = sb / t, sbh = sb * c.hidden, core = 2 * c.heads / t * c.seq * c.seq * c.batch;
  // As in a dense layer: inputs of qkv, of the MLP and of the second norm, statistics; queries, keys, values and context; the core.
  const std::int64_t attention = (6 * sbh + 8 * sb) / t + 8 * sbh / t + core;
  // Logits and probabilities, weights and places of choices, how many there are.
  const std::int64_t router = 2 * aligned(2 * rows * kExperts) + aligned(2 * rows * kChoices) + aligned(4 * rows * kChoices);
  const std::int64_t counts =
      aligned(4 * kExperts) * (1 + (dropless && e > 1)) + (dropless && t > 1 ? aligned(4 * t * kExperts) : 0);
  // What the first matrix reads, both outputs inside, and what came back.
  const std::int64_t experts = 2 * sb * kChoices * (c.hidden + 2 * kFfn / t) + 2 * rows * kChoices * c.hidden;
  CHECK(stage.behind(stage.find("block_forward", 1, 0, Phase::forward), "saved").bytes.count() ==
        attention + router + counts + experts);
}
