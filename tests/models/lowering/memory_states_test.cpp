// Weights, gradients and optimizer states against formulas derived by hand.
//
// Rajbhandari et al., arXiv 1910.02054 section 5: with mixed precision and Adam a parameter takes 2 bytes of weight, 2 of
// gradient and K = 12 of state (fp32 master weight, mean and variance). Over N ranks stage 1 keeps 2 + 2 + K/N, stage 2
// 2 + (2+K)/N, stage 3 (2+2+K)/N. Here gradients are summed in fp32, so theirs are 4 bytes: 18 in all. A part of the model (a
// layer, the vocabulary's matrices, the small parts of the two ends) begins at a whole block of 64 elements, and what is
// sharded together is padded so that every rank has whole blocks. With stages 2 and 3 gradients of what is sharded
// together are whole only until they have been summed; with stage 3 weights are whole from some layers before their use to the
// end of it.

#include "tests/models/lowering/memory_case.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

/// Parameters of the parts of a GPT on one tensor rank.
struct Parts {
  std::int64_t layer, word, output, positions, norm;
};

Parts parts_of(const MemoryCase& c) {
  const std::int64_t h = c.hidden, t = c.tensor, f = c.ffn;
  // Norms; qkv, its bias; projection, its bias; first matrix, its bias; second matrix, its bias.
  const std::int64_t layer = 4 * h + (3 * h * h + 3 * h) / t + h * h / t + h + (f * h + f) / t + f * h / t + h;
  return {layer, c.vocab / t * h, c.vocab / t * h, c.seq * h, 2 * h};
}

/// On two tensor ranks.
MemoryCase odd(int zero, std::int64_t data) {
  MemoryCase c = odd_sizes();
  c.data = data;
  c.tensor = 2;
  c.parallel["zero_stage"] = zero;
  c.parallel["bucket_bytes"] = "1 B";
  return c;
}

/// Elements of a part that is sharded alone.
std::int64_t alone(std::int64_t elements, std::int64_t shards) { return up(up(elements, 64), 64 * shards); }

std::int64_t persistent(const StageOf& stage, MemoryKind kind) {
  const auto last = static_cast<std::uint32_t>(stage.program().instances.size() - 1);
  std::int64_t sum = 0;
  for (const Allocation& a : stage.program().memory.allocations)
    if (a.kind == kind && (a.first == 0 || a.name == "gradients") && a.last == last) sum += a.bytes.count();
  return sum;
}

struct Bytes3 {
  std::int64_t weights, gradients, states;
  bool operator==(const Bytes3&) const = default;
};

Bytes3 persistent(const TaskGraph& graph) {
  const StageOf stage(graph, 0);
  return {persistent(stage, MemoryKind::weights), persistent(stage, MemoryKind::gradients),
          persistent(stage, MemoryKind::optimizer)};
}

/// Published bytes of weights, gradients and states for `n` elements over `shards` ranks.
Bytes3 published(int zero, std::int64_t n, std::int64_t shards) {
  const std::int64_t own = n / shards;
  return {aligned(2 * (zero == 3 ? own : n)), aligned(4 * (zero >= 2 ? own : n)), 3 * aligned(4 * (zero >= 1 ? own : n))};
}

}  // namespace

TEST_CASE("ZeRO 0 to 3 keep 2+4+12, 2+4+12/N, 2+(4+12)/N and (2+4+12)/N bytes a parameter, every part padded to 64 N") {
  const int zero = GENERATE(0, 1, 2, 3);
  const std::int64_t data = GENERATE(1, 2, 4), shards = zero == 0 ? 1 : data;
  CAPTURE(zero, data);
  const MemoryCase c = odd(zero, data);
  const Parts p = parts_of(c);
  const std::int64_t n = c.layers * alone(p.layer, shards) + alone(p.word, shards) + alone(p.output, shards) +
                         alone(p.positions, shards) + alone(p.norm, shards);
  CHECK(persistent(lower(c.plan())) == published(zero, n, shards));
}

