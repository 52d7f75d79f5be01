// Activations in the host's memory (parallel.offload.activations): the same numbers as without, bit for bit, and less of the device.

#include "models/graph/host_activations.hpp"
#include "tests/agree/closeness.hpp"
#include "tests/agree/features.hpp"
#include "tests/agree/layouts.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using exec::RunResult;
using tests::check_equal;
using tests::HashTokens;

namespace {

constexpr std::int64_t kSteps = 2, kMicroBatches = 6;

const char* const kModels[] = {
    "{}",
    R"({"model": {"family": "llama", "num_kv_heads": 2}, "training": {"flash_attention": true}})",
    R"({"model": {"family": "llama", "head_dim": 10, "value_dim": 7, "latent": {"kv_rank": 5, "query_rank": 9, "rotary_dim": 4}}})",
    R"({"model": {"family": "bert", "vocab_size": 38}})",
    R"({"model": {"family": "llama", "num_kv_heads": 2, "norm_placement": "sandwich", "qk_norm": "head"}})",
    R"({"model": {"family": "llama", "num_kv_heads": 1, "qk_norm": "head", "attention_gate": true,
                  "recurrence": {"heads": 8, "key_heads": 4, "key_dim": 3, "value_dim": 5, "conv_width": 3, "layers": "ra"}}})",
    R"({"model": {"family": "llama", "num_kv_heads": 2, "mtp": {"num_layers": 1, "loss_scale": 0.4}}})",
    R"({"model": {"family": "llama", "num_kv_heads": 2, "moe": {"num_experts": 4, "experts_per_token": 2, "ffn_hidden_size": 16,
                  "num_shared_experts": 1, "shared_gate": true, "first_dense_layers": 1, "aux_loss": 0.02}}})",
    R"({"model": {"family": "llama", "num_kv_heads": 2}, "training": {"lora": {"rank": 3, "alpha": 6}}})",
};

const char* const kLayouts[] = {
    R"({"parallel": {"tensor": 1}})",
    R"({"parallel": {"pipeline": 2}})",
    R"({"parallel": {"pipeline": 2, "virtual_pipeline": 2, "schedule": "interleaved"}})",
    R"({"parallel": {"pipeline": 4, "overlap_p2p": false}})",
    R"({"parallel": {"pipeline": 2, "schedule": "gpipe", "tensor": 2}})",
    R"({"parallel": {"tensor": 2, "sequence_parallel": true, "tensor_overlap": true, "pipeline": 2}})",
    R"({"parallel": {"data": 2, "zero_stage": 1, "overlap_grad_reduce": true, "bucket_bytes": 2000}})",
    R"({"parallel": {"data": 2, "pipeline": 2, "zero_stage": 3, "overlap_param_gather": true}})",
    R"({"parallel": {"context": 2, "context_mode": "all_gather"}})",
    R"({"parallel": {"data": 2, "pipeline": 2, "expert": 2, "overlap_experts": true}})",
};

const char* const kRecompute[] = {
    R"({"training": {"recompute": "none"}})",
    R"({"training": {"recompute": "selective", "recompute_modules": ["core_attention", "norm"]}})",
    R"({"training": {"recompute": "full"}})",
    R"({"training": {"recompute": "full", "recompute_layers": 1}})",
};

const char* const kActivations[] = {
    R"({"activations": ["all"]})",
    R"({"activations": ["all"], "layers": 1})",
    R"({"activations": ["attention_norm", "core_attention", "projection"]})",
    R"({"activations": ["attention_norm", "qkv", "mlp_norm", "moe"]})",
};

