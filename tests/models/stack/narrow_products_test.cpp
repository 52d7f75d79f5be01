// What frameworks keep of products in 8 bits: what stacks' files say, and the bytes that follow, by formulas derived by hand from
// the sources that models/stacks/megatron-core.json names.

#include "models/plan/stack_facts.hpp"

#include "models/fields/fusion_file.hpp"
#include "models/ops/op.hpp"
#include "tests/models/lowering/memory_case.hpp"
#include "tests/odd_stack.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

/// Every tensor a multiple of 256 bytes, its scales too.
MemoryCase wide(const std::string& precision) {
  MemoryCase c;
  c.layers = 2;
  c.hidden = 128;
  c.ffn = 512;
  c.training = {{"precision", precision}, {"flash_attention", true}};
  return c;
}

MemoryCase llama(const std::string& precision) {
  MemoryCase c = wide(precision);
  c.model = {{"family", "llama"}, {"num_kv_heads", 2}, {"activation", "swiglu"}};
  return c;
}

struct Target {
  std::string stack, preset;
  std::string set = "transformer-engine";
};
const Target kHopper{"megatron-core", "dgx-h100"}, kBlackwell{"megatron-core", "gb200-nvl72"};

/// As lowered for a target: memory needs no more of it than its stack and its cluster's name.
TaskGraph lowered(const MemoryCase& c, const Target& target) {
  Plan plan = c.plan();
  plan.cluster.preset = target.preset;
  plan.training.fusion = fusion_set(target.set);
  tests::set_stack(plan, target.stack, generation_of(target.preset));
  TaskGraph graph = lower(plan);
  CHECK_NOTHROW(graph.check());
  return graph;
}

/// Bytes of tensors called `what` at the last layer's forward pass of the first micro-batch; of what blocks keep, one layer's.
std::int64_t held(const MemoryCase& c, const Target& target, const std::string& what) {
  const TaskGraph graph = lowered(c, target);
  const StageOf stage(graph, 0);
  const std::uint32_t last = stage.find("block_forward", c.layers / c.pipeline - 1, 0, Phase::forward);
  const std::int64_t all = stage.alive(last, called(what));
  return what == "block_saved" ? all / (c.layers / c.pipeline) : all;
}

std::int64_t saved(const MemoryCase& c, const Target& target) { return held(c, target, "block_saved"); }

/// Elements of a GPT's or a LLaMA's matrices on one tensor rank.
std::int64_t matrices(const MemoryCase& c, std::int64_t kv, std::int64_t first) {
  const std::int64_t h = c.hidden;
  return c.layers * (h * (h + 2 * kv) + h * h + h * first + c.ffn * h) / c.tensor;
}

std::string read(const std::string& list, const std::string& precision) {
  Plan plan = wide(precision).plan();
  return tests::with_odd_stack("narrow_products", list, [&] {
    tests::set_stack(plan, "odd");
    const NarrowProducts& n = plan.stack.facts.narrow_products;
    return std::string(n.inputs ? "narrow" : "wide") + (n.attention_output == AttentionOutput::both ? " both " : " ") +
           std::to_string(n.weight_copies) + " " + std::to_string(n.scale_block);
  });
}

/// A list of one entry, which is sound but for `more`.
std::string list_of(const nlohmann::json& more) {
  nlohmann::json entry = {{"inputs", true}, {"attention_output", "both"}, {"weight_copies", 2}, {"scale_block", 0}, {"source", "s"}, {"verified", true}};
  entry.update(more);
  return nlohmann::json::array({entry}).dump();
}

}  // namespace

TEST_CASE("a stack says what its products in 8 bits keep, by the first entry that is for the plan") {
  const nlohmann::json other = {{"when", {{"training.precision", {{"allowed", {"mxfp8"}}}}}}};
  CHECK(read(list_of(nlohmann::json::object()), "fp8") == "narrow both 2 0");
  CHECK(read(list_of(other), "fp8") == "wide 0 0");
  CHECK(read(list_of(other), "mxfp8") == "narrow both 2 0");
  CHECK(read(list_of(nlohmann::json::object()), "bf16") == "wide 0 0");
  CHECK(read("[]", "fp8") == "wide 0 0");
}

