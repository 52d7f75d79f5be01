// What frameworks hold that no task reads, against formulas derived by hand from the sources that models/lowering/shapes/fusion.cpp names.

#include <algorithm>
#include <set>

#include "models/fields/fusion_file.hpp"
#include "models/lowering/shapes/fusion.hpp"
#include "models/lowering/stage/cached_tensors.hpp"
#include "tests/models/lowering/memory_case.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

TaskGraph with_set(const MemoryCase& c, FusionSet set) {
  Plan plan = c.plan();
  plan.training.fusion = set;
  return lower(plan);
}

const Template& template_of(const TaskGraph& graph, const std::string& block) {
  const StageOf stage(graph, 0);
  for (std::uint32_t i = 0; i < stage.program().instances.size(); ++i)
    if (stage.block(i) == block) return graph.of(stage.program().instances[i]);
  throw std::runtime_error("no template " + block);
}

std::int64_t scratch_of(const TaskGraph& graph, const std::string& block) {
  return template_of(graph, block).slots.front().bytes.count();
}

std::int64_t alive_of(const TaskGraph& graph, const std::string& block, const std::string& what) {
  const StageOf stage(graph, 0);
  for (std::uint32_t i = 0; i < stage.program().instances.size(); ++i)
    if (stage.block(i) == block) return stage.alive(i, called(what));
  throw std::runtime_error("no instance of " + block);
}

/// Parameters of `c` without tensor parallelism; every part is a multiple of the 64 elements that it is padded to.
std::int64_t parameters(const MemoryCase& c) {
  return count_parameters(c.plan().model, c.plan().padded_vocab_size()).total;
}

MemoryCase wide() {
  MemoryCase c;
  c.layers = 2;
  c.hidden = 64;
  c.ffn = 256;
  return c;
}

}  // namespace

TEST_CASE("Transformer Engine keeps one 16-bit tensor of each shape that a layer's matrices have") {
  MemoryCase c = wide();
  c.tensor = GENERATE(1, 2);
  const std::int64_t h = c.hidden, t = c.tensor;
  // qkv, projection, and the two of the MLP, whichever layer they are of.
  const std::int64_t expected = 2 * (3 * h * h / t + h * h / t + 2 * h * c.ffn / t);
  CHECK(alive_of(with_set(c, fusion_set("transformer-engine")), "block_forward", "gradient_stand_ins") == expected);
  CHECK(alive_of(with_set(c, fusion_set("megatron")), "block_forward", "gradient_stand_ins") == 0);
}

TEST_CASE("buckets that gradients are copied into have the size of all gradients, and no task") {
  MemoryCase c = wide();
  c.data = 2;
  Plan plan = c.plan();
  const TaskGraph views = lower(plan);
  plan.stack.name = "pytorch-ddp";
  plan.stack.as_of = {2026, 1};
  const TaskGraph copies = lower(plan);
  const std::int64_t gradients = 4 * parameters(c);
  CHECK(alive_of(views, "block_forward", "gradient_buckets") == 0);
  CHECK(alive_of(copies, "block_forward", "gradient_buckets") == gradients);
  CHECK(copies.programs[0].memory.live_peak_bytes - views.programs[0].memory.live_peak_bytes == Bytes(gradients));
  CHECK(copies.programs[0].instances.size() == views.programs[0].instances.size());
}

TEST_CASE("nothing stands for gradients that NeMo's optimizer takes") {
  Plan plan = wide().plan();
  const auto stand_ins = [&](const FusionSet& set) {
    plan.training.fusion = set;
    return alive_of(lower(plan), "block_forward", "gradient_stand_ins") > 0;
  };
  CHECK_FALSE(stand_ins(fusion_set("nemo")));
  CHECK(stand_ins(fusion_set("megatron-bridge")));
  CHECK(stand_ins(fusion_set("transformer-engine")));
}

