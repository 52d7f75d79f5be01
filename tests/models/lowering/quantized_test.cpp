// Quantized frozen weights (QLoRA), against sums written here.

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "models/graph/stage_flops.hpp"
#include "models/graph/task_graph.hpp"
#include "models/planfile/plan_steps.hpp"
#include "models/planfile/plan_trained.hpp"
#include "tests/catch.hpp"
#include "tests/models/lowering/lowered.hpp"
#include "tests/patched_plan.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using tests::SmallPlan;
using tests::bytes_named;
using tests::patched_plan;

namespace {

/// Rows of whole blocks of 64: 4 query heads and 2 key heads of width 32, a gated MLP.
constexpr std::int64_t kHidden = 128, kQkv = 256, kFfn = 256, kLayers = 4;
constexpr std::int64_t kMatrices = kQkv * kHidden + kHidden * kHidden + 2 * kFfn * kHidden + kHidden * kFfn;

Plan quantized(const std::string& lora, const std::string& more = "{}") {
  SmallPlan s;
  s.llama = true;
  s.tied = false;
  s.dropout = 0;
  s.precision = "bf16";
  s.micro_batches = 6;
  nlohmann::json patch = nlohmann::json::parse(R"({"model": {"hidden_size": 128, "ffn_hidden_size": 256}, "training": {"lora": {"rank": 3)" + lora + "}}}");
  patch.merge_patch(nlohmann::json::parse(more));
  return patched_plan(s, patch.dump());
}

const std::string kNf4 = R"(, "base": "nf4")", kDouble = kNf4 + R"(, "double_quantization": true)";

std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }
std::int64_t blocks_of(std::int64_t elements, std::int64_t block) { return (elements + block - 1) / block; }

std::vector<std::string> fields(const Plan& plan) {
  std::vector<std::string> all;
  try {
    require_lowerable(plan);
  } catch (const InfeasibleError& e) {
    for (const Problem& p : e.problems()) all.push_back(p.field);
  }
  return all;
}

}  // namespace

TEST_CASE("a block of nf4 is 64 codes and an fp32 scale, with double quantization 256 such blocks have scales of 8 bits") {
  CHECK(bytes_of(DType::nf4, 64) == Bytes(36));
  CHECK(bytes_of(DType::nf4, 4096 * 4096) == Bytes(4096 * 4096 / 2 + 4096 * 4096 / 64 * 4));
  CHECK(bytes_of(DType::nf4_double, 256 * 64) == Bytes(256 * 32 + 256 + 8));
  // 0.127 bits for the scales of a parameter in place of 0.5 (arXiv 2305.14314 section 3); a second number for 256 of them adds 0.002.
  const double each = 8 * static_cast<double>(bytes_of(DType::nf4_double, 1 << 28).count()) / (1 << 28);
  CHECK(std::abs(each - 4.127) < 0.003);
}

TEST_CASE("frozen matrices of linear layers are stored in 4 bits, all other weights as they were") {
  const Program plain = lower(quantized("")).programs[0], p = lower(quantized(kNf4)).programs[0];
  CHECK(bytes_named(p, "quantized_weights") == aligned(kLayers * kMatrices / 64 * 36));
  CHECK(bytes_named(plain, "weights") - bytes_named(p, "weights") == 2 * kLayers * kMatrices);
  CHECK(bytes_named(p, "gradients") == bytes_named(plain, "gradients"));
  const Program narrow = lower(quantized(kDouble)).programs[0];
  std::int64_t each = 0;
  for (const std::int64_t elements : {kQkv * kHidden, kHidden * kHidden, 2 * kFfn * kHidden, kHidden * kFfn})
    each += blocks_of(elements, 256 * 64) * (256 * 33 + 8);
  CHECK(bytes_named(narrow, "quantized_weights") == aligned(kLayers * each));
  std::int64_t quantized_elements = 0;
  for (const Param& q : p.params) {
    INFO(q.name);
    const bool matrix = q.name.ends_with("qkv.weight") || q.name.ends_with("proj.weight") || q.name.ends_with("fc1.weight") || q.name.ends_with("fc2.weight");
    CHECK(q.quantized == matrix);
    CHECK((!q.quantized || (q.frozen && q.offset >= p.quantized_from)));
    if (q.quantized) quantized_elements += q.elements();
  }
  CHECK(quantized_elements == kLayers * kMatrices);
}