TEST_CASE("a list of narrow products with a defect is refused") {
  CHECK(read("3", "fp8") == "is not a list");
  CHECK(read(R"([{"inputs": true, "attention_output": "both", "weight_copies": 2, "scale_block": 0, "source": "s"}])", "fp8") ==
        "an entry lacks verified");
  CHECK(read(list_of({{"weight_copies", 3}}), "fp8") == "weight_copies is no whole number from 0 to 2");
  CHECK(read(list_of({{"inputs", 1}}), "fp8") == "inputs is neither true nor false");
  CHECK(read(list_of({{"attention_output", "x"}}), "fp8") == "attention_output is neither wide nor both");
  CHECK(read(list_of({{"inputs", false}}), "fp8") ==
        "a narrow copy of attention's output is an input in 8 bits, of which there are none");
  CHECK(read(list_of({{"when", {{"odd", 1}}}}), "fp8") == "there is no field \"odd\"");
}

TEST_CASE("Transformer Engine keeps a GPT's inputs of products in 8 bits, beside attention's own output in 16") {
  const MemoryCase wide16 = wide("bf16");
  const std::int64_t sb = wide16.seq * wide16.batch, sbh = sb * wide16.hidden, stats = 8 * sb + 2 * wide16.heads * sb;
  // Outputs of the two norms, the sum behind attention, queries with keys and values, context, input and output of GELU.
  CHECK(saved(wide16, kHopper) == (2 + 2 + 2 + 6 + 2 + 8 + 8) * sbh + stats);
  for (const Target& target : {kHopper, kBlackwell})
    CHECK(saved(wide("fp8"), target) == (1 + 1 + 2 + 6 + (2 + 1) + 8 + 4) * sbh + stats);
  // The product behind attention keeps what attention has; of 32 elements a byte is their scale.
  CHECK(saved(wide("mxfp8"), kBlackwell) == (1 + 1 + 2 + 6 + 2 + 8 + 4) * sbh + 6 * sbh / 32 + stats);
  // Tiles of 128 elements have a scale of four bytes.
  CHECK(saved(wide("fp8_block"), kHopper) == (1 + 1 + 2 + 6 + 2 + 8 + 4) * sbh + 4 * (6 * sbh / 128) + stats);
  CHECK(saved(wide("nvfp4"), kBlackwell) == (2 + 6 + 2 + 8) * sbh + 6 * sbh / 2 + 6 * sbh / 16 + stats);
}

TEST_CASE("without flash attention its output has no other owner than the product, which keeps it in 8 bits") {
  MemoryCase c = wide("fp8");
  c.training["flash_attention"] = false;
  const std::int64_t sb = c.seq * c.batch, sbh = sb * c.hidden;
  CHECK(saved(c, kHopper) == (1 + 1 + 2 + 6 + 1 + 8 + 4) * sbh + 8 * sb + 2 * c.heads * c.seq * sb);
  c.training.update({{"flash_attention", true}, {"recompute", "selective"}, {"recompute_modules", {"core_attention"}}});
  CHECK(saved(c, kHopper) == (1 + 1 + 2 + 6 + 1 + 8 + 4) * sbh + 8 * sb);
}

TEST_CASE("a LLaMA's layer in 8 bits keeps half of its norms' and its gate's outputs, and all else as in 16") {
  const MemoryCase c = llama("fp8");
  const std::int64_t sb = c.seq * c.batch, h = c.hidden, kv = h / 2, f = c.ffn, stats = 8 * sb + 2 * c.heads * sb;
  // Packed projection, rotated queries and keys, context, the sum behind attention, gate and up.
  const std::int64_t both = 2 * ((h + 2 * kv) + (h + kv) + h + h + 2 * f);
  CHECK(saved(llama("bf16"), kHopper) == sb * (both + 2 * (h + h + f)) + stats);
  CHECK(saved(c, kHopper) == sb * (both + h + h + f + h) + stats);
  CHECK(saved(c, kBlackwell) == saved(c, kHopper));
}

