// What DualPipeV is for: a forward and a backward pass at once take less than both, because experts' exchanges of one run beside the other.
#include "models/graph/task_graph.hpp"
#include "models/plan/mesh.hpp"
#include "sim/engine/simulate_step.hpp"
#include "tests/catch.hpp"
#include "tests/sim/engine/fakes.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;

namespace {

constexpr std::int64_t kStages = 2, kHidden = 4;

/// A layer's attention takes `pass` in each direction, and the weight gradient of queries, keys and values takes as long. Each exchange
/// of experts' rows takes `exchange`. All else takes no time.
class PairCost : public FakeCost {
 public:
  PairCost(std::int64_t pass, std::int64_t exchange)
      : pass_(Duration::picoseconds(pass)), exchange_(Duration::picoseconds(exchange)) {}
  Duration duration(const Op& op, DType) const override {
    const auto* product = std::get_if<MatMul>(&op);
    const bool weight = product && product->trans_a && product->m == 3 * kHidden;
    const bool attention = std::holds_alternative<AttentionSoftmax>(op) || std::holds_alternative<AttentionSoftmaxBackward>(op);
    return weight || attention ? pass_ : Duration{};
  }
  std::optional<Duration> communication(const Op& op, std::int64_t) const override {
    const auto* c = std::get_if<Collective>(&op);
    if (c == nullptr) return std::nullopt;
    return c->kind == CollectiveKind::all_to_all && c->dtype != DType::int32 ? exchange_ : Duration{};
  }

 private:
  Duration pass_, exchange_;
};

std::int64_t step(std::int64_t micro_batches, bool pairs, const PairCost& cost) {
  const Plan plan = parse_plan(R"({"stack": "tandem", "model": {"num_layers": 8, "hidden_size": )" + std::to_string(kHidden) + R"(,
      "num_attention_heads": 2, "ffn_hidden_size": 5, "vocab_size": 7, "moe": {"num_experts": 2, "ffn_hidden_size": 5}},
      "parallel": {"pipeline": )" + std::to_string(kStages) + R"(, "data": 2, "expert": 2, "schedule": "dualpipe-v", "overlap_experts": )" +
                                   (pairs ? "true" : "false") + R"(},
      "training": {"seq_length": 2, "micro_batch_size": 1, "global_batch_size": )" + std::to_string(2 * micro_batches) +
                                   R"(, "precision": "fp32"}, "cluster": {"preset": "cpu-host", "devices": 4}})",
                               "pairs.json");
  Shape shape;
  shape.devices = 2 * kStages;
  shape.bandwidth = Bandwidth::bytes_per_second(1e16);
  const FakeTopology topology(shape);
  return sim::simulate_step({lower(plan), make_mesh(plan), topology, cost}).step_time.ps();
}

/// What a micro-batch more takes, by layer of a stage.
std::int64_t a_layer(bool pairs, const PairCost& cost) {
  constexpr std::int64_t kFew = 8, kMany = 24, kLayersOfStage = 4;
  return (step(kMany, pairs, cost) - step(kFew, pairs, cost)) / ((kMany - kFew) * kLayersOfStage);
}

}  // namespace

TEST_CASE("a pair of DualPipeV's passes hides half at least of what experts' exchanges or computations take, whichever are shorter") {
  constexpr std::int64_t kPass = 1000;
  for (const std::int64_t exchange : {250, 1000, 4000}) {
    CAPTURE(exchange);
    const PairCost cost(kPass, exchange);
    const std::int64_t compute = 3 * kPass, exchanges = 4 * exchange;  // two each way
    const std::int64_t apart = a_layer(false, cost), at_once = a_layer(true, cost);
    CHECK(apart == compute + exchanges);
    CHECK(at_once >= std::max(compute, exchanges));
    CHECK(apart - at_once >= std::min(compute, exchanges) / 2);
  }
}
