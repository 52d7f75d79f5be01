// The tasks of one layer under every fusion set, as lists to be read.

#include <algorithm>

#include "models/fields/fusion_file.hpp"
#include "models/graph/task_graph.hpp"
#include "models/lowering/shapes/fusion.hpp"
#include "tests/catch.hpp"
#include "tests/plans.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using tests::SmallPlan;

namespace {

using Names = std::vector<std::string>;

TaskGraph graph_of(const std::string& set, bool llama, const std::string& precision = "fp64", int tensor = 1) {
  SmallPlan s;
  s.llama = llama;
  s.precision = precision;
  s.tensor = tensor;
  Plan plan = s.plan();
  plan.training.fusion = fusion_set(set);
  plan.stack.facts.wide_tensors = {};  // the sets are other frameworks'
  return lower(plan);
}

/// The template of a phase as the last micro-batch uses it: its gradients are added to earlier ones.
const Template& last_of(const TaskGraph& graph, std::string_view block) {
  const auto& instances = graph.programs.front().instances;
  const auto found =
      std::find_if(instances.rbegin(), instances.rend(), [&](const Instance& i) { return graph.of(i).name == block; });
  REQUIRE(found != instances.rend());
  return graph.of(*found);
}

Names tasks(const TaskGraph& graph, std::string_view block) {
  Names names;
  for (const Task& t : last_of(graph, block).tasks) names.push_back(t.name);
  return names;
}

std::string read(const std::string& set, bool llama, std::string_view block, const std::string& precision = "fp64") {
  std::string line;
  for (const std::string& n : tasks(graph_of(set, llama, precision), block)) line += (line.empty() ? "" : " ") + n;
  return line;
}

}  // namespace

TEST_CASE("the tasks of a GPT layer's forward pass under every fusion set") {
  CHECK(read("reference", false, "block_forward") ==
        "ln1 qkv scores softmax context proj attention_add ln2 fc1 activation fc2 mlp_add");
  CHECK(read("eager", false, "block_forward") ==
        "ln1 qkv scores scores_scale softmax_mask softmax softmax_dropout context proj attention_add_dropout "
        "attention_add "
        "ln2 fc1 activation fc2 mlp_add_dropout mlp_add");
  CHECK(read("megatron", false, "block_forward") ==
        "ln1 qkv scores softmax softmax_dropout context proj attention_add ln2 fc1 activation fc2 mlp_add");
  CHECK(read("compiled", false, "block_forward") ==
        "ln1 qkv scores softmax context proj attention_add_ln2 fc1 activation fc2 mlp_add");
  CHECK(read("llm.c", false, "block_forward") == read("compiled", false, "block_forward"));
  CHECK(read("tandem-cuda", false, "block_forward") ==
        "ln1 qkv scores softmax context proj attention_add_ln2 fc1_activation fc2 mlp_add");
}