TEST_CASE("matrices of one shape share the tensor that stands for their gradients") {
  MemoryCase c = wide();
  c.ffn = c.hidden;  // the projection and both matrices of the MLP
  CHECK(alive_of(with_set(c, fusion_set("transformer-engine")), "block_forward", "gradient_stand_ins") ==
        2 * (3 * c.hidden * c.hidden + c.hidden * c.hidden));
}

TEST_CASE("beside the gradient of the output matrix lies a 16-bit tensor of its size, where the logits' wide gradient was") {
  MemoryCase c = wide();
  c.vocab = 512;
  c.hidden = GENERATE(64, 512);
  const std::int64_t sb = c.seq * c.batch, narrow = 2 * sb * c.vocab, matrix = 2 * c.vocab * c.hidden, hidden = 2 * sb * c.hidden;
  // The gradients of the logits, 2sbv, and of their input, 2sbh; what stands for the matrix', 2vh, has the wide one's 4sbv first.
  CHECK(scratch_of(with_set(c, fusion_set("megatron")), "head_backward") == narrow + hidden);
  CHECK(scratch_of(with_set(c, fusion_set("transformer-engine")), "head_backward") ==
        narrow + hidden + std::max<std::int64_t>(matrix - 2 * narrow, 0));
  // In place there is no wide one, and the narrow one is kept.
  CHECK(scratch_of(with_set(c, fusion_set("megatron-bridge")), "head_backward") == hidden + matrix);
}

TEST_CASE("PyTorch's loss has a wide copy of the logits beside them and log_softmax, and two wide gradients before the narrow one") {
  MemoryCase c = wide();
  c.vocab = 4096;
  const std::int64_t n = c.seq * c.batch * c.vocab;
  const auto held = [&](FusionSet set, const std::string& block, const std::string& task, bool ahead) {
    const TaskGraph graph = with_set(c, set);
    const Template& t = template_of(graph, block);
    std::int64_t sum = 0, k = 0;
    for (; t.tasks.at(static_cast<std::size_t>(k)).name != task; ++k) {}
    for (const ScratchTensor& s : t.scratch)
      if (s.first <= k && k <= s.last && s.ahead == ahead) sum += s.bytes.count();
    return sum;
  };
  for (const FusionSet& set : {fusion_set("eager"), fusion_set("compiled-blocks")}) {
    CHECK(held(set, "head_backward", "log_softmax_backward", false) == (4 + 4) * n);
    CHECK(held(set, "head_backward", "narrow_gradient", false) == (4 + 2) * n);
    CHECK(held(set, "head_forward", "cross_entropy", false) - held(fusion_set("reference"), "head_forward", "cross_entropy", false) == 4 * n);
  }
  CHECK(held(fusion_set("reference"), "head_backward", "narrow_gradient", true) == 0);
  CHECK(held(fusion_set("reference"), "head_backward", "narrow_gradient", false) == 2 * n);
  // The most that is alive is 12 bytes a logit: log_softmax and the two gradients.
  c.layers = 1;
  const auto most = [&](std::int64_t vocab) {
    MemoryCase other = c;
    other.vocab = vocab;
    const TaskGraph graph = with_set(other, fusion_set("eager"));
    return graph.programs.front().memory.live_peak_bytes.count();
  };
  const std::int64_t states = (2 + 2 + 12 + 4) * 2 * c.hidden * 4096;  // of both word matrices: at most so much of the difference
  CHECK(most(8192) - most(4096) >= 12 * n);
  CHECK(most(8192) - most(4096) <= 12 * n + states);
}

TEST_CASE("a LLaMA's layer of eager PyTorch with fused RMSNorm keeps norms' inputs and outputs and 4 bytes a row and norm") {
  MemoryCase c = wide();
  c.heads = 4;
  c.model = {{"family", "llama"}, {"num_kv_heads", 2}, {"activation", "swiglu"}};
  c.training = {{"flash_attention", true}};
  const std::int64_t rows = c.seq * c.batch, h = c.hidden, kv = h / 2, f = c.ffn;
  // The first norm's input is kept by whoever made it. Packed projection and rotated queries and keys; attention's output and a
  // number a row and head; gate and up, silu's output, the product.
  const std::int64_t tensors = h + (h + 2 * kv) + (h + kv) + h + c.heads + h + h + 2 * f + f + f;
  const auto kept = [&](FusionSet set) { return alive_of(with_set(c, set), "block_forward", "block_saved"); };
  CHECK(kept(fusion_set("eager-fused-rmsnorm")) == rows * (2 * tensors + 2 * 4));
}