TEST_CASE("quantized parameters have the numbers in the model's list that they have unquantized, and so the same initial values") {
  std::map<std::string, std::pair<std::int32_t, std::int32_t>> plain;
  const TaskGraph own = lower(quantized(""));
  for (const Param& q : own.programs[0].params) plain[q.name] = {q.global_index, q.init_id};
  const TaskGraph graph = lower(quantized(kNf4));
  CHECK(graph.programs[0].params.size() == plain.size());
  for (const Param& q : graph.programs[0].params) CHECK(plain.at(q.name) == std::pair(q.global_index, q.init_id));
}

TEST_CASE("a matrix is dequantized right ahead of each product, forward and backward, and lives no longer") {
  const TaskGraph graph = lower(quantized(kNf4));
  graph.check();
  for (const auto& [name, suffix] : {std::pair<std::string, std::string>{"block_forward", ""}, {"block_backward", "_dgrad"}}) {
    const auto is = [&](const Template& of) { return of.name == name; };
    const auto t = std::find_if(graph.templates.begin(), graph.templates.end(), is);
    REQUIRE(t != graph.templates.end());
    std::map<std::string, std::int64_t> dequantized;
    for (std::size_t i = 0; i < t->tasks.size(); ++i) {
      const auto* op = std::get_if<Dequantize>(&t->tasks[i].op);
      if (op == nullptr) continue;
      dequantized[t->tasks[i].name] = op->elements;
      CHECK(op->source == DType::nf4);
      CHECK(op->destination == DType::bf16);
      REQUIRE(i + 1 < t->tasks.size());
      CHECK(t->tasks[i + 1].name + "_dequantize" == t->tasks[i].name);
      CHECK(std::any_of(t->scratch.begin(), t->scratch.end(), [&](const ScratchTensor& s) {
        return s.first == static_cast<std::int32_t>(i) && s.last == s.first + 1 && s.bytes.count() >= 2 * op->elements;
      }));
    }
    const std::map<std::string, std::int64_t> all{{"qkv" + suffix + "_dequantize", kQkv * kHidden},
                                                  {"proj" + suffix + "_dequantize", kHidden * kHidden},
                                                  {"fc1" + suffix + "_dequantize", 2 * kFfn * kHidden},
                                                  {"fc2" + suffix + "_dequantize", kHidden * kFfn}};
    CHECK(dequantized == all);
  }
  CHECK(traffic(Dequantize{64 * 100, DType::nf4, DType::bf16}, DType::bf16) == Bytes(36 * 100 + 2 * 64 * 100));
}

TEST_CASE("tensor ranks quantize their shares, data ranks hold all, and stages their own") {
  const std::int64_t t = GENERATE(1, 2), z = GENERATE(0, 1, 2), pp = GENERATE(1, 2);
  const Plan plan = quantized(kNf4, R"({"parallel": {"data": 2, "tensor": )" + std::to_string(t) + R"(, "pipeline": )" + std::to_string(pp) +
                                        R"(, "zero_stage": )" + std::to_string(z) + R"(}, "cluster": {"devices": )" + std::to_string(2 * t * pp) + "}}");
  const TaskGraph graph = lower(plan);
  graph.check();
  for (const Program& p : graph.programs)
    CHECK(bytes_named(p, "quantized_weights") == aligned(kLayers / pp * kMatrices / t / 64 * 36));
}

TEST_CASE("what quantized weights do not stand beside is refused by name") {
  CHECK(fields(quantized(kNf4)).empty());
  CHECK(fields(quantized(kNf4, R"({"parallel": {"data": 2, "zero_stage": 3}, "cluster": {"devices": 2}})")) == std::vector<std::string>{"parallel.zero_stage"});
  CHECK(fields(quantized(kNf4, R"({"model": {"moe": {"num_experts": 4, "ffn_hidden_size": 64}}})")) == std::vector<std::string>{"model.moe.num_experts"});
  CHECK(fields(quantized(kNf4, R"({"model": {"ffn_hidden_size": 200}})")) == std::vector<std::string>{"training.lora.base"});
  CHECK(fields(quantized("", R"({"model": {"ffn_hidden_size": 200}})")).empty());
}
