// Under sequence parallelism a tensor rank routes its own rows: what experts drop then, and what travels to them and back.

#include <nlohmann/json.hpp>

#include "tests/agree/closeness.hpp"
#include "tests/agree/layouts.hpp"
#include "tests/agree/ledger.hpp"
#include "tests/backends.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

constexpr std::int64_t kSequences = 8, kHidden = 24, kLength = 8, kChoices = 2;
constexpr int kSteps = 2;

struct Layout {
  std::int64_t tensor = 1, data = 1, expert = 1, micro_batch = 1, shared = 0;
  double capacity = 0;
  bool sequence_parallel = true;
  std::string recompute = "none";
};

Plan plan_of(const Layout& l) {
  json plan = {
      {"model",
       {{"family", "llama"}, {"num_layers", 2}, {"hidden_size", kHidden}, {"num_attention_heads", 4}, {"num_kv_heads", 2},
        {"ffn_hidden_size", 40}, {"vocab_size", 37}, {"pad_vocab_to", 16},
        {"moe", {{"num_experts", 4}, {"experts_per_token", kChoices}, {"ffn_hidden_size", 16}, {"num_shared_experts", l.shared},
                 {"capacity_factor", l.capacity}, {"rows_bound", 4}}}}},
      {"parallel",
       {{"tensor", l.tensor}, {"data", l.data}, {"expert", l.expert}, {"sequence_parallel", l.tensor > 1 && l.sequence_parallel}}},
      {"training",
       {{"seq_length", kLength}, {"micro_batch_size", l.micro_batch}, {"global_batch_size", kSequences}, {"precision", "fp64"},
        {"clip_grad", 0.5}, {"recompute", l.recompute}}},
      {"cluster", {{"preset", "cpu-host"}, {"devices", l.tensor * l.data}}}};
  if (l.recompute == "selective") plan["training"]["recompute_modules"] = {"moe"};
  return parse_plan(plan.dump(), "shares.json");
}

/// Received bytes over all ranks of a step, by kind and group.
std::int64_t received(const exec::RunResult& run, CollectiveKind kind, Group group) {
  std::int64_t sum = 0;
  for (const exec::RankBooks& b : run.ranks)
    if (const auto at = b.comm.collectives.find({kind, group}); at != b.comm.collectives.end()) sum += at->second.received_bytes;
  return sum;
}

}  // namespace

TEST_CASE("tensor ranks with a sequence each drop what ranks with as many tokens drop") {
  // Rows are ordered (sequence, position): with as many sequences as tensor ranks each of them routes one sequence.
  for (const std::int64_t shared : {0, 1}) {
    const exec::RunResult one = tests::train(plan_of({1, 1, 1, 1, shared, 1}), kSteps);
    const exec::RunResult whole = tests::train(plan_of({1, 1, 1, 1, shared, 4}), kSteps);
    CHECK(tests::gradient_error(whole, one) > 1e-3);  // else nothing was dropped
    for (const Layout& l : {Layout{2, 1, 1, 2, shared, 1}, Layout{2, 2, 2, 2, shared, 1}, Layout{4, 2, 2, 4, shared, 1},
                            Layout{2, 1, 1, 2, shared, 1, true, "selective"}, Layout{2, 2, 2, 2, shared, 1, true, "full"}}) {
      INFO("tp" << l.tensor << " dp" << l.data << " ep" << l.expert << " shared " << l.shared << " recompute " << l.recompute);
      const Plan plan = plan_of(l);
      tests::check_trains_like(one, plan);
    }
  }
}

TEST_CASE("groups of data ranks that have every expert once share out the states of all else") {
  const exec::RunResult one = tests::train(plan_of({1, 1, 1}), kSteps);
  Plan plan = plan_of({1, 4, 2});
  plan.parallel.zero_stage = 1;
  plan.parallel.zero_group = 2;
  require_lowerable(plan);
  tests::check_trains_like(one, plan);
}

TEST_CASE("a rank sends experts a share of what it sends without sequence parallelism") {
  // Choices are received four times a layer (dispatched, returned, and their gradients), but for those of a rank's own experts.
  const auto sent = [](std::int64_t tensor, bool sequence_parallel) {
    exec::RunOptions options = tests::run_options();
    const Plan plan = plan_of({tensor, 4, 4, 1, 0, 2, sequence_parallel});
    return received(exec::run(plan, lower(plan), tests::HashTokens(plan.model.vocab_size), options), CollectiveKind::all_to_all,
                    Group::expert);
  };
  // With room for every choice an expert has a row for each token.
  const std::int64_t layers = 2, rows = kSequences * kLength * 4, once = layers * 4 * rows * kHidden * 8;
  CHECK(sent(1, true) == once * 3 / 4);
  for (const std::int64_t t : {2, 4}) {
    CHECK(sent(t, false) == t * sent(1, true));
    CHECK(sent(t, true) == sent(1, true));
  }
}
