// The modules that frameworks compute again by name, and since when.

#include "models/stack/stack_modules.hpp"

#include "models/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/odd_stack.hpp"
#include "tests/stacks.hpp"

using namespace tandem;

namespace {

using Modules = std::set<std::string>;

Modules modules_of(const std::string& stack, const char* as_of, const ModelSpec& model = {}) {
  Plan plan;
  plan.model = model;
  plan.stack.name = stack;
  plan.stack.as_of = parse_month(as_of).value();
  return stack_modules(plan);
}

}  // namespace

TEST_CASE("Megatron-LM names attention since May 2022 and modules since April 2025, torchtitan operations, and PyTorch nothing") {
  const Modules named{"core_attention", "mlp", "moe", "moe_activation", "mla_up_proj"};
  CHECK(modules_of("megatron-core", "2022-04").empty());
  CHECK(modules_of("megatron-core", "2025-03") == Modules{"core_attention"});
  CHECK(modules_of("megatron-core", "2025-04") == named);
  CHECK(modules_of("nemo", "2025-04") == named);
  CHECK(modules_of("torchtitan", "2025-08") == Modules{"operations"});
  CHECK(modules_of("maxtext", "2026-08") == Modules{"operations"});
  CHECK(modules_of("pytorch-fsdp", "2026-03").empty());
}

TEST_CASE("Megatron-LM recomputes shared experts since August 2025, and norms where they are modules of their own") {
  ModelSpec latent, experts;
  latent.latent.kv_rank = 8;
  experts.moe.num_experts = 4;
  CHECK_FALSE(modules_of("megatron-core", "2025-07").contains("shared_experts"));
  CHECK(modules_of("megatron-core", "2025-08").contains("shared_experts"));
  CHECK_FALSE(modules_of("megatron-core", "2025-08").contains("norm"));
  CHECK(modules_of("megatron-core", "2025-08", latent).contains("norm"));
  CHECK(modules_of("megatron-core", "2025-08", experts).contains("norm"));
  CHECK(modules_of("tandem", "2025-08").contains("norm"));
}

TEST_CASE("A stack that names a module which no plan has is refused by its value") {
  const auto modules = [] { return modules_of("odd", "2026-01"); };
  for (const char* list : {R"(["norms"])", R"("norm")", "[1]"})
    tests::check_refused("recompute_modules", R"([{"modules": )" + std::string(list) + R"(, "source": "s", "verified": true}])", "modules ", modules);
}
