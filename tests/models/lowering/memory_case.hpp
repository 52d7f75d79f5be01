#pragma once
// A GPT for memory formulas, and what is alive in a lowered program. Sizes are such that every tensor that a block keeps is a
// multiple of the arena's 256 bytes: formulas need no rounding but where a test says so.

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

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
    Plan plan = parse_plan(p.dump(), "memory.json");
    plan.stack.facts.wide_tensors = {};  // formulas are of frameworks that publish no wider statistics
    return plan;
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

/// Bytes alive by task of an instance, counted byte by byte, of scratch and of allocations for which `counts` says so: of one
/// that the instance is the first to have, a byte from the first task that touches it; of one that it is the last to have,
/// to the last such task.
template <class F>
std::vector<std::int64_t> alive_by_task(const TaskGraph& graph, const Program& p, std::uint32_t instance, F&& counts) {
  const Template& t = graph.of(p.instances[instance]);
  const auto tasks = static_cast<std::int64_t>(t.tasks.size());
  // While a task has what it writes, and just before, where something is held ahead of that.
  std::vector<std::int64_t> alive(t.tasks.size(), 0), ahead(t.tasks.size(), 0);
  std::vector<bool> holds_ahead(t.tasks.size(), false);
  const auto add = [&](std::int64_t from, std::int64_t to, std::int64_t bytes, bool was_there = false) {
    for (std::int64_t k = from; k <= to; ++k) alive[static_cast<std::size_t>(k)] += bytes;
    for (std::int64_t k = was_there ? from : from + 1; k <= to; ++k) ahead[static_cast<std::size_t>(k)] += bytes;
  };
  for (const ScratchTensor& s : t.scratch) {
    if (!s.ahead) add(s.first, s.last, s.bytes.count());
    else ahead[static_cast<std::size_t>(s.first)] += s.bytes.count(), holds_ahead[static_cast<std::size_t>(s.first)] = true;
  }
  for (const Allocation& a : p.memory.allocations) {
    if (a.name == "scratch" || instance < a.first || a.last < instance || !counts(a)) continue;
    const bool lasting = a.first == 0 && a.last + 1 == p.instances.size();
    const bool comes = a.first == instance && !lasting, goes = a.last == instance && !lasting;
    const auto size = comes || goes ? static_cast<std::size_t>(a.bytes.count()) : 0;
    std::vector<std::pair<std::int64_t, std::int64_t>> touched(size, {-1, -1});  // by byte
    for (std::int64_t k = 0; k < tasks && !touched.empty(); ++k)
      for (const auto* operands : {&t.tasks[static_cast<std::size_t>(k)].inputs, &t.tasks[static_cast<std::size_t>(k)].outputs})
        for (const Operand& o : *operands) {
          const std::int64_t from = p.bindings[p.instances[instance].binding + o.slot] + o.offset - a.offset;
          if (o.slot == 0) continue;
          for (std::int64_t b = std::max<std::int64_t>(0, from); b < std::min(from + o.span(), a.bytes.count()); ++b) {
            auto& [first, last] = touched[static_cast<std::size_t>(b)];
            first = first < 0 ? k : first, last = k;
          }
        }
    if (touched.empty()) add(0, tasks - 1, a.bytes.count(), true);
    for (const auto& [first, last] : touched) {
      const bool new_here = comes && first >= 0;
      add(new_here ? first : 0, goes && last >= 0 ? last : tasks - 1, 1, !new_here);
    }
  }
  for (std::size_t k = 0; k < alive.size(); ++k)
    if (holds_ahead[k]) alive[k] = std::max(alive[k], ahead[k]);
  return alive;
}

/// The most of them at any task of a stage.
template <class F>
std::int64_t most_at_a_task(const TaskGraph& graph, const Program& p, F&& counts) {
  std::int64_t most = 0;
  for (std::uint32_t i = 0; i < p.instances.size(); ++i)
    for (const std::int64_t alive : alive_by_task(graph, p, i, counts)) most = std::max(most, alive);
  return most;
}

/// The most that is alive between tasks of the tensors of these names, and of all others with scratch at a task.
struct PoolPeaks {
  std::int64_t named = 0, others = 0;
};
inline PoolPeaks peaks_of(const TaskGraph& graph, std::int64_t stage, const std::set<std::string_view>& names) {
  const StageOf at(graph, stage);
  const auto is_named = [&](const Allocation& a) { return names.count(a.name) > 0; };
  return {at.most(is_named), most_at_a_task(graph, at.program(), [&](const Allocation& a) { return !is_named(a); })};
}

inline auto of_kind(MemoryKind kind) {
  return [kind](const Allocation& a) { return a.kind == kind; };
}
inline auto called(std::string name) {
  return [name](const Allocation& a) { return a.name == name; };
}

}  // namespace tandem::tests