TEST_CASE("the tasks of a GPT layer's backward pass in a later micro-batch under every fusion set") {
  CHECK(read("reference", false, "block_backward") ==
        "mlp_add_backward accumulate_mlp_add_bias fc2_dgrad fc2_wgrad accumulate_fc2 activation_backward fc1_dgrad "
        "fc1_wgrad "
        "fc1_bias_grad accumulate_fc1 ln2_backward accumulate_ln2 attention_add_backward accumulate_attention_add_bias "
        "proj_dgrad proj_wgrad accumulate_proj context_backward softmax_backward scores_backward qkv_dgrad qkv_wgrad "
        "qkv_bias_grad accumulate_qkv ln1_backward accumulate_ln1");
  CHECK(read("megatron", false, "block_backward") ==
        "mlp_add_backward accumulate_mlp_add_bias fc2_dgrad fc2_wgrad activation_backward fc1_dgrad fc1_wgrad "
        "fc1_bias_grad accumulate_fc1 ln2_backward_parameters ln2_backward ln2_backward_residual accumulate_ln2 "
        "attention_add_backward accumulate_attention_add_bias "
        "proj_dgrad proj_wgrad context_backward softmax_backward_dropout softmax_backward scores_backward qkv_dgrad "
        "qkv_wgrad "
        "qkv_bias_grad accumulate_qkv ln1_backward_parameters ln1_backward ln1_backward_residual accumulate_ln1");
  CHECK(read("megatron-2021", false, "block_backward") ==
        "mlp_add_backward accumulate_mlp_add_bias fc2_dgrad fc2_wgrad accumulate_fc2 activation_backward fc1_dgrad "
        "fc1_wgrad "
        "fc1_bias_grad accumulate_fc1 ln2_backward_parameters ln2_backward ln2_backward_residual accumulate_ln2 "
        "attention_add_backward accumulate_attention_add_bias "
        "proj_dgrad proj_wgrad accumulate_proj context_backward softmax_backward_dropout softmax_backward "
        "scores_backward "
        "qkv_dgrad qkv_wgrad qkv_bias_grad accumulate_qkv ln1_backward_parameters ln1_backward ln1_backward_residual "
        "accumulate_ln1");
  CHECK(read("transformer-engine", false, "block_backward") ==
        "mlp_add_backward accumulate_mlp_add_bias fc2_dgrad fc2_wgrad activation_backward fc1_dgrad fc1_wgrad "
        "accumulate_fc1 ln2_backward_parameters ln2_backward ln2_backward_residual accumulate_ln2 "
        "attention_add_backward accumulate_attention_add_bias "
        "proj_dgrad proj_wgrad context_backward softmax_backward_dropout softmax_backward scores_backward qkv_dgrad "
        "qkv_wgrad "
        "accumulate_qkv ln1_backward_parameters ln1_backward ln1_backward_residual accumulate_ln1");
  CHECK(read("eager", false, "block_backward") ==
        "mlp_add_backward mlp_add_backward_bias_grad accumulate_mlp_add_bias fc2_dgrad fc2_wgrad accumulate_fc2 "
        "activation_backward fc1_dgrad fc1_wgrad "
        "fc1_bias_grad accumulate_fc1 ln2_backward_parameters ln2_backward ln2_backward_residual accumulate_ln2 "
        "attention_add_backward attention_add_backward_bias_grad accumulate_attention_add_bias "
        "proj_dgrad proj_wgrad accumulate_proj context_backward softmax_backward_dropout softmax_backward "
        "scores_backward_scale scores_backward qkv_dgrad qkv_wgrad "
        "qkv_bias_grad accumulate_qkv ln1_backward_parameters ln1_backward ln1_backward_residual accumulate_ln1");
  CHECK(read("compiled", false, "block_backward") == read("reference", false, "block_backward"));
  CHECK(read("llm.c", false, "block_backward") ==
        "mlp_add_backward accumulate_mlp_add_bias fc2_dgrad fc2_wgrad activation_backward fc1_dgrad fc1_wgrad "
        "fc1_bias_grad accumulate_fc1 ln2_backward accumulate_ln2 attention_add_backward accumulate_attention_add_bias "
        "proj_dgrad proj_wgrad context_backward softmax_backward scores_backward qkv_dgrad qkv_wgrad "
        "qkv_bias_grad accumulate_qkv ln1_backward accumulate_ln1");
  CHECK(read("tandem-cuda", false, "block_backward") ==
        "mlp_add_backward accumulate_mlp_add_bias fc2_wgrad fc2_dgrad_activation_backward fc1_dgrad fc1_wgrad "
        "accumulate_fc1 ln2_backward accumulate_ln2 attention_add_backward accumulate_attention_add_bias "
        "proj_dgrad proj_wgrad context_backward softmax_backward scores_backward qkv_dgrad qkv_wgrad "
        "accumulate_qkv ln1_backward accumulate_ln1");
}

TEST_CASE("a product with its activation moves what the two move, but what passed between them") {
  const TaskGraph fused = graph_of("tandem-cuda", false, "bf16"), apart = graph_of("llm.c", false, "bf16");
  const auto bytes = [](const TaskGraph& graph, std::string_view block, const Names& names) {
    std::int64_t sum = 0;
    for (const Task& t : last_of(graph, block).tasks)
      if (std::find(names.begin(), names.end(), t.name) != names.end()) sum += traffic(t.op, t.dtype).count();
    return sum;
  };
  const std::int64_t activation = 2 * 12 * 40;  // of 12 tokens
  CHECK(bytes(fused, "block_forward", {"fc1_activation"}) == bytes(apart, "block_forward", {"fc1", "activation"}) - activation);
  CHECK(bytes(fused, "block_backward", {"fc2_dgrad_activation_backward"}) ==
        bytes(apart, "block_backward", {"fc2_dgrad", "activation_backward"}) - 2 * activation);
}

