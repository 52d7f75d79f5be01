// Ranks over NCCL, a thread for each process: the bits of ranks that share a device, and an end to every wait when a rank fails.

#include <algorithm>
#include <mutex>

#include "exec/nccl/nccl.hpp"
#include "tests/catch.hpp"
#include "tests/exec/communicator/on_ranks.hpp"
#include "tests/exec/process/mail_carrier.hpp"
#include "tests/hostcuda/plans.hpp"
#include "tests/hostcuda/trained.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

/// What process 0 has trained; `errors`: what each process ended with.
struct Ended {
  exec::RunResult result;
  std::vector<std::string> errors;
};

/// Ends its rank when the second step's tokens are wanted.
class LostTokens final : public HashTokens {
 public:
  LostTokens(std::int64_t vocab, std::int64_t batch) : HashTokens(vocab), batch_(batch) {}
  void sequence(std::int64_t index, std::span<std::int32_t> tokens) const override {
    if (index >= batch_) throw DeviceError("a rank's device is lost");
    HashTokens::sequence(index, tokens);
  }

 private:
  std::int64_t batch_;
};

/// Trains with a process for each rank. The process `lost` fails in its second step.
Ended over_nccl(const Plan& plan, bool deterministic, int lost = -1) {
  const auto ranks = static_cast<int>(make_mesh(plan).world_size());
  const auto ways = exec::tests::make_ways(ranks);
  Ended ended;
  ended.errors = exec::tests::on_ranks(ranks, [&](int p) {
    exec::World world(std::make_unique<exec::tests::MailCarrier>(ways, p), {});
    world.place(ranks);
    exec::RunOptions options = gathering(2, [&](Rank) { return exec::make_cuda_backend({deterministic, nullptr}); });
    options.make_communicators = [&](exec::World& w) { return exec::make_nccl_communicators(w, {deterministic}); };
    GraphCache graphs(plan);
    const HashTokens whole(plan.model.vocab_size);
    const LostTokens partial(plan.model.vocab_size, plan.training.global_batch_size);
    try {
      const exec::TokenSource& tokens = p == lost ? static_cast<const exec::TokenSource&>(partial) : whole;
      exec::RunResult result = exec::run(graphs, tokens, options, world);
      if (p == 0) ended.result = std::move(result);
    } catch (const DeviceError& e) {
      world.leave(1);
      throw CommError(e.what());
    } catch (const CommError&) {
      world.leave(1);
      throw;
    }
    world.leave(0);
  });
  return ended;
}

Plan nccl_plan(const std::string& patch, bool deterministic) {
  const std::string training = std::string(R"({"training": {"deterministic": )") + (deterministic ? "true" : "false") + "}}";
  return parse_plan(small_json({patch, training, R"({"training": {"precision": "fp32"}})"}, 4), "nccl.json");
}

const char* const kLayouts[] = {
    R"({"parallel": {"data": 3, "zero_stage": 2, "overlap_grad_reduce": true, "bucket_bytes": 2000}})",
    R"({"parallel": {"data": 2, "zero_stage": 3, "overlap_param_gather": true, "pipeline": 2}})",
    R"({"parallel": {"tensor": 2, "sequence_parallel": true, "pipeline": 2}})",
    R"({"parallel": {"pipeline": 3}, "model": {"num_layers": 3}})",
    R"({"model": {"moe": {"num_experts": 4, "experts_per_token": 2, "ffn_hidden_size": 16, "rows_bound": 4}},
        "parallel": {"data": 2, "expert": 2}})",
    R"({"model": {"family": "llama", "num_kv_heads": 2}, "parallel": {"context": 2, "context_mode": "ulysses"}})",
};

}  // namespace

TEST_CASE("ranks over NCCL give the bits of ranks that share a device, in deterministic mode", "[hostcuda]") {
  for (const char* layout : kLayouts) {
    INFO(layout);
    const Plan plan = nccl_plan(layout, true);
    const Ended ended = over_nccl(plan, true);
    REQUIRE(std::all_of(ended.errors.begin(), ended.errors.end(), [](const std::string& e) { return e.empty(); }));
    CHECK(same(ended.result, on_cuda(plan)));
  }
}

TEST_CASE("sums by NCCL itself differ from Tandem's by rounding only", "[hostcuda]") {
  for (const char* layout : kLayouts) {
    INFO(layout);
    const Plan plan = nccl_plan(layout, false);
    const Ended ended = over_nccl(plan, false);
    CHECK(ended.errors == std::vector<std::string>(ended.errors.size()));
    const exec::RunResult shared = on_cuda(plan);
    CHECK(loss_error(ended.result, shared) <= 1e-5);
    CHECK(gradient_error(ended.result, shared) <= 1e-4);
  }
}

TEST_CASE("the failure of one rank ends the waits of all in NCCL, and each process says why", "[hostcuda]") {
  for (const char* layout : {R"({"parallel": {"data": 3, "zero_stage": 2}})", R"({"parallel": {"pipeline": 3}, "model": {"num_layers": 3}})"}) {
    INFO(layout);
    const Ended ended = over_nccl(nccl_plan(layout, true), true, 0);
    for (const std::string& e : ended.errors) CHECK_THAT(e, Catch::Contains("a rank's device is lost"));
  }
}
