// Options that frameworks have off by default and that a search gives, and since when.

#include "models/stack/stack_switches.hpp"

#include <functional>

#include "tests/catch.hpp"

using namespace tandem;

namespace {

using Fields = std::set<std::string>;

Plan draft(const std::string& stack, const char* as_of) {
  Plan plan;
  plan.stack.name = stack;
  plan.stack.as_of = parse_month(as_of).value();
  plan.cluster.generation = "hopper";
  plan.parallel.tensor = 2, plan.parallel.data = 2, plan.parallel.zero_stage = 1;
  plan.parallel.sequence_parallel = true;
  return plan;
}

/// The fields that are turned on in a draft that says nothing of them, or says those of `given`.
Fields on(Plan plan, Given given = {}) {
  const Given before = given;
  StackSwitches(plan).turn_on(plan, given);
  Fields out;
  for (const std::string& field : given)
    if (before.count(field) == 0) out.insert(field);
  CHECK(plan.parallel.overlap_grad_reduce == (out.count("parallel.overlap_grad_reduce") > 0));
  CHECK(plan.parallel.overlap_param_gather == (out.count("parallel.overlap_param_gather") > 0));
  CHECK(plan.parallel.tensor_overlap == (out.count("parallel.tensor_overlap") > 0));
  return out;
}

const std::string kReduce = "parallel.overlap_grad_reduce", kGather = "parallel.overlap_param_gather", kTensor = "parallel.tensor_overlap";
const std::string kFlash = "training.flash_attention";

}  // namespace

TEST_CASE("Megatron-LM has its three overlaps since September, October and November 2023, and others have none") {
  CHECK(on(draft("megatron-core", "2023-08")).empty());
  CHECK(on(draft("megatron-core", "2023-09")) == Fields{kReduce});
  CHECK(on(draft("megatron-core", "2023-10")) == Fields{kReduce, kTensor});
  CHECK(on(draft("megatron-core", "2023-11")) == Fields{kReduce, kTensor, kGather});
  CHECK(on(draft("nemo", "2025-06")) == Fields{kReduce, kTensor, kGather});
  for (const char* stack : {"tandem", "pytorch-fsdp", "torchtitan", "deepspeed-bert", "jax"})
    CHECK(on(draft(stack, "2026-01")).empty());
}

TEST_CASE("An overlap is turned on only where Megatron-LM's own checks accept it and there is something to overlap") {
  const auto with = [](const std::function<void(Plan&)>& change) {
    Plan plan = draft("megatron-core", "2026-01");
    change(plan);
    return on(plan);
  };
  CHECK(with([](Plan& p) { p.parallel.sequence_parallel = false; }) == Fields{kReduce, kGather});
  CHECK(with([](Plan& p) { p.parallel.tensor = 1; }) == Fields{kReduce, kGather});
  CHECK(with([](Plan& p) { p.training.deterministic = true; }) == Fields{kReduce, kGather});
  CHECK(with([](Plan& p) { p.parallel.zero_stage = 0; }) == Fields{kReduce, kTensor});
  CHECK(with([](Plan& p) { p.parallel.data = 1; }) == Fields{kTensor});
  CHECK(with([](Plan& p) { p.parallel.data = 1, p.parallel.context = 2; }) == Fields{kReduce, kGather, kTensor});
  CHECK(with([](Plan& p) { p.cluster.generation = "cdna3"; }) == Fields{kReduce, kGather});
  CHECK(with([](Plan& p) { p.cluster.generation = "ampere"; }) == Fields{kReduce, kGather, kTensor});  // NVIDIA has buffers for A100
  CHECK(on(draft("megatron-core", "2026-01"), {kReduce}) == Fields{kTensor});  // the plan says that reductions are not overlapped
}

TEST_CASE("DeepSpeed overlaps reductions of its ZeRO optimizer, which bf16 has since 2023 and pipelines and Gaudi's script go without") {
  const auto with = [](const char* as_of, const std::function<void(Plan&)>& change) {
    Plan plan = draft("megatron-deepspeed", as_of);
    plan.cluster.generation = "ampere", plan.training.precision = "bf16";
    change(plan);
    return on(plan, {kFlash});
  };
  CHECK(with("2024-01", [](Plan&) {}) == Fields{kReduce});
  CHECK(with("2024-01", [](Plan& p) { p.parallel.zero_stage = 2; }) == Fields{kReduce});
  CHECK(with("2024-01", [](Plan& p) { p.parallel.data = 1, p.parallel.context = 8; }) == Fields{kReduce});
  CHECK(with("2024-01", [](Plan& p) { p.parallel.zero_stage = 0; }).empty());
  CHECK(with("2024-01", [](Plan& p) { p.parallel.pipeline = 2; }).empty());
  CHECK(with("2024-01", [](Plan& p) { p.parallel.data = 1; }).empty());
  CHECK(with("2024-01", [](Plan& p) { p.cluster.generation = "gaudi2"; }).empty());
  CHECK(with("2023-01", [](Plan&) {}).empty());
  CHECK(with("2023-01", [](Plan& p) { p.training.precision = "fp16"; }) == Fields{kReduce});
  CHECK(with("2021-05", [](Plan& p) { p.training.precision = "fp16"; }).empty());
}

TEST_CASE("FlashAttention is turned on where a framework and its device have it and the framework leaves it off") {
  const auto flash = [](const char* stack, const char* as_of, const std::function<void(Plan&)>& change) {
    Plan plan = draft(stack, as_of);
    change(plan);
    return on(plan).count(kFlash) > 0;
  };
  const auto keep = [](Plan&) {};
  CHECK(flash("megatron-deepspeed", "2024-01", keep));
  CHECK_FALSE(flash("megatron-deepspeed", "2023-08", keep));
  CHECK(flash("megatron-deepspeed", "2024-01", [](Plan& p) { p.cluster.generation = "ampere"; }));
  CHECK_FALSE(flash("megatron-deepspeed", "2024-01", [](Plan& p) { p.cluster.generation = "volta"; }));
  CHECK_FALSE(flash("megatron-deepspeed", "2024-01", [](Plan& p) { p.training.precision = "fp32"; }));
  CHECK_FALSE(flash("megatron-deepspeed", "2024-01", [](Plan& p) { p.model.position_embedding = PositionEmbedding::alibi; }));
  CHECK(flash("megatron-deepspeed", "2024-01", [](Plan& p) { p.cluster.generation = "cdna2"; }));
  CHECK_FALSE(flash("megatron-deepspeed", "2023-12", [](Plan& p) { p.cluster.generation = "cdna2"; }));
  CHECK(flash("neuronx", "2025-05", [](Plan& p) { p.cluster.generation = "trainium2"; }));
  CHECK_FALSE(flash("neuronx", "2024-08", [](Plan& p) { p.cluster.generation = "trainium2"; }));
  CHECK_FALSE(flash("megatron-core", "2026-01", keep));  // on anyway
}
