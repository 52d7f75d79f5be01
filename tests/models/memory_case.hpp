#pragma once
// A GPT for memory formulas, and what is alive in a lowered program. Sizes are such that every tensor that a block keeps is a
// multiple of the arena's 256 bytes: formulas need no rounding but where a test says so.

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "models/plan.hpp"
#include "models/task_graph.hpp"
#include "tests/catch.hpp"

namespace tandem::tests {

struct MemoryCase {
  std::int64_t layers = 8, hidden = 32, heads = 4, ffn = 128, vocab = 96;
  std::int64_t seq = 64, batch = 2, micro_batches = 1;  ///< batch: of one micro-batch
  std::int64_t tensor = 1, pipeline = 1, data = 1;
  /// Further fields.
  nlohmann::json model = nlohmann::json::object(), parallel = nlohmann::json::object(), training = nlohmann::json::object();

  Plan plan() const {
    nlohmann::json p = {
        {"model",
         {{"num_layers", layers}, {"hidden_size", hidden}, {"num_attention_heads", heads}, {"ffn_hidden_size", ffn},
          {"vocab_size", vocab}, {"pad_vocab_to", vocab}, {"tie_embeddings", false}}},
        {"parallel", {{"tensor", tensor}, {"pipeline", pipeline}, {"data", data}}},
        {"training",
         {{"seq_length", seq}, {"micro_batch_size", batch}, {"global_batch_size", batch * micro_batches * data},
          {"precision", "bf16"}}},
        {"cluster", {{"preset", "cpu-host"}, {"devices", tensor * pipeline * data}}}};
    p["model"].update(model);
    p["parallel"].update(parallel);
    p["training"].update(training);
    return parse_plan(p.dump(), "memory.json");
  }
};

/// Three layers and two micro-batches, in sizes that no block of 64 divides.
inline MemoryCase odd_sizes() {
  MemoryCase c;
  c.layers = 3;
  c.hidden = 20;
  c.ffn = 36;
  c.vocab = 34;
  c.seq = 6;
  c.micro_batches = 2;
  return c;
}

/// The next multiple of `to`.
inline std::int64_t up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }
inline std::int64_t aligned(std::int64_t bytes) { return up(bytes, 256); }

/// One lowered stage.
class StageOf {
 public:
  StageOf(const TaskGraph& graph, std::int64_t stage) : graph_(graph), p_(graph.programs[static_cast<std::size_t>(stage)]) {}

  const Program& program() const { return p_; }
  const std::string& block(std::uint32_t i) const { return graph_.of(p_.instances[i]).name; }

  /// Index of the one instance of `block` for this layer and micro-batch.
  std::uint32_t find(const std::string& name, std::int64_t layer, std::int64_t micro_batch,
                     Phase phase) const {
    for (std::uint32_t i = 0; i < p_.instances.size(); ++i) {
      const Instance& at = p_.instances[i];
      if (at.layer == layer && at.micro_batch == micro_batch && at.phase == phase && block(i) == name) return i;
    }
    throw std::runtime_error("no instance of " + name);
  }

  /// The allocation that lies behind a slot of instance `i`.
  const Allocation& behind(std::uint32_t i, const std::string& slot) const {
    const Instance& at = p_.instances[i];
    const auto& slots = graph_.of(at).slots;
    for (std::size_t s = 0; s < slots.size(); ++s) {
      if (slots[s].name != slot) continue;
      const std::int64_t offset = p_.bindings[at.binding + s];
      for (const Allocation& a : p_.memory.allocations)
        if (a.first <= i && i <= a.last && a.offset <= offset && offset < a.offset + a.bytes.count()) return a;
    }
    throw std::runtime_error("no slot " + slot);
  }

  /// Bytes alive at instance `i` for which `counts` says so. Scratch is not among them.
  template <class F>
  std::int64_t alive(std::uint32_t i, F&& counts) const {
    std::int64_t sum = 0;
    for (const Allocation& a : p_.memory.allocations)
      if (a.name != "scratch" && a.first <= i && i <= a.last && counts(a)) sum += a.bytes.count();
    return sum;
  }
  template <class F>
  std::int64_t most(F&& counts) const {
    std::map<std::uint32_t, std::int64_t> change;
    for (const Allocation& a : p_.memory.allocations)
      if (a.name != "scratch" && counts(a)) change[a.first] += a.bytes.count(), change[a.last + 1] -= a.bytes.count();
    std::int64_t now = 0, peak = 0;
    for (const auto& [instance, by] : change) peak = std::max(peak, now += by);
    return peak;
  }

 private:
  const TaskGraph& graph_;
  const Program& p_;
};

/// The most that is alive of the tensors of these names, and of all others with the scratch of the instance that runs.
struct PoolPeaks {
  std::int64_t named = 0, others = 0;
};
inline PoolPeaks peaks_of(const TaskGraph& graph, std::int64_t stage, const std::set<std::string_view>& names) {
  const StageOf at(graph, stage);
  const auto is_named = [&](const Allocation& a) { return names.count(a.name) > 0; };
  PoolPeaks out{at.most(is_named), 0};
  for (std::uint32_t i = 0; i < at.program().instances.size(); ++i)
    out.others = std::max(out.others, at.alive(i, [&](const Allocation& a) { return !is_named(a); }) +
                                          graph.of(at.program().instances[i]).scratch_live_peak.count());
  return out;
}

inline auto of_kind(MemoryKind kind) {
  return [kind](const Allocation& a) { return a.kind == kind; };
}
inline auto called(std::string name) {
  return [name](const Allocation& a) { return a.name == name; };
}

}  // namespace tandem::tests
