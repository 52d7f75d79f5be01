// Whose kernel the lowering names for attention on a GPU is whose kernel the queue takes there.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/backend/launch.hpp"
#include "exec/device/works/work.hpp"
#include "models/graph/task_graph.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::exec::test {
namespace {

using nlohmann::json;

json plan_of(const json& model, const json& training) {
  json plan = {{"model", {{"family", "llama"}, {"num_layers", 2}, {"hidden_size", 64}, {"num_attention_heads", 4}, {"vocab_size", 64}}},
               {"training", {{"seq_length", 32}, {"micro_batch_size", 1}, {"global_batch_size", 1}, {"precision", "bf16"},
                             {"flash_attention", true}, {"fusion", "tandem-cuda"}}},
               {"cluster", {{"preset", "dgx-h100"}, {"devices", 1}}},
               {"stack", "tandem"}};
  plan["model"].update(model);
  plan["training"].update(training);
  return plan;
}

/// Operands that are there; nobody reads them.
std::vector<Tensor> operands(std::size_t count, DType type) {
  static std::byte somewhere[64];
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back({somewhere, type, 16});
  return out;
}

/// Why the queue would take an own kernel for a task; empty: a library's.
template <class Kernel>
std::string reason(const Op& op, DType compute, std::size_t inputs, std::size_t outputs, std::size_t stats_in) {
  std::vector<Tensor> in = operands(inputs, compute), out = operands(outputs, compute);
  (stats_in > 0 ? in[stats_in] : out[1]).dtype = DType::fp32;
  static StepTable table;
  KernelContext place;
  place.table = &table;
  place.context_size = 2;
  static const std::int32_t documents[32] = {};
  place.documents = documents, place.seq_length = 32;
  const auto works = device::works_of({op, compute, in, out, place}, {});
  return device::beyond_libraries(std::get<Kernel>(works.at(0)));
}

struct Seen {
  int own = 0, library = 0;
};

Seen check_all(const json& document) {
  const TaskGraph graph = lower(parse_plan(document.dump(), "own.json"));
  Seen seen;
  const auto compare = [&](AttentionKernel named, const std::string& why) {
    INFO(document.dump() << "\n" << why);
    CHECK((named == AttentionKernel::own) == !why.empty());
    ++(why.empty() ? seen.library : seen.own);
  };
  for (const Template& t : graph.templates)
    for (const Task& task : t.tasks) {
      if (const auto* o = std::get_if<FlashAttention>(&task.op))
        compare(o->kernel, reason<device::FlashKernel>(task.op, task.dtype, o->sinks ? 3 : 2, 2, 0));
      if (const auto* o = std::get_if<FlashAttentionBackward>(&task.op))
        compare(o->kernel, reason<device::FlashGradKernels>(task.op, task.dtype, o->sinks ? 6 : 5, o->sinks ? 3 : 2, 4));
    }
  return seen;
}

}  // namespace

TEST_CASE("the lowering names Tandem's kernel of attention where libraries have none") {
  const json none = json::object();
  const auto own = [&](const json& model, const json& training = json::object()) { return check_all(plan_of(model, training)); };
  CHECK(own(none).own == 0);
  CHECK(own(none, {{"precision", "fp16"}}).own == 0);
  CHECK(own(none, {{"dropout", {{"hidden", 0.1}, {"attention", 0.0}}}}).own == 0);
  for (const Seen& all : {own(none, {{"dropout", {{"hidden", 0.0}, {"attention", 0.1}}}}), own(none, {{"precision", "fp32"}}),
                          own({{"position_embedding", "alibi"}}), own({{"head_dim", 20}}), own({{"head_dim", 320}}), own({{"value_dim", 8}}), own({{"window", {{"size", 8}}}}),
                          own({{"attention_soft_cap", 50.0}}), own(none, {{"documents", "separate"}})}) {
    CHECK(all.own >= 2);
    CHECK(all.library == 0);
  }
  for (const char* mode : {"ring", "all_gather", "ulysses"}) {
    json shared = plan_of(none, none);
    shared["parallel"] = {{"context", 2}, {"context_mode", mode}};
    shared["cluster"]["devices"] = 2;
    const Seen seen = check_all(shared);
    CHECK((std::string(mode) == "ring" ? seen.library : seen.own) >= 2);
  }
  json levels = plan_of(none, none);
  levels["parallel"] = {{"context", 4}, {"context_mode", "ring"}, {"ulysses", 2}};
  levels["cluster"]["devices"] = 4;
  CHECK(check_all(levels).own >= 2);
  const Seen mixed = own({{"window", {{"size", 8}, {"layers", "wf"}}}}), sinks = own({{"attention_sinks", true}});
  CHECK(mixed.own >= 2);
  CHECK(mixed.library >= 2);
  CHECK(sinks.own >= 1);
  CHECK(sinks.library >= 1);  // behind a sink only its statistics are read
}

}  // namespace tandem::exec::test
