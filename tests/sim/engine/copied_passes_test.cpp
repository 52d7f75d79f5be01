// Copied micro-batches are what would have been written: every number of a program is the same.

#include <map>
#include <tuple>

#include "tests/catch.hpp"
#include "tests/sim/engine/random_plans.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;

namespace {

auto fields(const Instance& i) { return std::tuple(i.tmpl, i.layer, i.micro_batch, i.chunk, i.phase, i.binding); }
auto fields(const Edge& e) { return std::tuple(e.from_instance, e.to_instance, e.from_task, e.to_task, e.kind); }
auto fields(const Allocation& a) { return std::tuple(a.name, a.kind, a.offset, a.bytes, a.first, a.last, a.pool); }

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const T& x, const T& y) { return fields(x) == fields(y); });
}

void check_same(const Program& a, const Program& b) {
  CHECK(same(a.instances, b.instances));
  CHECK(a.bindings == b.bindings);
  CHECK(same(a.edges, b.edges));
  const MemoryPlan &m = a.memory, &n = b.memory;
  CHECK(same(m.allocations, n.allocations));
  CHECK(m.arena_bytes == n.arena_bytes);
  CHECK(m.live_peak_bytes == n.live_peak_bytes);
  CHECK(m.live_at_peak == n.live_at_peak);
  CHECK(m.cached_bytes == n.cached_bytes);
  CHECK(m.pooled_bytes == n.pooled_bytes);
}

/// Instances, and how many of them were copied.
struct Copied {
  std::int64_t instances = 0, copied = 0;
};

Copied check_copies(const Plan& plan) {
  const TaskGraph copied = lower(plan), written = lower_every_pass(plan);
  REQUIRE(copied.programs.size() == written.programs.size());
  Copied sum;
  for (std::size_t s = 0; s < copied.programs.size(); ++s) {
    INFO("stage " << s);
    check_same(copied.programs[s], written.programs[s]);
    CHECK(written.programs[s].copied == 0);
    sum.instances += static_cast<std::int64_t>(copied.programs[s].instances.size());
    sum.copied += copied.programs[s].copied;
  }
  return sum;
}

Plan with_micro_batches(Plan plan, std::int64_t n) {
  plan.training.global_batch_size = plan.training.micro_batch_size * plan.parallel.data * n;
  return plan;
}

}  // namespace

TEST_CASE("copied micro-batches are what would have been written") {
  sim::test::PlanGenerator plans(20261123, 32);
  std::map<std::string, Copied> of;  // by schedule
  for (int i = 0; i < 400; ++i) {
    const Plan plan = plans.next().plan;
    const std::int64_t n = plan.parallel.pipeline * (8 + i % 7);
    const Plan longer = with_micro_batches(plan, n);
    INFO(to_json(longer));
    const Copied c = check_copies(longer);
    if (plan.parallel.zero_stage > 1) {
      CHECK(c.copied == 0);
      continue;
    }
    Copied& all = of[std::string(name(plan.parallel.schedule))];
    all.instances += c.instances;
    all.copied += c.copied;
  }
  for (const auto& [schedule, c] : of) {
    INFO(schedule << ": " << c.copied << " of " << c.instances);
    const bool forwards_first = schedule == "gpipe" || schedule == "breadth-first";
    if (!forwards_first) CHECK(3 * c.copied > c.instances);
  }
}

TEST_CASE("copied micro-batches of chunks in a V are what would have been written, of passes alone and of pairs") {
  const std::string schedule = GENERATE("dualpipe-v", "zb-v", "v-half", "v-min");
  const auto n = [](std::int64_t v) { return std::to_string(v); };
  for (const std::int64_t p : {2, 3, 4})
    for (const bool pairs : {false, true})
      for (const char* recompute : {"none", "full"}) {
        if (pairs && schedule != "dualpipe-v") continue;
        CAPTURE(schedule, p, pairs, recompute);
        const std::string experts = R"(, "moe": {"num_experts": 4, "ffn_hidden_size": 64, "capacity_factor": 1.5})";
        const Plan plan = parse_plan(
            R"({"stack": "tandem", "model": {"num_layers": )" + n(4 * p) + R"(, "hidden_size": 64, "num_attention_heads": 4,
                "vocab_size": 100)" + (pairs ? experts : "") + R"(},
                "parallel": {"pipeline": )" + n(p) + R"(, "data": 2, "zero_stage": 1, "schedule": ")" + schedule + "\"" +
                (pairs ? R"(, "expert": 2, "overlap_experts": true)" : "") + R"(},
                "training": {"seq_length": 32, "micro_batch_size": 1, "global_batch_size": )" + n(2 * 16 * p) +
                R"(, "precision": "bf16", "recompute": ")" + recompute + R"("}, "cluster": {"preset": "dgx-h100", "devices": )" + n(2 * p) + "}}",
            "vee.json");
        const Copied c = check_copies(plan);
        CHECK(3 * c.copied > c.instances);
      }
}