/// Nothing if the plan is refused, as layouts of some models are.
std::optional<Plan> plan_of(const std::vector<std::string>& patches, const std::string& offload,
                            std::int64_t micro_batches = kMicroBatches) {
  std::vector<std::string> all = patches;
  all.push_back(R"({"parallel": {"offload": )" + offload + "}}");
  try {
    return parse_plan(tests::small_json(all, micro_batches), "offload");
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

RunResult trained(const Plan& plan, exec::RunOptions options) {
  options.steps = kSteps;
  options.gather_gradients = options.gather_weights = true;
  const std::int64_t words = plan.model.vocab_size - (plan.model.family == Family::bert ? 1 : 0);
  return exec::run(plan, lower(plan), HashTokens(words), options);
}

struct Memories {
  std::int64_t arena = 0, live = 0, host = 0;  ///< of all stages
};

Memories memories(const TaskGraph& graph) {
  Memories sum;
  for (const Program& p : graph.programs) {
    sum.arena += p.memory.arena_bytes.count();
    sum.live += p.memory.live_peak_bytes.count();
    sum.host += HostActivations(graph, p).bytes().count();
  }
  return sum;
}

bool is_copy(const Task& t) { return std::holds_alternative<HostCopy>(t.op); }

/// Without what tasks of other streams wait for copies for, or without what copies wait for.
TaskGraph without_waits(TaskGraph graph, bool of_copies) {
  const auto gone = [&](const Task& from, const Task& to) { return from.stream != to.stream && is_copy(of_copies ? to : from); };
  for (Program& p : graph.programs)
    std::erase_if(p.edges, [&](const Edge& e) {
      return gone(graph.of(p.instances[e.from_instance]).tasks[e.from_task], graph.of(p.instances[e.to_instance]).tasks[e.to_task]);
    });
  return graph;
}

}  // namespace

TEST_CASE("Offloaded activations train to the same bits") {
  std::size_t models = 0, plans = 0, compared = 0;
  for (const char* model : kModels)
    for (std::size_t l = models++ % 2; l < std::size(kLayouts); l += 2)
      for (const char* recompute : kRecompute) {
        const auto plain = plan_of({model, kLayouts[l], recompute}, "{}");
        if (!plain) continue;
        const RunResult expected = trained(*plain, tests::run_options());
        for (std::size_t o = plans++ / 2 % 2; o < std::size(kActivations); o += 2) {
          const char* offload = kActivations[o];
          INFO(model << " " << kLayouts[l] << " " << recompute << " " << offload);
          const auto plan = plan_of({model, kLayouts[l], recompute}, offload);
          if (!plan) continue;
          lower(*plan).check();
          check_equal(trained(*plan, tests::run_options()), expected);
          ++compared;
        }
      }
  CHECK(compared > 200);
}

TEST_CASE("Offloaded activations train to the same bits on queues that are delayed at random") {
  for (const char* layout : kLayouts)
    for (const char* recompute : {kRecompute[0], kRecompute[2]}) {
      const auto plain = plan_of({kModels[7], layout, recompute}, "{}");
      const auto plan = plan_of({kModels[7], layout, recompute}, kActivations[0]);
      if (!plain || !plan) continue;
      const RunResult expected = trained(*plain, {});
      for (const std::uint64_t seed : {1u, 2u, 3u}) {
        INFO(layout << " " << recompute << " seed " << seed);
        check_equal(trained(*plan, tests::delayed_options(seed)), expected);
      }
    }
}

TEST_CASE("Without the waits for copies of activations, or of these copies, delayed queues give other bits") {
  const auto plan = plan_of({kModels[1], kLayouts[1], kRecompute[0]}, kActivations[0]);
  REQUIRE(plan);
  const TaskGraph graph = lower(*plan);
  const auto losses = [&](const TaskGraph& g, std::uint64_t seed) {
    exec::RunOptions options = tests::delayed_options(seed);
    options.steps = kSteps;
    std::vector<double> all;
    for (const auto& step : exec::run(*plan, g, HashTokens(plan->model.vocab_size), options).steps)
      all.insert(all.end(), {step.loss, step.grad_norm});
    return all;
  };
  const std::vector<double> expected = losses(graph, 0);
  for (const bool of_copies : {false, true}) {
    INFO("of copies " << of_copies);
    const TaskGraph broken = without_waits(graph, of_copies);
    bool shown = false;
    for (std::uint64_t seed = 1; seed <= 20 && !shown; ++seed) shown = losses(broken, seed) != expected;
    CHECK(shown);
  }
}

TEST_CASE("Offloaded activations are in the host's memory and not in the device's") {
  for (const std::size_t layout : {0u, 1u, 2u, 4u}) {
    INFO(kLayouts[layout]);
    const std::string deep = R"({"model": {"num_layers": 16}})";
    const auto plain = plan_of({kModels[1], deep, kLayouts[layout]}, "{}");
    const auto plan = plan_of({kModels[1], deep, kLayouts[layout]}, kActivations[0]);
    REQUIRE((plain && plan));
    const Memories without = memories(lower(*plain)), with = memories(lower(*plan));
    CHECK(without.host == 0);
    CHECK(with.host > 0);
    CHECK(with.arena < without.arena);
    CHECK(with.live < without.live);
    std::int64_t host = 0;
    for (const exec::RankBooks& rank : trained(*plan, tests::run_options()).ranks) host = std::max(host, rank.host_arena_bytes);
    CHECK(host > 0);
    CHECK(host <= with.host);
  }
}

TEST_CASE("Micro-batches that repeat are copied as they would be lowered, with offloaded activations too") {
  for (const char* layout : kLayouts) {
    INFO(layout);
    const auto plan = plan_of({kModels[1], layout}, kActivations[0], 24);
    if (!plan) continue;
    const TaskGraph copied = lower(*plan), whole = lower_every_pass(*plan);
    for (std::size_t s = 0; s < copied.programs.size(); ++s) {
      const Program &a = copied.programs[s], &b = whole.programs[s];
      CHECK((a.bindings == b.bindings));
      CHECK(a.instances.size() == b.instances.size());
      CHECK(a.edges.size() == b.edges.size());
      CHECK(a.memory.arena_bytes == b.memory.arena_bytes);
      CHECK(a.memory.live_peak_bytes == b.memory.live_peak_bytes);
    }
  }
}