TEST_CASE("an activation that is computed again is so in its product") {
  SmallPlan s;
  s.recompute = "full";
  Plan plan = s.plan();
  plan.training.fusion = fusion_set("tandem-cuda");
  const TaskGraph graph = lower(plan);
  CHECK_NOTHROW(graph.check());
  const Names again = tasks(graph, "block_recompute");
  CHECK(std::count(again.begin(), again.end(), "fc1_activation") == 1);
  CHECK(std::count(again.begin(), again.end(), "activation") == 0);
}

TEST_CASE("the tasks of a LLaMA layer without fused kernels, in fp64 and in bf16 with its norms in fp32") {
  CHECK(read("reference", true, "block_forward") ==
        "ln1 qkv rotary scores softmax context proj attention_add ln2 fc1 activation fc2 mlp_add");
  CHECK(read("eager", true, "block_forward") ==
        "ln1_square ln1_root ln1_normalise ln1 qkv "
        "rotary_queries_swap rotary_queries_cosine rotary_queries_sine rotary_queries_add "
        "rotary_keys_swap rotary_keys_cosine rotary_keys_sine rotary_keys_add "
        "scores scores_scale softmax_mask softmax softmax_dropout context proj attention_add_dropout attention_add "
        "ln2_square ln2_root ln2_normalise ln2 fc1 activation_gate activation fc2 mlp_add_dropout mlp_add");
  const std::string bf16 = read("eager", true, "block_forward", "bf16");
  CHECK(bf16.starts_with("ln1_widen ln1_square ln1_root ln1_normalise ln1_narrow ln1 qkv "));
  const std::string backward = read("eager", true, "block_backward");
  CHECK(backward.find("activation_backward_gate activation_backward_product activation_backward ") !=
        std::string::npos);
  CHECK(backward.find("ln2_backward_normalise ln2_backward_weight_product ln2_backward_weight_sum ln2_backward_scale "
                      "ln2_backward_along ln2_backward_sum ln2_backward_root_square ln2_backward_root_cube "
                      "ln2_backward_mean ln2_backward_straight ln2_backward_back ln2_backward ln2_backward_residual") !=
        std::string::npos);
}

TEST_CASE("PyTorch since 2.9 has RMSNorm in one kernel, its gradients in two, and all else as without") {
  const std::string set = "eager-fused-rmsnorm";
  const auto without_norms = [](const TaskGraph& graph, std::string_view block) {
    Names names = tasks(graph, block);
    std::erase_if(names, [](const std::string& n) { return n.starts_with("ln") || n.starts_with("final_norm"); });
    return names;
  };
  const auto of_norm = [](const TaskGraph& graph, std::string_view block, const std::string& norm) {
    Names names = tasks(graph, block);
    std::erase_if(names, [&](const std::string& n) { return !n.starts_with(norm); });
    return names;
  };
  for (const std::string precision : {"fp64", "bf16"}) {
    const TaskGraph apart = graph_of("eager", true, precision), fused = graph_of(set, true, precision);
    CHECK_NOTHROW(fused.check());
    for (const char* block : {"block_forward", "block_backward", "head_forward", "head_backward"})
      CHECK(without_norms(fused, block) == without_norms(apart, block));
    for (const std::string norm : {"ln1", "ln2"}) {
      CHECK(of_norm(fused, "block_forward", norm) == Names{norm});
      CHECK(of_norm(fused, "block_backward", norm) ==
            Names{norm + "_backward_parameters", norm + "_backward", norm + "_backward_residual"});
    }
    CHECK(of_norm(fused, "head_backward", "final_norm") == Names{"final_norm_backward_parameters", "final_norm_backward"});
  }
  for (const char* block : {"block_forward", "block_backward"}) CHECK(read(set, false, block) == read("eager", false, block));

  // Bytes read and written once, for 12 rows of 24 bf16 numbers, each row with one number in fp32.
  const TaskGraph graph = graph_of(set, true, "bf16");
  const auto bytes = [&](std::string_view block, std::string_view name) {
    for (const Task& t : last_of(graph, block).tasks)
      if (t.name == name) return traffic(t.op, t.dtype).count();
    throw ContractError("no such task");
  };
  const std::int64_t all = 2 * 12 * 24, rows = 4 * 12, gamma = 2 * 24;
  CHECK(bytes("block_forward", "ln1") == 2 * all + rows + gamma);
  CHECK(bytes("block_backward", "ln1_backward_parameters") == 2 * all + rows + gamma);
  CHECK(bytes("block_backward", "ln1_backward") == 3 * all + rows + gamma);
}

