// What a backend must have for a plan to be trained.

#include "exec/backend/forwarding_backend.hpp"
#include "exec/cpu/backend.hpp"
#include "exec/device/works/work.hpp"
#include "exec/run/requirements.hpp"
#include "models/base/error.hpp"
#include "tests/patched_plan.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::exec;

namespace {

/// What a CUDA device answers, asked on the host; or one that cannot choose keys.
class Device final : public ForwardingBackend {
 public:
  explicit Device(bool chooses) : ForwardingBackend(make_cpu_backend()), chooses_(chooses) {}
  std::string_view name() const override { return "cuda"; }
  Answer supports(const Op& op, const OperandTypes& types) const override {
    if (!chooses_ && std::holds_alternative<IndexTopK>(op)) return {false, "index_topk"};
    return device::can(op, types, std::size_t{163} << 10);
  }

 private:
  bool chooses_;
};

Plan plan_of(int heads) {
  const std::string model = R"({"model": {"family": "llama", "head_dim": 12, "latent": {"kv_rank": 8, "query_rank": 8, "rotary_dim": 4},
                                         "indexer": {"heads": )" + std::to_string(heads) + R"(, "head_dim": 8, "topk": 3}},
                              "training": {"flash_attention": true, "dropout": {"attention": 0, "hidden": 0}}})";
  return tests::patched_plan(tests::SmallPlan{}, model);
}

}  // namespace

TEST_CASE("an indexer is refused by its field where a backend has no kernels that choose keys") {
  const Plan plan = plan_of(2);
  CHECK_NOTHROW(require_supported(plan, lower(plan), *make_cpu_backend()));
  CHECK_NOTHROW(require_supported(plan, lower(plan), Device(true)));
  CHECK_NOTHROW(require_supported(plan_of(0), lower(plan_of(0)), Device(false)));
  try {
    require_supported(plan, lower(plan), Device(false));
    FAIL("a device chose keys");
  } catch (const InfeasibleError& e) {
    CHECK(e.problems().front().field == "model.indexer.heads");
    CHECK(e.problems().front().reason == "the cuda backend has no kernels that choose keys");
  }
}

TEST_CASE("recurrences and gates of attention's output have kernels on CPUs and on CUDA, in every precision") {
  for (const char* precision : {"fp64", "fp32", "tf32", "bf16", "fp16"})
    for (const char* model : {R"("attention_gate": true)", R"("recurrence": {"heads": 4, "key_dim": 4, "value_dim": 4, "rule": "gated_delta"})",
                              R"("recurrence": {"heads": 4, "key_dim": 4, "value_dim": 4, "rule": "mamba2", "conv_bias": true})"}) {
      const Plan plan = tests::patched_plan(tests::SmallPlan{}, R"({"model": {"family": "llama", )" + std::string(model) +
                                                                    R"(}, "training": {"precision": ")" + precision + R"("}})");
      INFO(precision << " " << model);
      CHECK_NOTHROW(require_supported(plan, lower(plan), Device(true)));
      if (precision != std::string("tf32")) CHECK_NOTHROW(require_supported(plan, lower(plan), *make_cpu_backend()));
    }
}

TEST_CASE("documents are kept apart on CPUs and on CUDA, in every precision") {
  for (const char* precision : {"fp64", "fp32", "bf16", "fp16"})
    for (const char* family : {"gpt", "llama", "bloom"})
      for (const bool flash : {false, true}) {
        const Plan plan = tests::patched_plan(tests::SmallPlan{}, R"({"model": {"family": ")" + std::string(family) +
                                                                      R"("}, "training": {"documents": "separate", "precision": ")" +
                                                                      precision + R"(", "flash_attention": )" + (flash ? "true" : "false") + "}}");
        INFO(precision << " " << family);
        CHECK_NOTHROW(require_supported(plan, lower(plan), Device(true)));
        CHECK_NOTHROW(require_supported(plan, lower(plan), *make_cpu_backend()));
      }
}

TEST_CASE("a recurrence whose states exceed a device's shared memory is refused with the bytes") {
  const RecurrenceDims d{RecurrenceRule::gated_delta, 1, 1, 64, 1, 30000, 4};
  CHECK(Device(true).supports(Recurrence{d}, {DType::fp64, {}, {}}).reason.find("bytes of shared memory") != std::string::npos);
}

TEST_CASE("experts whose activation is weighted are refused, for the rows that come back are not there") {
  Plan plan = tests::patched_plan(tests::SmallPlan{}, R"({"model": {"moe": {"num_experts": 4, "experts_per_token": 2}}})");
  CHECK_NOTHROW(require_supported(plan, lower(plan), *make_cpu_backend()));
  plan.training.fusion.weighted_activations = true;
  try {
    require_supported(plan, lower(plan), *make_cpu_backend());
    FAIL("a run would have read rows that nobody wrote");
  } catch (const InfeasibleError& e) {
    CHECK(e.problems().front().field == "stack");
    CHECK(e.problems().front().remedy == "use stack tandem");
  }
}
