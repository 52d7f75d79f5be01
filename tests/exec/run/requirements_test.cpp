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

TEST_CASE("recurrences and gates of attention's output are refused by their field on CUDA, and have kernels on CPUs") {
  const auto check = [](const std::string& model, const std::string& field, const std::string& lacks) {
    const Plan plan = tests::patched_plan(tests::SmallPlan{}, R"({"model": {"family": "llama", )" + model + "}}");
    CHECK_NOTHROW(require_supported(plan, lower(plan), *make_cpu_backend()));
    try {
      require_supported(plan, lower(plan), Device(true));
      FAIL("a device had kernels of " + field);
    } catch (const InfeasibleError& e) {
      CHECK(e.problems().front().field == field);
      CHECK(e.problems().front().reason == "the cuda backend has no kernels " + lacks);
    }
  };
  for (const char* rule : {"gated_delta", "mamba2"})
    check(R"("recurrence": {"heads": 4, "key_dim": 4, "value_dim": 4, "rule": ")" + std::string(rule) + "\"}", "model.recurrence.heads",
          "of a recurrence");
  check(R"("attention_gate": true)", "model.attention_gate", "of a gate of attention's output");
}

TEST_CASE("a product in blocks of columns is refused by CUDA's kernels") {
  MatMul product{8, 8, 8, false, true};
  CHECK(Device(true).supports(product, {DType::fp32, {}, {}}).possible);
  product.blocks = {4, 2};
  CHECK(Device(true).supports(product, {DType::fp32, {}, {}}).reason == "matmul of a matrix in blocks of columns");
  CHECK_FALSE(Device(true).supports(BiasGrad{8, 8, {4, 2}}, {DType::fp32, {}, {}}).possible);
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