TEST_CASE("DeepSpeed's fork of Megatron-LM has gates and rotations as PyTorch's operations, Megatron-LM in a kernel") {
  const std::string theirs = read("megatron-2021", true, "block_forward"), own = read("megatron", true, "block_forward");
  CHECK(theirs.find("rotary_queries_swap rotary_queries_cosine rotary_queries_sine rotary_queries_add rotary_keys_swap") != theirs.npos);
  CHECK(theirs.find("activation_gate activation fc2") != theirs.npos);
  CHECK((own.find("rotary_queries") == own.npos && own.find("activation_gate") == own.npos));
}

TEST_CASE("DeepSpeed casts bf16 gradients to fp32 before it adds them: 18 bytes an element") {
  const TaskGraph graph = graph_of("megatron-2021", false, "bf16");
  const Template& backward = last_of(graph, "block_backward");
  const Names names = tasks(graph, "block_backward");
  const auto at = std::find(names.begin(), names.end(), "accumulate_fc2_cast");
  REQUIRE(at != names.end());
  CHECK(*(at + 1) == "accumulate_fc2");
  const auto& cast = backward.tasks[static_cast<std::size_t>(at - names.begin())];
  const auto& add = backward.tasks[static_cast<std::size_t>(at - names.begin()) + 1];
  const std::int64_t n = std::get<Accumulate>(add.op).elements;
  CHECK((traffic(cast.op, cast.dtype) + traffic(add.op, add.dtype)).count() == (2 + 4 + 4 + 4 + 4) * n);
  for (const std::string set : {"reference", "eager", "megatron"})
    for (const std::string& n2 : tasks(graph_of(set, false, "bf16"), "block_backward")) CHECK(n2.find("_cast") == std::string::npos);
}

TEST_CASE("a loss in one kernel needs the whole vocabulary") {
  CHECK(tasks(graph_of("reference", false), "head_forward") ==
        Names{"final_norm", "logits", "vocab_max", "vocab_exp_sum", "cross_entropy"});
  CHECK(tasks(graph_of("compiled", false), "head_forward") == Names{"final_norm", "logits", "cross_entropy"});
  CHECK(tasks(graph_of("tandem-cuda", false), "head_forward") == tasks(graph_of("compiled", false), "head_forward"));
  CHECK(tasks(graph_of("compiled-blocks", false), "head_forward") == tasks(graph_of("reference", false), "head_forward"));
  CHECK(tasks(graph_of("compiled-blocks", false), "block_forward") == tasks(graph_of("compiled", false), "block_forward"));
  CHECK(tasks(graph_of("compiled-blocks", false), "block_backward") == tasks(graph_of("compiled", false), "block_backward"));
  CHECK(tasks(graph_of("compiled", false, "fp64", 2), "head_forward") ==
        tasks(graph_of("reference", false, "fp64", 2), "head_forward"));
}

TEST_CASE("LLM Foundry shows two cross-entropies of every micro-batch's logits, which are kept until its backward pass is over") {
  CHECK(read("llm-foundry", false, "metrics", "bf16") == "logits_copy metric logits_copy metric");
  CHECK(read("llm-foundry", false, "metrics") == "metric metric");
  const TaskGraph graph = graph_of("llm-foundry", false, "bf16");
  const std::int64_t logits = 12 * 48;
  std::int64_t bytes = 0;
  for (const Task& t : last_of(graph, "metrics").tasks) bytes += traffic(t.op, t.dtype).count();
  // A copy from 2 to 4 bytes, log_softmax from 4 to 4; and the targets of 12 tokens.
  CHECK(bytes == 2 * (6 * logits + 8 * logits + 4 * 12));
  const auto& instances = graph.programs.front().instances;
  const auto after = [&](std::string_view name) {
    return std::find_if(instances.begin(), instances.end(), [&](const Instance& i) { return graph.of(i).name == name; });
  };
  CHECK(after("metrics") > after("embed_backward"));
  CHECK(after("metrics")->micro_batch == 0);
  // A vocabulary that ranks share has no kernel that knows all of it.
  const TaskGraph shared = graph_of("llm-foundry", false, "bf16", 2);
  for (const Template& t : shared.templates) CHECK(t.name != "metrics");
}

