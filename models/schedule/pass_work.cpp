#include "models/schedule/pass_work.hpp"

#include <algorithm>

#include "models/ops/collective_bytes.hpp"

namespace tandem {
namespace {

constexpr std::int64_t kFlopsPerByte = 150, kMemoryOverLink = 8, kMemoryOverNetwork = 75;
constexpr std::int64_t kSteps = 32;

std::int64_t nominal_work(const Task& task) {
  if (const auto* c = std::get_if<Collective>(&task.op))
    return kMemoryOverLink * rounds(c->kind) * payload(*c).count();
  if (std::holds_alternative<Send>(task.op)) return kMemoryOverNetwork * payload(task.op).count();
  return matrix_flops(task.op).count() / kFlopsPerByte + traffic(task.op, task.dtype).count();
}

/// `part` of `whole` in steps, rounded to nearest.
std::int32_t steps(std::int64_t part, std::int64_t whole) {
  const double share = static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(1, whole));
  return std::max(1, static_cast<std::int32_t>(share * kSteps + 0.5));
}

}  // namespace

std::int64_t nominal_work(const Template& t) {
  std::int64_t sum = 0;
  for (const Task& task : t.tasks) sum += nominal_work(task);
  return sum;
}

std::int64_t slot_bytes(const Template& t, std::string_view name) {
  const auto slot = std::find_if(t.slots.begin(), t.slots.end(), [&](const Slot& s) { return s.name == name; });
  return slot == t.slots.end() ? 0 : slot->bytes.count();
}

ScheduleShape with_costs(ScheduleShape shape, const std::vector<PassWork>& stages) {
  std::int64_t longest = 0, transfer = 0;
  for (const PassWork& w : stages) {
    longest = std::max({longest, w.forward, w.backward, w.weight});
    transfer = std::max(transfer, w.transfer);
  }
  shape.costs.clear();
  for (const PassWork& w : stages) {
    const std::int64_t most = std::max(w.held, w.deferred);
    shape.costs.push_back({steps(w.forward, longest), steps(w.backward, longest), steps(w.weight, longest), steps(w.held, most),
                           steps(w.deferred, most)});
  }
  shape.transfer = steps(transfer, longest);
  return shape;
}

}  // namespace tandem
