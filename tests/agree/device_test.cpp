// Plans on the kernels of the CUDA backend without help of the CPU's: they train as on the CPU. The host emulates the kernels unless a
// CUDA device is tested. What the host has read of dropless experts' rows when it issues a product is what the product then meets.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>

#include "exec/backend/forwarding_backend.hpp"
#include "tests/agree/closeness.hpp"
#include "tests/agree/features.hpp"
#include "tests/agree/layouts.hpp"
#include "tests/catch.hpp"
#include "tests/exec/communicator/queued.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using exec::RunResult;

namespace {

using Patches = std::vector<std::string>;
using Communicators = std::vector<std::unique_ptr<exec::Communicator>>;

std::string patch_of(tests::Dim dim, std::string_view label) {
  for (const tests::Value& v : tests::features()[static_cast<std::size_t>(dim)].values)
    if (v.label == label) return std::string(v.patch);
  throw ContractError("no such value of a feature");
}

std::string text(const Patches& patches) {
  std::string all;
  for (const std::string& p : patches) all += p + "\n";
  return all;
}

/// `micro_batches`: of a data rank.
Plan plan_of(Patches patches, const std::string& precision, int micro_batches = 2) {
  patches.push_back(R"({"training": {"precision": ")" + precision + R"("}})");
  return parse_plan(tests::small_json(patches, micro_batches), "device.json");
}

RunResult trained(const Plan& plan, const exec::BackendFactory& backend,
                  const std::function<Communicators(exec::World&)>& communicators = {}) {
  exec::RunOptions options;
  options.steps = 2;
  options.gather_gradients = options.gather_weights = true;
  options.make_backend = backend;
  options.make_communicators = communicators;
  return exec::run(plan, lower(plan), tests::HashTokens(plan.model.vocab_size), options);
}
RunResult on_cpu(const Plan& plan) {
  return trained(plan, [](Rank) { return exec::make_cpu_backend(); });
}
RunResult on_device(const Plan& plan) {
  return trained(plan, [](Rank) { return tests::device_kernels(); }, tests::communicators_under_test());
}
RunResult emulated(const Plan& plan) {
  return trained(plan, [](Rank) { return tests::make_emulated_backend(); });
}

/// In fp64 and fp32 to rounding, and in bf16 to what may follow where a choice turns on rounding.
void check_alike(const Patches& patches) {
  INFO(text(patches));
  const Plan doubles = plan_of(patches, "fp64"), floats = plan_of(patches, "fp32"), narrow = plan_of(patches, "bf16");
  const RunResult exact = on_cpu(doubles), one = on_device(doubles);
  CHECK(exact.steps.front().grad_norm > doubles.training.clip_grad);  // clipping is at work
  CHECK(tests::loss_error(one, exact) <= 1e-12);
  CHECK(tests::gradient_error(one, exact) <= 1e-12);
  for (std::size_t r = 0; r < exact.ranks.size(); ++r)
    CHECK(one.ranks[r].backend.gemm_flops == exact.ranks[r].backend.gemm_flops);
  const RunResult rounded = on_cpu(floats), other = on_device(floats);
  CHECK(tests::loss_error(other, rounded) <= 2e-6);
  // Where the CPU itself is further from fp64, nobody can be asked to come nearer to it.
  CHECK(tests::gradient_error(other, rounded) <= std::max(1e-5, 2 * tests::gradient_error(rounded, exact)));
  CHECK(tests::loss_error(on_device(narrow), on_cpu(narrow)) <= tests::kBf16);
}

/// Refuses a product whose numbers of rows are missing, or others than those in memory when it is performed.
class CheckingQueue final : public exec::ForwardingQueue {
 public:
  CheckingQueue(exec::Queue& inner, std::atomic<std::int64_t>& checked) : ForwardingQueue(inner), checked_(checked) {}
  void run(const exec::Launch& launch) override {
    if (const auto counts = exec::counted_rows(launch.op)) {
      const exec::Tensor& t = launch.in[*counts];
      if (std::ssize(launch.rows) != t.elements || std::memcmp(launch.rows.data(), t.address, launch.rows.size_bytes()) != 0)
        throw DeviceError("a product was issued for other rows than there are");
      ++checked_;
    }
    inner().run(launch);
  }

 private:
  std::atomic<std::int64_t>& checked_;
};

class CheckingBackend final : public exec::ForwardingBackend {
 public:
  explicit CheckingBackend(std::atomic<std::int64_t>& checked) : ForwardingBackend(tests::make_emulated_backend()) {
    for (std::size_t s = 0; s < kStreams; ++s)
      queues_.push_back(std::make_unique<CheckingQueue>(inner().queue(static_cast<Stream>(s)), checked));
  }
  exec::Queue& queue(Stream stream) override { return *queues_[static_cast<std::size_t>(stream)]; }

 private:
  std::vector<std::unique_ptr<CheckingQueue>> queues_;
};

/// Experts with biases and a shared one; `more`: members of model.moe.
std::string experts(const std::string& more = R"("num_experts": 4, "experts_per_token": 2)") {
  return R"({"model": {"moe": {"ffn_hidden_size": 16, "num_shared_experts": 1, "rows_bound": 4, )" + more + "}}}";
}

const Patches kDropless[] = {
    {experts(R"("num_experts": 4, "experts_per_token": 2, "aux_loss": 0.02)")},
    {experts(R"("num_experts": 16, "experts_per_token": 1)")},  // experts without rows
    {experts(), R"({"parallel": {"data": 2, "expert": 2}, "training": {"recompute": "full"}})"},
    {experts(), R"({"parallel": {"data": 4, "expert": 2, "expert_tensor": 2, "zero_stage": 1}})"},
    {experts(), R"({"parallel": {"tensor": 4, "expert": 2, "sequence_parallel": true}})"},
    {experts(), R"({"parallel": {"tensor": 2, "data": 2, "expert": 4, "expert_tensor": 1, "sequence_parallel": true}})"},
};

}  // namespace