TEST_CASE("RMSNorm as PyTorch's operations keeps its input in fp32 and narrow normed rows in place of its narrow input") {
  MemoryCase c = wide();
  const std::string precision = GENERATE("bf16", "fp32", "fp64"), normed = GENERATE("rmsnorm", "layernorm");
  c.model = {{"family", "llama"}, {"normalization", normed}};
  c.training = {{"precision", precision}};
  // 4 + 2 bytes for 2; where nothing is narrow the normed rows beside the input.
  const std::int64_t copy = normed == "rmsnorm" ? (precision == "fp64" ? 8 : 4) * c.seq * c.batch * c.hidden : 0;
  const auto more = [&](const std::string& block, const std::string& what) {
    const auto kept = [&](FusionSet set) { return alive_of(with_set(c, set), block, what); };
    return kept(fusion_set("eager")) - kept(fusion_set("eager-fused-rmsnorm"));
  };
  CAPTURE(precision, normed);
  CHECK_NOTHROW(with_set(c, fusion_set("eager")).check());
  CHECK(more("block_forward", "block_saved") == 2 * copy);
  CHECK(more("head_forward", "head_saved") == copy);
  MemoryCase t5 = c;
  c.training.update({{"recompute", "selective"}, {"recompute_modules", {"norm"}}});
  CHECK(more("block_forward", "block_saved") == 0);  // normed again from what the residuals' sums leave

  // The norm behind an encoder, and the three of every decoder layer, whose sequences are as long.
  c = t5;
  c.model = {{"family", "t5"}, {"normalization", normed}, {"num_decoder_layers", 1}};
  CHECK_NOTHROW(with_set(c, fusion_set("eager")).check());
  // There the statistics end the slot: a number a row, for which the kernel writes two of the activations' type.
  const std::int64_t mean = precision == "bf16" ? 0 : copy / c.hidden;
  CHECK(more("bridge_forward", "bridge_saved") == copy - mean);
  CHECK(more("head_forward", "block_saved") == (2 * c.layers + 3) * copy);
}

TEST_CASE("a softmax in fp32 keeps its wide output beside the narrow one, and has two wide gradients") {
  MemoryCase c = wide();
  c.training["flash_attention"] = false;
  const TaskGraph narrow = with_set(c, fusion_set("megatron")), widened = with_set(c, fusion_set("megatron-wide-softmax"));
  const std::int64_t scores = c.batch * c.heads * c.seq * c.seq;
  CHECK_NOTHROW(widened.check());
  // 4 bytes in place of 2.
  CHECK(alive_of(widened, "block_forward", "block_saved") - alive_of(narrow, "block_forward", "block_saved") == 2 * scores);
  const auto most = [](const Template& t) {
    std::int64_t most = 0;
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(t.tasks.size()); ++k) {
      if (t.tasks[static_cast<std::size_t>(k)].name != "softmax_backward") continue;
      for (const ScratchTensor& s : t.scratch)
        if (s.first <= k && k <= s.last) most += s.bytes.count();
    }
    return most;
  };
  CHECK(most(template_of(widened, "block_backward")) - most(template_of(narrow, "block_backward")) == 8 * scores);
}

