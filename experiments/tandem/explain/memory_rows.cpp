#include <algorithm>
#include <map>

#include "experiments/tandem/explain/rows.hpp"
#include "reports/prediction/text.hpp"
#include "sim/cost/cost_model.hpp"
#include "sim/memory/workspaces.hpp"

namespace tandem::program {

namespace {

constexpr std::size_t kShown = 4;  // tensors that an explanation names

std::string gib(Bytes b) { return bytes_text(b.count()); }

const RolePrediction& role_of(const ExplainedCase& c, std::size_t role) { return c.prediction.roles[role]; }

const Program& program_of(const ExplainedCase& c, std::size_t role) {
  return c.graph.programs[static_cast<std::size_t>(role_of(c, role).coords[Axis::pp])];
}

const MemoryPlan& layout_of(const ExplainedCase& c, std::size_t role) { return program_of(c, role).memory; }

/// The instance at which most bytes are alive.
std::uint32_t peak_instance(const MemoryPlan& m) {
  std::map<std::uint32_t, std::int64_t> change;
  for (const Allocation& a : m.allocations) change[a.first] += a.bytes.count(), change[a.last + 1] -= a.bytes.count();
  std::int64_t alive = 0, most = -1;
  std::uint32_t at = 0;
  for (const auto& [instance, bytes] : change)
    if (alive += bytes; alive > most) most = alive, at = instance;
  return at;
}

/// "12 x qkv 1.5 GiB, ...": what of a kind is alive at the peak, the largest names first.
std::string alive_at_peak(const MemoryPlan& m, MemoryKind kind) {
  const std::uint32_t at = peak_instance(m);
  std::map<std::string, std::pair<std::int64_t, Bytes>> by_name;
  for (const Allocation& a : m.allocations)
    if (a.kind == kind && a.first <= at && at <= a.last) {
      auto& [count, bytes] = by_name[std::string(a.name)];
      ++count, bytes += a.bytes;
    }
  std::vector<std::pair<std::string, std::pair<std::int64_t, Bytes>>> rows(by_name.begin(), by_name.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second.second > b.second.second; });
  std::string out;
  for (std::size_t i = 0; i < std::min(rows.size(), kShown); ++i)
    out += (i ? " + " : "") + std::to_string(rows[i].second.first) + " x " + rows[i].first + " (" + gib(rows[i].second.second) + ")";
  return rows.size() > kShown ? out + " + " + std::to_string(rows.size() - kShown) + " other tensors" : out;
}

std::string rank(const ExplainedCase& c, std::size_t role) { return " on rank " + std::to_string(role_of(c, role).ranks.front()); }

Row kind_row(MemoryKind kind, const std::string& formula) {
  const auto filled = [kind](const ExplainedCase& c, std::size_t role) {
    const std::string tensors = alive_at_peak(layout_of(c, role), kind);
    const Bytes all = role_of(c, role).memory_bytes[static_cast<std::size_t>(kind)];
    if (tensors.empty()) return "nothing of it is alive at the peak: " + gib(all) + rank(c, role);
    return tensors + ", as far as they are alive at the task that has most: " + gib(all) + rank(c, role);
  };
  return {"memory_bytes." + std::string(name(kind)), formula, filled, RangeKind::layout, {}};
}

std::string types(const ExplainedCase& c) {
  const DTypes& d = c.plan.training.dtypes;
  return " (weights " + std::string(name(d.weights)) + ", gradients " + std::string(name(d.gradients)) + ", master " +
         std::string(name(d.master)) + ", states " + std::string(name(d.optimizer_state)) + ", zero_stage " +
         std::to_string(c.plan.parallel.zero_stage) + (c.plan.stack.facts.whole_between_micro_batches ? ", whole between micro-batches)" : ")");
}

Row state_row(MemoryKind kind, const std::string& formula) {
  Row row = kind_row(kind, formula);
  row.filled = [inner = row.filled](const ExplainedCase& c, std::size_t role) { return inner(c, role) + types(c); };
  return row;
}

Bytes runtime_of(const ExplainedCase& c, std::size_t role) {
  return role_of(c, role).memory_bytes[static_cast<std::size_t>(MemoryKind::runtime)];
}

Row runtime_row() {
  const auto filled = [](const ExplainedCase& c, std::size_t role) {
    const Device& d = c.topology->device();
    const sim::CommFit fit = sim::make_cost_model(*c.topology)->comm_fit();
    const Bytes own = d.runtime_memory + sim::library_memory(c.plan, d), all = runtime_of(c, role);
    const Bytes scratch = sim::kernel_scratch(c.plan, fit, c.graph, program_of(c, role));
    return gib(own) + " for " + d.name + (scratch > Bytes(0) ? " + " + gib(scratch) + " of kernels" : "") + " + " +
           gib(all - own - scratch) + " of communicators = " + gib(all);
  };
  return {"memory_bytes.runtime",
          "memory beside the arena: the process' context on the device, the libraries' workspaces, scratch memory of stack tandem's kernels for recurrences, buffers of NCCL's communicators",
          filled, RangeKind::layout, {"device:runtime_bytes", "device:library_bytes"}};
}

}  // namespace