TEST_CASE("a bias is added by the linear layer, or apart where a sum over ranks comes between") {
  const auto bias = [](int tensor) {
    const TaskGraph graph = graph_of("eager", false, "fp64", tensor);
    for (const Task& t : last_of(graph, "block_forward").tasks)
      if (t.name == "proj") return std::get<MatMul>(t.op).bias;
    return false;
  };
  CHECK(bias(1));
  CHECK_FALSE(bias(2));
  const Names cut = tasks(graph_of("eager", false, "fp64", 2), "block_forward");
  CHECK(std::find(cut.begin(), cut.end(), "attention_add_bias") != cut.end());
}

TEST_CASE("Megatron's activation adds the bias that its product leaves out") {
  const TaskGraph graph = graph_of("megatron", false);
  for (const Task& t : last_of(graph, "block_forward").tasks) {
    if (t.name == "fc1") CHECK_FALSE(std::get<MatMul>(t.op).bias);
    if (t.name == "activation") CHECK(std::get<Pointwise>(t.op).bias_cols == 40);
  }
}

TEST_CASE(
    "a product that accumulates reads and writes fp32 sums and leaves no gradient of one micro-batch in the arena") {
  const TaskGraph apart = graph_of("reference", false, "bf16"), fused = graph_of("megatron", false, "bf16");
  const auto task = [](const TaskGraph& graph, std::string_view name) {
    for (const Task& t : last_of(graph, "block_backward").tasks)
      if (t.name == name) return t;
    throw ContractError("no such task");
  };
  const std::int64_t h = 24, f = 40, tokens = 12;
  // C: 4 bytes read and 4 written; apart: 2 written, then 2 read, 4 read and 4 written.
  const auto bytes = [](const Task& t) { return traffic(t.op, t.dtype).count(); };
  CHECK(bytes(task(fused, "fc2_wgrad")) == 2 * (tokens * h + tokens * f) + 8 * h * f);
  CHECK(bytes(task(apart, "fc2_wgrad")) + bytes(task(apart, "accumulate_fc2")) ==
        2 * (tokens * h + tokens * f) + 12 * h * f);
  const Task& wgrad = task(fused, "fc2_wgrad");
  CHECK(wgrad.outputs.front().slot == wgrad.inputs.back().slot);
  CHECK(wgrad.outputs.front().dtype == DType::fp32);
  CHECK(wgrad.outputs.front().slot != 0);  // not scratch
  // The word matrix' gradient of one micro-batch, 48 x 24 in bf16, is most of the head's scratch.
  const auto scratch = [](const TaskGraph& graph) { return last_of(graph, "head_backward").slots.front().bytes; };
  CHECK(scratch(fused) < scratch(apart));
}

TEST_CASE("every fusion set does the same matrix products and collectives") {
  const bool llama = GENERATE(false, true);
  const int tensor = GENERATE(1, 2);
  const Books plain = count(graph_of("reference", llama, "fp64", tensor), StageId(0));
  for (const char* set : {"eager", "megatron-2021", "megatron", "transformer-engine", "compiled", "llm.c", "llm-foundry",
                          "megatron-bridge", "internevo", "compiled-blocks", "megatron-wide-softmax", "eager-fused-rmsnorm", "eager-loss-parallel", "nanotron", "tandem-cuda"}) {
    const TaskGraph graph = graph_of(set, llama, "fp64", tensor);
    CHECK_NOTHROW(graph.check());
    const Books books = count(graph, StageId(0));
    CHECK(books.matrix == plain.matrix);
    // A loss of the whole vocabulary exchanges the logits themselves (whole_logits_test).
    if (tensor > 1 && fusion_set(set).whole_logits) continue;
    REQUIRE(books.collectives.size() == plain.collectives.size());
    for (std::size_t i = 0; i < plain.collectives.size(); ++i) {
      CHECK(books.collectives[i].calls == plain.collectives[i].calls);
      CHECK(books.collectives[i].payload == plain.collectives[i].payload);
    }
  }
}