TEST_CASE("a loss in place has 2sbv bytes for logits and gradient together") {
  MemoryCase c = wide();
  c.vocab = 512;
  c.tensor = GENERATE(1, 2);
  const std::int64_t logits = 2 * c.seq * c.batch * c.vocab / c.tensor;
  const TaskGraph apart = with_set(c, fusion_set("transformer-engine")), in_place = with_set(c, fusion_set("megatron-bridge"));
  CHECK_NOTHROW(in_place.check());
  // Apart: 16-bit logits in scratch, and a gradient of 32 bits that is kept.
  CHECK(alive_of(apart, "head_forward", "head_saved") - alive_of(in_place, "head_forward", "head_saved") == logits);
  CHECK(scratch_of(apart, "head_forward") >= logits);
  CHECK(scratch_of(in_place, "head_forward") < logits);
}

TEST_CASE("Transformer Engine's products have a workspace of 32 MiB, of three where they overlap collectives") {
  MemoryCase c = wide();
  c.tensor = GENERATE(1, 2);
  const bool overlap = GENERATE(false, true);
  c.parallel["sequence_parallel"] = c.tensor > 1;
  c.parallel["tensor_overlap"] = overlap;
  const std::int64_t chunks = overlap && c.tensor > 1 ? 3 : 1;
  CHECK(alive_of(with_set(c, fusion_set("transformer-engine")), "block_forward", "product_workspace") == chunks * (32 << 20));
}

TEST_CASE("experts whose activation is weighted keep no rows that come back, and what it is weighted of unless one kernel does both") {
  MemoryCase c = wide();
  c.data = GENERATE(1, 2);
  c.parallel["expert"] = c.data;
  // SwiGLU is weighted in its own kernel; GELU is an operand of the weights' product, and of a gate's product before it.
  const auto [activation, tensors] = GENERATE(table<std::string, std::int64_t>({{"gelu", 1}, {"geglu", 2}, {"swiglu", 0}, {"clamped_swiglu", 0}}));
  const bool again = GENERATE(false, true);
  if (again) c.training = {{"recompute", "selective"}, {"recompute_modules", {"moe_activation"}}};
  const std::int64_t ffn = GENERATE(32, 128), choices = 2, rows = c.seq * c.batch * choices;
  c.model = {{"activation", activation},
             {"moe", {{"num_experts", 4}, {"experts_per_token", choices}, {"ffn_hidden_size", ffn}, {"rows_bound", 1}}}};
  const auto lowered = [&](bool weighted) {
    Plan plan = c.plan();
    plan.training.fusion.weighted_activations = weighted;
    TaskGraph graph = lower(plan);
    CHECK_NOTHROW(graph.check());
    return graph;
  };
  const TaskGraph weighted = lowered(true), plain = lowered(false);
  const auto kept = [&](const TaskGraph& graph) { return alive_of(graph, "block_forward", "block_saved"); };
  CAPTURE(activation, ffn, c.data, again);
  CHECK(kept(weighted) - kept(plain) == 2 * rows * ((again ? 0 : tensors * ffn) - c.hidden));
  CHECK(scratch_of(weighted, "block_backward") == scratch_of(plain, "block_backward"));
}

TEST_CASE("with gradients in bf16 NeMo's Adam keeps 2 bytes of a master beside its 2 of a weight, Megatron-Core's 4") {
  MemoryCase c = wide();
  const bool narrow = GENERATE(false, true);
  c.training["dtypes"] = {{"gradients", narrow ? "bf16" : "fp32"}};
  const std::int64_t n = parameters(c);
  const auto master = [&](FusionSet set) {
    const TaskGraph graph = with_set(c, set);
    CHECK_NOTHROW(graph.check());
    return alive_of(graph, "optimizer", "master");
  };
  CHECK(master(fusion_set("nemo")) == (narrow ? 2 : 4) * n);
  CHECK(master(fusion_set("megatron-bridge")) == 4 * n);
}