TEST_CASE("stacks that say nothing of 8 bits keep what they keep in 16") {
  for (const Target& target : {Target{"tandem", "dgx-h100", "reference"}, Target{"pytorch-fsdp", "dgx-h100", "compiled"},
                               Target{"megatron-core", "dgx-a100-80gb", "megatron"}}) {
    CAPTURE(target.stack);
    CHECK(saved(wide("fp8"), target) == saved(wide("bf16"), target));
    CHECK(held(wide("fp8"), target, "weight_copies") == 0);
  }
}

TEST_CASE("a rank has copies of its matrices once, however many micro-batches: two on Hopper, one on Blackwell") {
  MemoryCase c = wide("fp8");
  c.tensor = GENERATE(1, 2);
  c.micro_batches = GENERATE(1, 3);
  const std::int64_t all = matrices(c, c.hidden, c.ffn);
  CHECK(held(c, kHopper, "weight_copies") == 2 * all);
  CHECK(held(c, kBlackwell, "weight_copies") == all);
  CHECK(held(c, kHopper, "wide_weights") == 0);
  c.training["precision"] = "mxfp8";
  CHECK(held(c, kBlackwell, "weight_copies") == 2 * all + 2 * all / 32);
  c.training["precision"] = "bf16";
  CHECK(held(c, kHopper, "weight_copies") == 0);
}

TEST_CASE("a block of 128 x 128 weights has a scale of four bytes in either of a matrix' copies") {
  MemoryCase c = wide("fp8_block");
  c.layers = 4, c.hidden = 256, c.ffn = 1024;
  c.tensor = GENERATE(1, 2);
  const std::int64_t all = matrices(c, c.hidden, c.ffn);
  CHECK(held(c, kHopper, "weight_copies") == 2 * all + 2 * 4 * (all / (128 * 128)));
  CHECK(held(c, kBlackwell, "weight_copies") == 0);  // what Transformer Engine does there in its place is not known to the stack
}

TEST_CASE("scales of weights are as dense as those of inputs unless a stack says otherwise") {
  const auto block = [](const nlohmann::json& more) {
    Plan plan = wide("fp8").plan();
    return tests::with_odd_stack("narrow_products", list_of(more), [&] {
      tests::set_stack(plan, "odd");
      return std::to_string(plan.stack.facts.narrow_products.weight_scale_block);
    });
  };
  CHECK(block({{"scale_block", 32}}) == "32");
  CHECK(block({{"scale_block", 32}, {"weight_scale_block", 4096}}) == "4096");
  CHECK(block({{"weight_scale_block", -1}}) == "weight_scale_block is no whole number from 0 to 65536");
}

TEST_CASE("of weights that are stored in 8 bits Hopper has one copy more, Blackwell none, and only matrices of layers are so narrow") {
  const std::int64_t t = GENERATE(1, 2);
  for (MemoryCase c : {wide("fp8"), llama("fp8")}) {
    const bool gated = c.model.contains("num_kv_heads");
    c.tensor = t;
    c.training["dtypes"] = {{"weights", "fp8"}};
    const std::int64_t all = matrices(c, gated ? c.hidden / 2 : c.hidden, gated ? 2 * c.ffn : c.ffn);
    CHECK(held(c, kHopper, "weight_copies") == all);
    CHECK(held(c, kBlackwell, "weight_copies") == 0);
    // In 8 bits everything, and one byte more for words, positions, norms and biases.
    const TaskGraph graph = lowered(c, kBlackwell);
    const StageOf stage(graph, 0);
    const auto of = [&](const std::string& name) { return stage.alive(0, called(name)); };
    CHECK(of("weights") - of("wide_weights") == all);
  }
}