TEST_CASE("InternEvo's norms read 16-bit activations made fp32, and their gradients come back narrow") {
  CHECK(read("internevo", true, "block_forward") == read("reference", true, "block_forward"));
  CHECK(read("internevo", true, "block_backward") == read("reference", true, "block_backward"));
  const TaskGraph graph = graph_of("internevo", true, "bf16");
  CHECK_NOTHROW(graph.check());
  const auto type_of = [](const Template& t, const std::string& task, std::size_t operand, bool input) {
    const auto k = std::find_if(t.tasks.begin(), t.tasks.end(), [&](const Task& x) { return x.name == task; });
    INFO(t.name << " " << task);
    REQUIRE(k != t.tasks.end());
    return (input ? k->inputs : k->outputs).at(operand).dtype;
  };
  const Template &forward = last_of(graph, "block_forward"), &backward = last_of(graph, "block_backward");
  for (const std::string norm : {"ln1", "ln2"}) {
    CHECK(type_of(forward, norm + "_widen", 0, true) == DType::bf16);
    CHECK(type_of(forward, norm, 0, true) == DType::fp32);
    CHECK(type_of(forward, norm, 0, false) == DType::bf16);
    CHECK(type_of(backward, norm + "_backward", 0, false) == DType::fp32);
    CHECK(type_of(backward, norm + "_backward_narrow", 0, true) == DType::fp32);
    CHECK(type_of(backward, norm + "_backward_narrow", 0, false) == DType::bf16);
  }
}

TEST_CASE("on Gaudi the graph compiler takes the place of Megatron's fusions") {
  std::string json = SmallPlan{}.json();
  json.replace(json.find("\"training\": {"), 13, "\"stack\": \"megatron-deepspeed\", \"training\": {");
  json.replace(json.find("fp64"), 4, "bf16");
  json.replace(json.find("cpu-host"), 8, "hls-gaudi2");
  CHECK(parse_plan(json, "test.json").training.fusion == fusion_set("compiled"));
}

TEST_CASE("this project's stack has the fused set on NVIDIA's devices, unless the plan is deterministic") {
  const auto set_on = [](const std::string& cluster, const std::string& more) {
    std::string json = SmallPlan{}.json();
    json.replace(json.find("\"training\": {"), 13, "\"stack\": \"tandem\", \"training\": {" + more);
    json.replace(json.find("cpu-host"), 8, cluster);
    json.replace(json.find("fp64"), 4, "bf16");
    return parse_plan(json, "test.json").training.fusion;
  };
  for (const char* cluster : {"dgx-h100", "dgx-a100-80gb"}) {
    CHECK(set_on(cluster, "") == fusion_set("tandem-cuda"));
    CHECK(set_on(cluster, "\"deterministic\": true, ") == fusion_set("reference"));
    CHECK(set_on(cluster, "\"fusion\": \"reference\", ") == fusion_set("reference"));
  }
  CHECK(set_on("hls-gaudi2", "") == fusion_set("reference"));
  CHECK(set_on("cpu-host", "\"fusion\": \"tandem-cuda\", ") == fusion_set("tandem-cuda"));
}

TEST_CASE("a plan has the fusion set of its stack unless it names one") {
  const auto set_of = [](const std::string& stack, const std::string& fusion) {
    std::string json = SmallPlan{}.json();
    json.replace(json.find("\"training\": {"), 13, "\"stack\": \"" + stack + "\", \"training\": {" + fusion);
    return parse_plan(json, "test.json").training.fusion;
  };
  CHECK(set_of("tandem", "") == fusion_set("reference"));
  CHECK(set_of("megatron-core", "") == fusion_set("megatron"));
  CHECK(set_of("pytorch-ddp", "") == fusion_set("eager"));
  CHECK(set_of("jax", "") == fusion_set("compiled"));
  FusionSet in_deepspeed = fusion_set("megatron-2021");
  in_deepspeed.collective_elements = 500'000'000;  // its engine's (update_buckets)
  CHECK(set_of("megatron-deepspeed", "") == in_deepspeed);
  CHECK(set_of("pytorch-ddp", "\"fusion\": \"compiled\", ") == fusion_set("compiled"));
  CHECK_THROWS_AS(set_of("tandem", "\"fusion\": \"everything\", "), ConfigError);
}