TEST_CASE("in one bucket only the sum is padded to 64 N") {
  const int zero = GENERATE(0, 1, 2);
  const std::int64_t data = GENERATE(2, 4), shards = zero == 0 ? 1 : data;
  CAPTURE(zero, data);
  MemoryCase c = odd(zero, data);
  c.parallel["bucket_bytes"] = "1 GB";
  const Parts p = parts_of(c);
  const std::int64_t sum = c.layers * up(p.layer, 64) + up(p.word, 64) + up(p.output, 64) + up(p.positions, 64) + up(p.norm, 64);
  CHECK(persistent(lower(c.plan())) == published(zero, up(sum, 64 * shards), shards));
}

TEST_CASE("a group of ZeRO ranks smaller than the data axis shares among itself alone") {
  MemoryCase c = odd(3, 4);
  c.parallel["zero_group"] = 2;
  const Parts p = parts_of(c);
  const std::int64_t n =
      c.layers * alone(p.layer, 2) + alone(p.word, 2) + alone(p.output, 2) + alone(p.positions, 2) + alone(p.norm, 2);
  CHECK(persistent(lower(c.plan())) == published(3, n, 2));
}

/// Four experts on four data ranks with ZeRO 1 in groups of so many. Every part is a multiple of 64 N elements.
static nlohmann::json four_experts(std::int64_t zero_group) {
  MemoryCase c;
  c.layers = 2;
  c.hidden = 256;
  c.ffn = 1024;
  c.data = 4;
  c.parallel["zero_stage"] = 1;
  c.parallel["zero_group"] = zero_group;
  nlohmann::json p = nlohmann::json::parse(to_json(c.plan()));
  p["model"]["moe"] = {{"num_experts", 4}, {"experts_per_token", 1}};
  return p;
}

TEST_CASE("experts that every rank holds all of are shared out in the same groups as other parameters") {
  nlohmann::json p = four_experts(GENERATE(1, 2, 4));
  const Plan plan = parse_plan(p.dump(), "memory.json");
  // Two states and a copy in fp32 of each parameter, over the ranks of a group.
  const std::int64_t n = count_parameters(plan.model, plan.padded_vocab_size()).total;
  const TaskGraph graph = lower(plan);
  CHECK_NOTHROW(graph.check());
  CHECK(persistent(graph).states == 12 * n / plan.parallel.zero_group);
}

namespace {

/// Experts are shared out in halves, and each half over the ranks of a group that hold it; all else is over the whole group.
void check_groups(nlohmann::json p, std::int64_t group) {
  p["model"]["linear_bias"] = false;
  p["parallel"]["expert"] = 2;
  const Plan plan = parse_plan(p.dump(), "memory.json");
  const std::int64_t all = count_parameters(plan.model, plan.padded_vocab_size()).total;
  const std::int64_t experts = plan.model.num_layers * 4 * 2 * plan.model.hidden_size * plan.model.moe.ffn_hidden_size;
  const TaskGraph graph = lower(plan);
  CHECK_NOTHROW(graph.check());
  CHECK(persistent(graph).weights == 2 * (all - experts / 2));
  CHECK(persistent(graph).states == 12 * ((all - experts) / group + experts / 2 / (group / 2)));
}

}  // namespace

TEST_CASE("in groups of as many data ranks as share out the experts, experts are whole and all else is sharded") {
  check_groups(four_experts(2), 2);
}

TEST_CASE("in groups that hold every expert twice, experts are shared out in halves and all else over the group") {
  nlohmann::json p = four_experts(4);
  p["parallel"]["data"] = p["cluster"]["devices"] = 8;
  p["training"]["global_batch_size"] = 8 * p["training"]["micro_batch_size"].get<std::int64_t>();
  check_groups(p, 4);
}

TEST_CASE("without padding a parameter takes what the paper says to the byte") {
  const int zero = GENERATE(0, 1, 2, 3);
  MemoryCase c;  // every part is a multiple of 64 N elements
  c.layers = 2;
  c.hidden = 256;
  c.ffn = 1024;
  c.data = 4;
  c.parallel["zero_stage"] = zero;
  const std::int64_t n = count_parameters(c.plan().model, c.plan().padded_vocab_size()).total;
  const Bytes3 got = persistent(lower(c.plan()));
  const std::int64_t all = got.weights + got.gradients + got.states;
  const std::int64_t per_rank[] = {18 * c.data, 6 * c.data + 12, 2 * c.data + 16, 18};  // N times bytes a parameter
  CHECK(c.data * all == per_rank[zero] * n);
}