TEST_CASE("what is gathered for a product travels in 8 bits, what products give in 16") {
  MemoryCase c = wide("fp8");
  c.tensor = 2;
  c.parallel["sequence_parallel"] = true;
  const TaskGraph graph = lowered(c, kHopper), plain = lowered(c, {"tandem", "dgx-h100", "reference"});
  const auto type = [](const TaskGraph& g, const std::string& name) {
    for (const Template& t : g.templates)
      for (const Task& task : t.tasks)
        if (task.name == name) return std::get<Collective>(task.op).dtype;
    throw std::runtime_error("no " + name);
  };
  for (const char* name : {"ln1_all_gather", "ln2_all_gather", "attention_gradient_all_gather", "mlp_gradient_all_gather"}) {
    CHECK(type(graph, name) == DType::fp8);
    CHECK(type(plain, name) == DType::bf16);
  }
  for (const char* name : {"proj_reduce_scatter", "fc2_reduce_scatter", "qkv_dgrad_reduce_scatter", "final_norm_all_gather"})
    CHECK(type(graph, name) == DType::bf16);
}

TEST_CASE("experts keep the rows that arrive and what is activated in 8 bits, and their norm's output in 16 for the router") {
  MemoryCase c = wide("bf16");
  c.layers = 1;
  c.model["moe"] = {{"num_experts", 4}, {"experts_per_token", 2}};
  c.data = GENERATE(1, 2);
  if (c.data == 2) c.parallel["expert"] = 2;
  const std::int64_t wider = saved(c, kHopper);
  c.training["precision"] = "fp8";
  const TaskGraph graph = lowered(c, kHopper);
  const Template& forward = [&]() -> const Template& {
    for (const Template& t : graph.templates)
      if (t.name == "block_forward") return t;
    throw std::runtime_error("no block");
  }();
  const auto output = [&](const std::string& name) {
    for (const Task& t : forward.tasks)
      if (t.name == name) return t.outputs.at(0);
    throw std::runtime_error("no " + name);
  };
  CHECK(output("ln1").dtype == DType::fp8);
  CHECK(output("ln2").dtype == DType::bf16);
  const Operand activated = output("experts.activation"), rows = output(c.data == 1 ? "dispatch" : "dispatch_all_to_all");
  CHECK((activated.dtype == DType::fp8 && rows.dtype == DType::fp8));
  // Half of both, and of the first norm's output, and as much more beside attention's; what is held of an activation before its
  // weights stays in 16 bits.
  CHECK(wider - saved(c, kHopper) == activated.elements + rows.elements);
}

TEST_CASE("while a product narrows its input the wide one lies beside it") {
  MemoryCase c = wide("fp8");
  const std::int64_t sb = c.seq * c.batch;
  const auto most = [&](const Target& target, const std::string& task) {
    const TaskGraph graph = lowered(c, target);
    for (const Template& t : graph.templates)
      for (std::size_t k = 0; k < t.tasks.size(); ++k) {
        if (t.tasks[k].name != task) continue;
        std::int64_t sum = 0;
        for (const ScratchTensor& s : t.scratch)
          if (s.first <= static_cast<std::int32_t>(k) && static_cast<std::int32_t>(k) <= s.last) sum += s.bytes.count();
        return sum;
      }
    throw std::runtime_error("no " + task);
  };
  const Target plain{"tandem", "dgx-h100"};
  CHECK(most(kHopper, "fc2") - most(plain, "fc2") == 2 * sb * c.ffn);
  CHECK(most(kHopper, "qkv") == most(plain, "qkv"));  // its norm writes 8 bits itself
}