TEST_CASE("the embedding's dropout keeps a byte for each element of every micro-batch in flight, of the rank's own rows") {
  MemoryCase c = wide();
  c.pipeline = 2;
  c.micro_batches = 4;
  c.tensor = GENERATE(1, 2);
  const bool parts = GENERATE(false, true);
  c.parallel["sequence_parallel"] = parts && c.tensor > 1;
  const double dropout = GENERATE(0.0, 0.1);
  c.training["dropout"] = {{"hidden", dropout}};
  const std::int64_t rows = c.seq * c.batch / (parts ? c.tensor : 1);
  const auto most = [&](FusionSet set) { return StageOf(with_set(c, set), 0).most(called("embedding_mask")); };
  CHECK(most(fusion_set("megatron")) == (dropout > 0 ? 2 * rows * c.hidden : 0));  // 1F1B: two on the first of two stages
  CHECK(most(fusion_set("reference")) == 0);
}

TEST_CASE("InternEvo holds 8 bytes a parameter while it updates, and has 8 in the allocator's cache, 2 where weights are sharded") {
  MemoryCase c = wide();
  c.data = 2;
  const int zero = GENERATE(0, 1, 3);
  c.parallel["zero_stage"] = zero;
  CAPTURE(zero);
  const std::int64_t n = parameters(c);
  const TaskGraph graph = with_set(c, fusion_set("internevo"));
  CHECK_NOTHROW(graph.check());
  // Adam's mean has 4 bytes for each; of ZeRO 3 every part is padded.
  const std::int64_t updated = alive_of(graph, "block_forward", "exp_avg") / 4;
  if (zero < 3) CHECK(updated == (zero == 0 ? n : n / c.data));
  CHECK(alive_of(graph, "block_forward", "optimizer_step") == 0);
  CHECK(alive_of(graph, "optimizer", "optimizer_step") == 8 * updated);
  const MemoryPlan& memory = graph.programs.front().memory;
  // FSDP's gathered weights and summed gradients are no computation's (tests/models/lowering/memory_pools_test.cpp).
  const PoolPeaks gathers = peaks_of(graph, 0, {"unit_weights"}), sums = peaks_of(graph, 0, {"gradients"});
  const std::int64_t computation = peaks_of(graph, 0, {"unit_weights", "gradients"}).others;
  const std::int64_t apart = zero == 3 ? gathers.named + sums.named + computation - memory.live_peak_bytes.count() : 0;
  CHECK(memory.cached_bytes.count() == (zero == 3 ? 2 : 8) * updated + apart);
  // Nothing that came before has lent its bytes.
  const auto meet = [](const Allocation& a, const Allocation& b) {
    return &a != &b && a.offset < b.offset + b.bytes.count() && b.offset < a.offset + a.bytes.count();
  };
  for (const Allocation& a : memory.allocations)
    if (a.name == "optimizer_step")
      CHECK(std::none_of(memory.allocations.begin(), memory.allocations.end(), [&](const Allocation& b) { return meet(a, b); }));
}

TEST_CASE("what DeepSpeed's ZeRO 1 makes around the update, tensor by tensor: all buckets at once unless the host waits") {
  constexpr std::int64_t giga = 1'000'000'000;
  using Times = std::vector<std::vector<std::int64_t>>;  // what is there at each time
  const auto times = [](const lowering::UpdateTensors& u) {
    Times out;
    for (const PassingTensor& t : lowering::passing_in_update(u).tensors) {
      CHECK(t.goes == t.comes);
      out.resize(static_cast<std::size_t>(t.comes) + 1);
      out.back().push_back(t.bytes.count());
    }
    return out;
  };
  // Two and a half buckets of 1e9 bytes, one tensor in fp32 and in fp64, the part and its copy, two gathers of 1.25e9 bytes each.
  lowering::UpdateTensors u{5 * giga / 4, giga / 2, giga / 10, giga / 2, 2, 2, true, false};
  const std::int64_t rest = giga / 2, gather = 5 * giga / 4;
  CHECK(times(u) == Times{{giga, giga, rest}, {2 * giga / 5}, {4 * giga / 5}, {giga, 2 * giga}, {gather, gather}});
  CHECK(lowering::passing_in_update(u).gradients_go == 1);
  for (const PassingTensor& t : lowering::passing_in_update(u).tensors) CHECK(t.let_go == (t.comes == 0 || t.comes == 4));  // what is sent
  u.host_waits = true;
  CHECK(lowering::passing_in_update(u).gradients_go == 3);  // behind the last bucket
  CHECK(times(u) == Times{{giga}, {giga}, {rest}, {2 * giga / 5}, {4 * giga / 5}, {giga, 2 * giga}, {gather}, {gather}});
  u.largest = giga;  // half of it is the rank's
  CHECK(times(u).at(3) == std::vector<std::int64_t>{2 * giga});
  u.parameters = 9 * giga / 10;  // one whole bucket fits, so all are gathered at once
  CHECK(times(u) == Times{{giga}, {8 * giga / 10}, {2 * giga}, {4 * giga}, {giga, 2 * giga}, {9 * giga / 5}});
}