TEST_CASE("dropless experts train with a device's kernels as with the CPU's") {
  for (const Patches& p : kDropless) check_alike(p);
  // Rows of several ranks with a capacity: their number is known.
  check_alike({experts(R"("num_experts": 4, "experts_per_token": 2, "capacity_factor": 2)"), R"({"parallel": {"data": 2, "expert": 2}})"});
}

TEST_CASE("models of today train with a device's kernels as with the CPU's") {
  for (const char* label : {"gemma4", "moe-gemma4", "moe-llama4", "moe-deepseek"}) check_alike({patch_of(tests::Dim::model, label)});
}

TEST_CASE("attention to keys that an indexer chose trains with a device's kernels as with the CPU's") {
  for (const char* keys : {"3 keys", "all keys"})
    for (const char* parallel : {"{}", R"({"parallel": {"tensor": 2}})"})
      check_alike({patch_of(tests::Dim::model, "latent"), patch_of(tests::Dim::indexer, keys), parallel});
}

TEST_CASE("recurrences beside attention with a gate train with a device's kernels as with the CPU's, over several chunks too") {
  const std::string delta = R"({"model": {"family": "llama", "num_kv_heads": 1, "qk_norm": "head", "attention_gate": true, "qkv_bias": true,
    "recurrence": {"heads": 8, "key_heads": 4, "key_dim": 3, "value_dim": 5, "conv_width": 3, "layers": "rrra"}}})";
  const std::string mamba = R"({"model": {"family": "llama", "num_kv_heads": 2, "sublayers": "mfmf",
    "recurrence": {"rule": "mamba2", "heads": 8, "key_heads": 4, "key_dim": 3, "value_dim": 5, "conv_width": 3, "conv_bias": true,
                   "layers": "rraa"}}})";
  for (const std::string& model : {delta, mamba})
    for (const char* layout : {"{}", R"({"parallel": {"tensor": 4, "sequence_parallel": true}})",
                               R"({"parallel": {"data": 2, "zero_stage": 3}, "training": {"recompute": "full"}})",
                               R"({"parallel": {"context": 2, "context_mode": "ulysses"}})",
                               R"({"parallel": {"tensor": 2, "context": 4, "context_mode": "ring"}})"})
      check_alike({model, layout});
  check_alike({delta, R"({"training": {"seq_length": 150}})"});
  check_alike({mamba, R"({"training": {"seq_length": 150}})"});
}

TEST_CASE("two levels of context ranks train with a device's kernels as with the CPU's") {
  const std::string few_keys = R"({"model": {"family": "llama", "num_kv_heads": 1}})";
  for (const char* layout : {R"({"parallel": {"context": 4, "ulysses": 2}, "training": {"flash_attention": true}})",
                             R"({"parallel": {"context": 4, "ulysses": 2, "context_mode": "all_gather"}, "training": {"flash_attention": true}})",
                             R"({"parallel": {"context": 4, "ulysses": 2, "context_mode": "all_gather"}, "training": {"flash_attention": false}})"}) {
    check_alike({layout});
    check_alike({few_keys, layout});
  }
}

TEST_CASE("data ranks are micro-batches bit for bit with experts whose rows come from several ranks") {
  // An expert's product is added to its gradient once, complete, whichever ranks its rows come from.
  for (const char* capacity : {"0", "2"}) {
    const std::string model = experts(R"("num_experts": 4, "experts_per_token": 2, "capacity_factor": )" + std::string(capacity));
    const auto of_ranks = [&](int data, int micro_batches) {
      const std::string ranks = R"({"parallel": {"expert": 2, "data": )" + std::to_string(data) + "}}";
      return on_device(plan_of({model, ranks}, "bf16", micro_batches));
    };
    const RunResult two = of_ranks(2, 2), four = of_ranks(4, 1);
    std::size_t of_experts = 0;
    for (std::size_t t = 0; t < two.gradients[0].size(); ++t) {
      if (two.gradients[0][t].name.find(".experts.") == std::string::npos) continue;
      INFO(two.gradients[0][t].name << " capacity " << capacity);
      CHECK((four.gradients[0][t].values == two.gradients[0][t].values));
      ++of_experts;
    }
    CHECK(of_experts > 0);
  }
}

TEST_CASE("the host reads dropless experts' rows before it issues their products, again whenever they are counted again", "[tsan]") {
  // The checks read the operands' addresses, so the kernels are always the host's.
  for (const Patches& p : kDropless)
    for (const bool queued : {false, true}) {
      const Plan plan = plan_of(p, "fp32");
      const RunResult one = emulated(plan);
      for (std::uint64_t seed = 0; seed < 3; ++seed) {
        INFO(text(p) << (queued ? "queued, " : "") << "seed " << seed);
        std::atomic<std::int64_t> checked = 0;
        const auto backend = [&](Rank rank) {
          return exec::make_async_backend(std::make_unique<CheckingBackend>(checked), tests::delays(seed, rank));
        };
        const auto communicators = [](exec::World& world) { return exec::tests::make_queued_communicators(world); };
        tests::check_equal(queued ? trained(plan, backend, communicators) : trained(plan, backend), one);
        CHECK(checked > 0);
      }
    }
}