TEST_CASE("plans in 8 bits are lowered without a defect in every layout") {
  MemoryCase c = wide("fp8");
  c.heads = 8;
  c.micro_batches = 4;
  const auto check = [&](nlohmann::json parallel, nlohmann::json training = nlohmann::json::object()) {
    MemoryCase of = c;
    if (parallel.contains("pipeline")) of.pipeline = parallel["pipeline"];
    if (parallel.contains("tensor")) of.tensor = parallel["tensor"];
    if (parallel.contains("context")) of.data = 1;
    of.parallel = std::move(parallel);
    of.training.update(training);
    Plan plan = [&] {
      const std::int64_t context = of.parallel.value("context", 1);
      MemoryCase at = of;
      at.data = context;  // as many devices
      if (context > 1) at.parallel["data"] = 1, at.training["global_batch_size"] = at.batch * at.micro_batches;
      return at.plan();
    }();
    plan.cluster.preset = "dgx-h100";
    plan.training.fusion = fusion_set("transformer-engine");
    tests::set_stack(plan, "megatron-core", "hopper");
    CAPTURE(of.parallel.dump());
    CHECK_NOTHROW(lower(plan).check());
  };
  check({{"context", 2}, {"context_mode", "ulysses"}});
  check({{"context", 2}, {"context_mode", "ring"}});
  check({{"context", 2}, {"context_mode", "all_gather"}});
  check({{"pipeline", 2}, {"schedule", "zb-h1"}});
  check({{"tensor", 2}, {"sequence_parallel", true}, {"pipeline", 2}});
  for (const char* modules : {"norm", "mlp", "core_attention"})
    check({{"tensor", 2}, {"sequence_parallel", true}}, {{"recompute", "selective"}, {"recompute_modules", {modules}}});
  check({{"pipeline", 2}}, {{"recompute", "full"}});
}

TEST_CASE("a layer of DeepSeek-V3 keeps 589 MiB of 4,096 tokens beside its input under Megatron-Core, and no rows that came back") {
  // As arXiv 2412.19437 trains it (sections 3.2 and 3.3): norms, up-projections and experts' SwiGLU again; SwiGLU's inputs in 8 bits.
  const std::string text = R"({"stack": {"name": "megatron-core", "as_of": "MONTH", "rules": "note"},
    "model": {"preset": "deepseek-v3", "num_layers": 4},
    "parallel": {"data": 64, "expert": 64, "zero_stage": 1, "token_dispatcher": "deepep"},
    "training": {"seq_length": 4096, "micro_batch_size": 1, "global_batch_size": 64, "precision": "fp8_block", "fp8_activation_inputs": true,
                 "recompute": "selective", "recompute_modules": ["norm", "moe_activation", "mla_up_proj"]},
    "cluster": {"preset": "dgx-h100", "devices": 64}})";
  const auto kept = [&](const std::string& month) {
    std::string dated = text;
    dated.replace(dated.find("MONTH"), 5, month);
    const TaskGraph graph = lower(parse_plan(dated, "deepseek.json"));
    CHECK_NOTHROW(graph.check());
    const StageOf stage(graph, 0);
    return stage.behind(stage.find("block_forward", 3, 0, Phase::forward), "saved").bytes.count();
  };
  const std::int64_t t = 4096, h = 7168, rows = 8 * t, kMib = 1 << 20;
  // Inputs of the norms: the sum behind attention, what queries, keys and values are compressed to; in 16 bits. Four norms' statistics,
  // which stacks of frameworks do not say to be wider.
  const std::int64_t norms = 2 * t * (h + 1536 + 512 + 64) + 4 * 2 * 2 * t;
  // Attention's output in 16 bits, and for each of 128 heads the log of its sums.
  const std::int64_t attention = 2 * t * 128 * 128 + 2 * t * 128;
  // Logits and scores of 256 experts; weights and places of eight; how many rows each expert is sent and gets.
  const std::int64_t router = 2 * 2 * t * 256 + (2 + 4) * rows + 2 * 4 * 256;
  // Rows that arrived, of 8 bits with a scale of four bytes for 128; SwiGLU's inputs of the experts and of the shared one, 8 bits; the
  // shared one's output, which Megatron-LM's moe_act does not make again (core/transformer/moe/experts.py).
  const std::int64_t experts = rows * h + rows * h / 32 + (rows + t) * 2 * 2048 + t * 2048 + t * 2048 / 32;
  CHECK(kept("2025-04") == norms + attention + router + experts);
  CHECK(kept("2025-04") / kMib == 589);
  // Before, Megatron-LM weighted the rows that came back, and kept them for that: 448 MiB more.
  CHECK(kept("2025-03") - kept("2025-04") == 2 * rows * h);
}