TEST_CASE("gradients that are summed in fp32 have a wide copy beside every bucket, which only a stream keeps until the last is made") {
  using Tensors = std::vector<std::vector<std::int64_t>>;  // bytes, comes, goes, let go
  const auto first = [](const lowering::UpdateTensors& u, std::int32_t times) {
    Tensors out;
    for (const PassingTensor& t : lowering::passing_in_update(u).tensors)
      if (t.comes < times) out.push_back({t.bytes.count(), t.comes, t.goes, t.let_go ? 1 : 0});
    return out;
  };
  lowering::UpdateTensors u{250, 100, 10, 100, 2, 4, true, false};  // two and a half buckets of 100
  CHECK(first(u, 3) == Tensors{{200, 0, 0, 0}, {400, 0, 2, 1}, {200, 1, 1, 0}, {400, 1, 2, 1}, {100, 2, 2, 0}, {200, 2, 2, 1}});
  CHECK(lowering::passing_in_update(u).gradients_go == 3);
  u.host_waits = true;
  CHECK(first(u, 3) == Tensors{{200, 0, 0, 0}, {400, 0, 0, 0}, {200, 1, 1, 0}, {400, 1, 1, 0}, {100, 2, 2, 0}, {200, 2, 2, 0}});
}

TEST_CASE("DeepSpeed's last stage keeps the fp32 logits of two micro-batches, and of one from a forward pass to its backward pass") {
  MemoryCase c = wide();
  c.micro_batches = 4;
  c.pipeline = GENERATE(1, 2);
  const std::int64_t logits = 4 * c.seq * c.batch * c.vocab;
  const auto at = [&](FusionSet set, const std::string& block) {
    const TaskGraph graph = with_set(c, set);
    const StageOf stage(graph, c.pipeline - 1);
    std::set<std::int64_t> alive;
    for (std::uint32_t i = 0; i < stage.program().instances.size(); ++i)
      if (stage.block(i) == block) alive.insert(stage.alive(i, called("kept_logits")));
    return alive;
  };
  using Alive = std::set<std::int64_t>;
  CHECK(at(fusion_set("megatron-2021"), "head_forward") == Alive{2 * logits});
  CHECK(at(fusion_set("megatron-2021"), "head_backward") == Alive{logits});
  CHECK(at(fusion_set("megatron-2021"), "block_backward") == Alive{2 * logits});
  CHECK(at(fusion_set("megatron-2021"), "optimizer") == Alive{2 * logits});
  CHECK(at(fusion_set("megatron"), "head_forward") == Alive{0});
  if (c.pipeline > 1) CHECK(StageOf(with_set(c, fusion_set("megatron-2021")), 0).most(called("kept_logits")) == 0);
  c.pipeline = 1;
  c.data = 2;
  c.parallel["zero_stage"] = GENERATE(2, 3);  // not by its engine of pipelines
  CHECK(at(fusion_set("megatron-2021"), "head_forward") == Alive{0});
}

TEST_CASE("fp32 gradients of 16-bit weights are sent by DeepSpeed as one 16-bit tensor") {
  const lowering::UpdateTensors wide{1000, 500, 10, 100, 2, 2, false}, narrow{1000, 500, 10, 100, 2, 2, true};
  CHECK(lowering::sent_gradients(wide).count() == 2000);
  CHECK(lowering::passing_in_update(wide).tensors.empty());
  CHECK(lowering::sent_gradients(narrow).count() == 0);
}