std::vector<Row> memory_rows() {
  return {
      {"peak_memory_bytes", "arena_bytes + memory_bytes.runtime, of the heaviest rank",
       [](const ExplainedCase& c, std::size_t r) {
         return gib(role_of(c, r).arena_bytes) + " + " + gib(runtime_of(c, r)) + " = " +
                gib(role_of(c, r).peak_memory_bytes) + rank(c, r);
       },
       RangeKind::layout, {"device:runtime_bytes", "device:library_bytes"}},
      {"arena_bytes", "end of the highest tensor in the arena as it is laid out: alignment, holes and reuse included",
       [](const ExplainedCase& c, std::size_t r) {
         return gib(role_of(c, r).live_peak_bytes) + " alive at the peak + " +
                gib(role_of(c, r).arena_bytes - role_of(c, r).live_peak_bytes) + " of holes, of tensors freed by then, and of tensors that only Tandem's runtime has, from " +
                count_text(static_cast<std::int64_t>(layout_of(c, r).allocations.size())) + " tensors" + rank(c, r);
       },
       RangeKind::layout, {}},
      {"live_peak_bytes", "largest sum of tensors alive at once, of any rank: that rank's memory_bytes without runtime",
       [](const ExplainedCase& c, std::size_t r) {
         std::string out;
         for (std::size_t k = 0; k < kMemoryKinds; ++k)
           if (const Bytes b = layout_of(c, r).live_at_peak[k]; b.count() > 0)
             out += (out.empty() ? "" : " + ") + gib(b) + " " + std::string(name(static_cast<MemoryKind>(k)));
         return out + rank(c, r);
       },
       RangeKind::layout, {}},
      {"needed_bytes",
       "the most that a rank needs: live_peak_bytes + memory_bytes.runtime; on a host arena_bytes in place of live_peak_bytes. If that fits but PyTorch's allocator runs out of segments: the least memory with which it does not",
       [](const ExplainedCase& c, std::size_t r) {
         return gib(role_of(c, r).needed_bytes - runtime_of(c, r)) + " + " + gib(runtime_of(c, r)) + " = " +
                gib(role_of(c, r).needed_bytes) + rank(c, r);
       },
       RangeKind::layout, {"device:usable_memory_bytes", "device:runtime_bytes", "device:library_bytes"}},
      {"memory_bytes", "live_peak_bytes by kind of tensor, and the memory of the device's runtime",
       [](const ExplainedCase& c, std::size_t r) {
         return gib(role_of(c, r).live_peak_bytes) + " alive at the peak + " + gib(runtime_of(c, r)) + " runtime" + rank(c, r);
       },
       RangeKind::layout, {"device:runtime_bytes", "device:library_bytes"}},
      state_row(MemoryKind::weights, "parameters that the rank holds x bytes of training.dtypes.weights (its share with parallel.fsdp_copies: of master; matrices with training.lora.base: 36 bytes for 64, or 8456 for 16,384 with double quantization), alive at the peak"),
      state_row(MemoryKind::gradients, "gradients that the rank holds x bytes of training.dtypes.gradients, alive at the peak"),
      state_row(MemoryKind::optimizer, "master copies and optimizer states of the rank's share, alive at the peak"),
      kind_row(MemoryKind::activations, "tensors that forward passes keep for backward passes, alive at the peak"),
      kind_row(MemoryKind::communication, "buffers of collectives, sends and receives, alive at the peak"),
      kind_row(MemoryKind::workspace, "temporary tensors, alive at the peak"),
      runtime_row(),
      {"device_memory_bytes", "memory of one device that processes can use",
       [](const ExplainedCase& c, std::size_t) { return gib(c.prediction.device_memory) + " of " + c.topology->device().name; },
       RangeKind::exact, {"device:memory_bytes", "device:usable_memory_bytes"}},
      {"fits",
       "needed_bytes x ranks of a device <= device_memory_bytes, on every rank",
       [](const ExplainedCase& c, std::size_t) {
         const Bytes most = role_of(c, neediest_role(c.prediction)).needed_bytes;
         const std::string sharing = std::to_string(c.topology->ranks_per_device());
         return gib(most) + " x " + sharing + (c.prediction.fits ? " <= " : " > ") + gib(c.prediction.device_memory);
       },
       RangeKind::layout, {"device:memory_bytes", "device:usable_memory_bytes", "device:runtime_bytes", "device:library_bytes"}},
  };
}

}  // namespace tandem::program
