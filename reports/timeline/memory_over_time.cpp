#include "reports/timeline/memory_over_time.hpp"

#include <algorithm>
#include <map>

#include "models/base/error.hpp"

namespace tandem {

namespace {

struct Window {
  Duration from = Duration::max();
  Duration to;
};

/// When each instance began and ended.
std::vector<Window> windows(const Lane& lane, std::size_t instances) {
  std::vector<Window> out(instances);
  for (const Span& s : lane.spans) {
    require(s.instance < instances, "a timeline's span names an instance that its program lacks");
    Window& w = out[s.instance];
    w.from = std::min(w.from, s.started);
    w.to = std::max(w.to, s.ended);
  }
  return out;
}

}  // namespace

std::vector<MemorySample> memory_over_time(const Lane& lane, const Program& program) {
  const std::vector<Window> when = windows(lane, program.instances.size());
  const std::uint32_t last_instance = when.empty() ? 0 : static_cast<std::uint32_t>(when.size() - 1);
  std::map<Duration, BytesByKind> changes{{Duration(), {}}};
  for (const Allocation& a : program.memory.allocations) {
    const bool persistent = a.first == 0 && a.last >= last_instance;
    const auto kind = static_cast<std::size_t>(a.kind);
    changes[persistent ? Duration() : when.at(a.first).from][kind] += a.bytes;
    if (!persistent) changes[when.at(a.last).to][kind] -= a.bytes;
  }
  std::vector<MemorySample> out;
  BytesByKind live{};
  for (const auto& [at, change] : changes) {
    for (std::size_t k = 0; k < kMemoryKinds; ++k) live[k] += change[k];
    out.push_back({at, live});
  }
  return out;
}

}  // namespace tandem