namespace {

/// Whole tensors alive while instance `i` runs.
std::int64_t whole(const StageOf& stage, std::uint32_t i, const char* name) { return stage.alive(i, called(name)); }

}  // namespace

TEST_CASE("ZeRO 2 and 3 hold whole gradients of no more than what has not been summed") {
  const int zero = GENERATE(2, 3);
  const MemoryCase c = odd(zero, 2);
  const Parts p = parts_of(c);
  const TaskGraph graph = lower(c.plan());
  const StageOf stage(graph, 0);
  const auto bytes = [&](std::int64_t elements) { return aligned(4 * alone(elements, 2)); };
  const std::int64_t most = std::max({bytes(p.layer), bytes(p.norm) + bytes(p.output), bytes(p.positions) + bytes(p.word)});
  for (std::uint32_t i = 0; i < stage.program().instances.size(); ++i) {
    const std::string& block = stage.block(i);
    const std::int64_t now = whole(stage, i, "unit_gradients");
    INFO(block);
    if (block == "block_backward") CHECK(now == bytes(p.layer));
    else if (block == "head_backward") CHECK(now == bytes(p.norm) + bytes(p.output));
    else if (block == "embed_backward") CHECK(now == bytes(p.positions) + bytes(p.word));
    else if (stage.program().instances[i].phase == Phase::reduce) CHECK(now <= most);
    else CHECK(now == 0);
  }
}

TEST_CASE("a weight's whole gradient under ZeRO 2 and 3 begins with a zero-bubble schedule's weight pass, so 1F1B holds as much") {
  const int zero = GENERATE(2, 3);
  const std::string schedule = GENERATE("zb-h1", "zb-h2");
  MemoryCase c = odd(zero, 2);
  c.layers = 4;
  c.pipeline = 2;
  c.micro_batches = 6;
  c.parallel["schedule"] = schedule;
  MemoryCase whole_passes = c;
  whole_passes.parallel["schedule"] = "1f1b";
  CAPTURE(zero, schedule);
  const std::int64_t layer = aligned(4 * alone(parts_of(c).layer, 2));
  const TaskGraph graph = lower(c.plan()), plain = lower(whole_passes.plan());
  CHECK_NOTHROW(graph.check());
  for (std::int64_t d = 0; d < c.pipeline; ++d) {
    const StageOf stage(graph, d);
    for (std::uint32_t i = 0; i < stage.program().instances.size(); ++i) {
      const std::int64_t now = whole(stage, i, "unit_gradients");
      INFO(stage.block(i));
      if (stage.block(i) == "block_weights") CHECK(now == layer);
      else if (stage.block(i) == "block_backward" || stage.block(i) == "block_forward") CHECK(now == 0);
    }
    CHECK(stage.most(of_kind(MemoryKind::gradients)) == StageOf(plain, d).most(of_kind(MemoryKind::gradients)));
  }
}

TEST_CASE("Under ZeRO 2 no bucket joins gradients of the two halves of a split backward pass, however large it may be") {
  MemoryCase c = odd(2, 2);
  c.layers = 4;
  c.pipeline = 2;
  c.micro_batches = 6;
  c.parallel["schedule"] = GENERATE("zb-h1", "zb-h2");
  c.parallel["bucket_bytes"] = "1 GB";
  const TaskGraph graph = lower(c.plan());
  const Parts p = parts_of(c);
  const std::int64_t layers = 2 * up(p.layer, 64);
  for (std::int64_t d = 0; d < c.pipeline; ++d) {
    const StageOf stage(graph, d);
    for (std::uint32_t i = 0; i < stage.program().instances.size(); ++i) {
      INFO(stage.block(i));
      const std::int64_t now = whole(stage, i, "unit_gradients");
      if (stage.block(i) == "block_weights") CHECK(now == aligned(4 * up(layers, 128)));
      else if (stage.block(i) == "block_backward" || stage.block(i) == "block_forward") CHECK(now == 0);
    }
  }
}

