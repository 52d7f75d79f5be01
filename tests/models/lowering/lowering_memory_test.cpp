// The memory plan against sums and rules written here.

#include "models/graph/task_graph.hpp"
#include "tests/catch.hpp"
#include "tests/models/lowering/memory_case.hpp"
#include "tests/plans.hpp"

using namespace tandem;
using tests::SmallPlan;

namespace {

std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }
/// Layers, the two ends' small parts and the vocabulary's matrices begin at whole blocks of elements.
std::int64_t padded(std::int64_t elements) { return (elements + 63) / 64 * 64; }

/// Bytes of a kind that live for the whole step.
std::int64_t persistent(const Program& p, MemoryKind kind) {
  std::int64_t sum = 0;
  for (const Allocation& a : p.memory.allocations)
    if (a.kind == kind && a.first == 0 && a.last + 1 == p.instances.size()) sum += a.bytes.count();
  return sum;
}

}  // namespace

TEST_CASE("tensors alive at the same time never share bytes, and all lie in the arena") {
  SmallPlan s;
  s.tensor = 2;
  s.pipeline = GENERATE(1, 2, 4);
  s.recompute = GENERATE("none", "full");
  s.micro_batches = 6;
  for (const Program& p : lower(s.plan()).programs) {
    const auto& all = p.memory.allocations;
    for (std::size_t i = 0; i < all.size(); ++i) {
      CHECK(all[i].offset % kArenaAlignment == 0);
      CHECK(all[i].offset + all[i].bytes.count() <= p.memory.arena_bytes.count());
      for (std::size_t j = i + 1; j < all.size(); ++j) {
        const bool together = all[i].first <= all[j].last && all[j].first <= all[i].last;
        const bool share = all[i].offset < all[j].offset + all[j].bytes.count() &&
                           all[j].offset < all[i].offset + all[i].bytes.count();
        if (together && share) FAIL(all[i].name << " and " << all[j].name);
      }
    }
  }
}

TEST_CASE("mixed precision keeps 2 + 4 + 12 bytes a parameter, layers and matrices padded to 64 of them") {
  SmallPlan s;
  s.tied = false;
  s.llama = GENERATE(false, true);
  s.precision = "bf16";
  const TaskGraph graph = lower(s.plan());
  const Program& p = graph.programs[0];
  const std::int64_t n = p.flat_elements;
  const ParameterCount c = count_parameters(s.plan().model, s.plan().padded_vocab_size());
  const std::int64_t word = s.plan().padded_vocab_size() * s.hidden, positions = s.llama ? 0 : s.seq * s.hidden;
  const std::int64_t norm = s.hidden * (s.llama ? 1 : 2);
  REQUIRE(s.layers * c.per_layer + 2 * word + positions + norm == c.total_padded);
  CHECK(n == s.layers * padded(c.per_layer) + 2 * padded(word) + padded(positions) + padded(norm));
  CHECK(persistent(p, MemoryKind::weights) == aligned(2 * n));
  CHECK(persistent(p, MemoryKind::gradients) == aligned(4 * n));
  CHECK(persistent(p, MemoryKind::optimizer) == 3 * aligned(4 * n));
}

TEST_CASE("a stage of 1F1B keeps one micro-batch for every stage from it to the end, one of GPipe all of them") {
  SmallPlan s;
  s.schedule = GENERATE("1f1b", "gpipe");
  s.pipeline = 4;
  s.micro_batches = 8;
  s.recompute = "none";
  const TaskGraph graph = lower(s.plan());
  for (const Program& p : graph.programs) {
    // Saved tensors of a block, counted as alive instance by instance.
    std::int64_t most = 0;
    for (std::uint32_t i = 0; i < p.instances.size(); ++i) {
      std::int64_t alive = 0;
      for (const Allocation& a : p.memory.allocations) alive += a.name == "block_saved" && a.first <= i && i <= a.last;
      most = std::max(most, alive);
    }
    CHECK(most == (s.schedule == "gpipe" ? 8 : 4 - p.stage.value()));
  }
}

TEST_CASE("saved tensors of a block are the published 34 s b h + 5 a s^2 b less the masks, which are drawn again") {
  // arXiv 2205.05198 equation 1 counts, in bytes for 16-bit tensors: 34 sbh + 5 a s^2 b. Of these 2 sbh are the two hidden
  // dropout masks and a s^2 b is the attention mask; masks are functions of the global index here. The layer's input
  // (2 sbh) is the previous layer's output, and row-parallel inputs and gelu are as there. Norm statistics are ours.
  SmallPlan s;
  s.precision = "bf16";
  s.ffn = 4 * s.hidden;
  const TaskGraph graph = lower(s.plan());
  const std::int64_t sbh = std::int64_t(s.seq) * s.micro_batch * s.hidden;
  const std::int64_t as2b = std::int64_t(s.heads) * s.seq * s.seq * s.micro_batch;
  const std::int64_t statistics = 2 * 2 * 4 * s.seq * s.micro_batch;  // fp32
  std::int64_t slot = 0, exact = 0;
  for (const Template& t : graph.templates)
    if (t.name == "block_forward") {
      slot = t.slots.back().bytes.count();
      for (const Task& k : t.tasks)
        for (const Operand& o : k.outputs)
          if (t.slots[o.slot].name == "saved") exact += bytes_of(o.dtype, o.elements).count();
    }
  CHECK(exact == 34 * sbh + 5 * as2b - 2 * sbh - 1 * as2b - 2 * sbh + statistics);
  CHECK(slot >= exact);
  CHECK(slot < exact + 11 * 256);
}

TEST_CASE("full recomputation keeps one hidden state a layer and micro-batch, and one block's tensors at a time") {
  SmallPlan s;
  s.pipeline = 2;
  s.recompute = "full";
  s.micro_batches = 6;
  for (const Program& p : lower(s.plan()).programs)
    for (std::uint32_t i = 0; i < p.instances.size(); ++i) {
      std::int64_t blocks = 0;
      for (const Allocation& a : p.memory.allocations) blocks += a.name == "block_saved" && a.first <= i && i <= a.last;
      CHECK(blocks <= 1);
    }
}

TEST_CASE("the live peak is the largest sum of live tensors at a task and the arena never less") {
  SmallPlan s;
  s.pipeline = 2;
  s.layers = 2;
  s.micro_batches = 3;
  s.schedule = GENERATE("1f1b", "zb-h1");
  s.recompute = GENERATE("none", "full");
  const TaskGraph graph = lower(s.plan());
  for (const Program& p : graph.programs) {
    const std::int64_t most = tests::most_at_a_task(graph, p, [](const Allocation&) { return true; });
    CHECK(p.memory.live_peak_bytes.count() == most);
    CHECK(p.memory.live_peak_bytes <= p.memory.arena_bytes);
    Bytes by_kind;
    for (const Bytes b : p.memory.live_at_peak) by_kind += b;
    CHECK(by_kind == p.memory.live_peak_bytes);
  }
}