// deepspeed/runtime/bf16_optimizer.py, commit 56c522386: backward() begins with clear_lp_grads(), which sets them to none.
TEST_CASE("bf16 gradients beside fp32 ones are gone when a backward pass begins and come with its blocks") {
  MemoryCase c;
  c.micro_batches = 2;
  c.training = {{"fusion", "megatron-2021"}};
  const TaskGraph graph = lower(c.plan());
  const Program& program = graph.programs.front();
  const auto alive = [&](std::size_t instance) {
    std::int64_t sum = 0;
    for (const Allocation& a : program.memory.allocations)
      if (a.name == "narrow_gradients" && a.first <= instance && instance <= a.last) sum += a.bytes.count();
    return sum;
  };
  const std::int64_t h = c.hidden, block = aligned(2 * (4 * h * h + 2 * h * c.ffn + 4 * h + c.ffn + h + 4 * h));
  const std::int64_t head = aligned(2 * 2 * h) + aligned(2 * c.vocab * h), ends = aligned(2 * c.vocab * h) + aligned(2 * c.seq * h);
  std::int64_t blocks = 0, forward = 0;
  for (std::size_t i = 0; i < program.instances.size(); ++i) {
    const Instance& at = program.instances[i];
    const std::string& name = graph.templates[at.tmpl.index()].name;
    if (at.micro_batch == 0 && name == "block_forward") CHECK(alive(i) == 0);
    if (at.micro_batch == 1 && name == "block_forward") {
      CHECK(alive(i) == head + c.layers * block + ends);
      ++forward;
    }
    if (at.micro_batch == 1 && name == "block_backward") CHECK(alive(i) == head + ++blocks * block);
  }
  CHECK((blocks == c.layers && forward == c.layers));
  CHECK(alive(program.instances.size() - 1) == head + c.layers * block + ends);
}

TEST_CASE("plans of DeepSpeed with ZeRO 1 have that around the update, others nothing") {
  MemoryCase c = wide();
  c.data = GENERATE(2, 4);
  const int zero = GENERATE(0, 1);
  const std::string precision = GENERATE("fp16", "bf16");
  c.parallel["zero_stage"] = zero;
  CAPTURE(c.data, zero, precision);
  Plan plan = c.plan();
  const DType narrow = precision == "fp16" ? DType::fp16 : DType::bf16;
  plan.training.dtypes.compute = plan.training.dtypes.weights = narrow;
  plan.training.dtypes.gradients = plan.training.dtypes.gradient_reduce = narrow == DType::fp16 ? narrow : DType::fp32;
  plan.training.fusion.collective_elements = 500'000'000;
  const TaskGraph graph = lower(plan);
  const std::int64_t n = parameters(c), sent = alive_of(graph, "optimizer", "optimizer_step");
  const auto bytes_at = [&](std::int32_t time) {
    std::int64_t sum = 0;
    for (const PassingTensor& t : graph.programs.front().memory.passing.tensors)
      if (t.comes <= time && time <= t.goes) sum += t.bytes.count();
    return sum;
  };
  // All in one bucket of 2n bytes; the part and its copy; one gather.
  const bool any = zero == 1 && narrow == DType::fp16;
  CHECK(bytes_at(0) == (any ? 2 * n : 0));
  CHECK(bytes_at(3) == (any ? 6 * n / c.data : 0));
  CHECK(bytes_at(4) == (any ? 2 * n : 0));
  CHECK(graph.programs.front().memory.cached_bytes.count() == 0);
  CHECK(sent == (zero == 1 && narrow == DType::bf16 ? 2 * n : 0));
  plan.training.fusion.collective_elements = 0;
  const TaskGraph other = lower(plan);
  CHECK(other.programs.front().memory.passing.tensors.empty());
  CHECK(alive_of(other, "optimizer", "optimizer_step") == 0);
}