TEST_CASE("ZeRO 2 with one bucket a layer and the head holds both until both are there") {
  MemoryCase c = odd(2, 2);
  const Parts p = parts_of(c);
  const std::int64_t bucket = up(p.norm, 64) + up(p.output, 64) + up(p.layer, 64);
  c.parallel["bucket_bytes"] = std::to_string(4 * bucket) + " B";
  const TaskGraph graph = lower(c.plan());
  const StageOf stage(graph, 0);
  const std::int64_t bytes = aligned(4 * up(bucket, 128));
  for (std::int64_t mb = 0; mb < c.micro_batches; ++mb) {
    CHECK(whole(stage, stage.find("head_backward", -1, mb, Phase::backward), "unit_gradients") == bytes);
    CHECK(whole(stage, stage.find("block_backward", 2, mb, Phase::backward), "unit_gradients") == bytes);
  }
}

namespace {

/// Bytes of the uses [at, at + prefetch] of a pass, where there are so many.
std::int64_t ahead(const std::vector<std::int64_t>& uses, std::size_t at, std::int64_t prefetch) {
  std::int64_t sum = 0;
  for (std::size_t u = at; u < uses.size() && u <= at + static_cast<std::size_t>(prefetch); ++u) sum += uses[u];
  return sum;
}

}  // namespace

TEST_CASE("ZeRO 3 holds the weights in use and those of prefetch_layers uses ahead") {
  const std::int64_t prefetch = GENERATE(0, 1, 2);
  const std::string recompute = GENERATE("none", "full");
  CAPTURE(prefetch, recompute);
  MemoryCase c = odd(3, 2);
  c.layers = 5;
  c.parallel["prefetch_layers"] = prefetch;
  c.training["recompute"] = recompute;
  const Parts p = parts_of(c);
  const TaskGraph graph = lower(c.plan());
  const StageOf stage(graph, 0);
  const auto bytes = [&](std::int64_t elements) { return aligned(2 * alone(elements, 2)); };
  const std::int64_t head = bytes(p.norm) + bytes(p.output);
  std::vector<std::int64_t> forward{bytes(p.word) + bytes(p.positions)}, backward{head};
  for (std::int64_t l = 0; l < c.layers; ++l) forward.push_back(bytes(p.layer)), backward.push_back(bytes(p.layer));
  forward.push_back(head);
  backward.push_back(bytes(p.positions));  // the gradient of the word matrix does not need the matrix
  for (std::int64_t mb = 0; mb < c.micro_batches; ++mb) {
    const auto holds = [&](const char* block, std::int64_t layer, Phase phase) {
      return whole(stage, stage.find(block, layer, mb, phase), "unit_weights");
    };
    CHECK(holds("embed_forward", -1, Phase::forward) == ahead(forward, 0, prefetch));
    CHECK(holds("head_forward", -1, Phase::forward) == ahead(forward, forward.size() - 1, prefetch));
    CHECK(holds("head_backward", -1, Phase::backward) == ahead(backward, 0, prefetch));
    CHECK(holds("embed_backward", -1, Phase::backward) == ahead(backward, backward.size() - 1, prefetch));
    for (std::int64_t l = 0; l < c.layers; ++l) {
      const auto forth = static_cast<std::size_t>(l) + 1, back = static_cast<std::size_t>(c.layers - l);
      CHECK(holds("block_forward", l, Phase::forward) == ahead(forward, forth, prefetch));
      CHECK(holds("block_backward", l, Phase::backward) == ahead(backward, back, prefetch));
      if (recompute == "full") CHECK(holds("block_recompute", l, Phase::recompute) == ahead(backward, back, prefetch));
    }
  }
}

TEST_CASE("before ZeRO 3 no weights, and before ZeRO 2 no gradients, are held beside the rank's own") {
  const int zero = GENERATE(0, 1, 2);
  const TaskGraph graph = lower(odd(zero, 2).plan());
  CHECK(StageOf(graph, 0).most(called("unit_weights")) == 0);
  CHECK((StageOf(graph, 0).most(called("unit_gradients")) > 0) == (zero == 2));
}

TEST_CASE("with copies around units the optimizer's weights are all that a rank keeps") {
  MemoryCase c = odd(3, 2);
  c.parallel["unit_copies"] = GENERATE("flat", "per_parameter");
  const Parts p = parts_of(c);
  const std::int64_t n =
      c.layers * alone(p.layer, 2) + alone(p.word, 2) + alone(p.output, 2) + alone(p.positions, 2) + alone(p.norm, 2);
  const std::int64_t own = aligned(4 * n / 2);
  CHECK(persistent(lower(c.plan())) == Bytes3{own, own, 2 * own});
}

TEST_CASE("a unit that is copied out is held where it arrives until it is used, and where it is used from then on") {
  MemoryCase c = odd(3, 2);
  c.parallel["unit_copies"] = "per_parameter";
  const Parts p = parts_of(c);
  const TaskGraph graph = lower(c.plan());
  const StageOf stage(graph, 0);
  const std::int64_t layer = aligned(2 * alone(p.layer, 2)), head = aligned(2 * alone(p.norm, 2)) + aligned(2 * alone(p.output, 2));
  for (std::int64_t mb = 0; mb < c.micro_batches; ++mb) {
    const std::uint32_t first = stage.find("block_forward", 0, mb, Phase::forward), last = stage.find("block_forward", 2, mb, Phase::forward);
    CHECK(whole(stage, first, "unit_weights") == layer);
    CHECK(whole(stage, first, "arrived_weights") == layer);
    CHECK(whole(stage, last, "unit_weights") == layer);
    CHECK(whole(stage, last, "arrived_weights") == head);
  }
}

TEST_CASE("what a forward pass ends with and the backward pass begins with is gathered once") {
  const char* copies = GENERATE("none", "flat", "per_parameter");
  MemoryCase c = odd(3, 2);
  c.parallel["unit_copies"] = copies;
  const TaskGraph graph = lower(c.plan());
  const StageOf stage(graph, 0);
  // A micro-batch: the word matrix and the layers forth, the layers back, positions both times (their gradient is of their unit),
  // the head's two units once.
  const std::int64_t each = 2 + 2 * c.layers + 2 + 1;
  std::int64_t gathers = 0, placed = 0;
  for (std::uint32_t i = 0; i < stage.program().instances.size(); ++i) {
    gathers += stage.block(i) == "weight_gather";
    placed += stage.block(i) == "weight_copy_out";
  }
  CHECK(gathers == c.micro_batches * each);
  CHECK(placed == (copies == std::string("per_parameter") ? gathers : 0));
}

TEST_CASE("gradients of units that are copied leave the products in the weights' type and go through one tensor") {
  MemoryCase c = odd(3, 2);
  c.parallel["unit_copies"] = GENERATE("flat", "per_parameter");
  c.parallel["overlap_grad_reduce"] = GENERATE(false, true);
  const Parts p = parts_of(c);
  const TaskGraph graph = lower(c.plan());
  const StageOf stage(graph, 0);
  const std::int64_t layer = aligned(2 * alone(p.layer, 2));
  CHECK(whole(stage, stage.find("block_backward", 1, 0, Phase::backward), "unit_gradients") == layer);
  std::int64_t copies = 0, sums = 0;
  for (std::uint32_t i = 0; i < stage.program().instances.size(); ++i)
    for (const Task& t : graph.of(stage.program().instances[i]).tasks) {
      if (stage.block(i) != "grad_reduce") continue;
      copies += t.name == "copy_in";
      sums += t.name == "reduce_scatter";
    }
  CHECK(sums == c.micro_batches * (c.layers + 4));
  CHECK(copies == sums);
}

TEST_CASE("a share that is summed over replicas in another type comes back when the next unit's leaves") {
  MemoryCase c = odd(3, 4);
  c.parallel["zero_group"] = 2;
  c.parallel["overlap_grad_reduce"] = true;
  c.training["dtypes"] = {{"gradient_reduce", "bf16"}};
  const TaskGraph graph = lower(c.plan());
  const StageOf stage(graph, 0);
  std::vector<std::int32_t> leaves, returns;  // units
  for (const Instance& at : stage.program().instances)
    for (const Task& t : graph.of(at).tasks) {
      if (graph.of(at).name != "grad_reduce") continue;
      if (t.name == "all_reduce") {
        CHECK(leaves.size() == returns.size());  // one is on its way at most
        leaves.push_back(at.layer);
      }
      if (t.name == "convert_back") {
        CHECK(t.stream == Stream::compute);
        returns.push_back(at.layer);
        CHECK(returns.size() == leaves.size());
      }
    }
  CHECK(leaves.size() == static_cast<std::size_t>(c.layers + 4));
  CHECK(leaves == returns);
}
