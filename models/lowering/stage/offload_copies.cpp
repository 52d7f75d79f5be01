#include "models/lowering/stage/offload_copies.hpp"

#include <algorithm>
#include <utility>

#include "models/graph/slot_tensors.hpp"
#include "models/lowering/templates/block_frame.hpp"

namespace tandem::lowering {
namespace {

/// The parts of `v` that tasks touch: of a norm's statistics only one where the framework's norm is several kernels.
std::vector<Value> touched(const TensorSpans& tensors, const Value& v) {
  std::vector<Value> parts;
  for (const TensorSpan& t : tensors) {
    const std::int64_t low = std::max(t.low, v.offset), high = std::min(t.high, v.end());
    if (low < high) parts.push_back(v.part((low - v.offset) * 8 / bits(v.dtype), (high - low) * 8 / bits(v.dtype)));
  }
  return parts;
}

/// `held`: bytes that a framework copies with `v`, but that no task here touches.
void copy(TemplateBuilder& b, const std::string& name, const Value& v, std::int64_t held, bool to_host) {
  const std::int64_t more = held * 8 / bits(v.dtype);
  std::vector<Value> in, out;
  (to_host ? in : out).push_back(v);
  b.add(name + (to_host ? "_to_host" : "_from_host"), HostCopy{v.elements + more, v.dtype, to_host}, std::move(in), std::move(out),
        Stream::host);
}

}  // namespace

std::optional<Template> kept_copy(const Shapes& s, const Template& forward, bool to_host) {
  const auto there = std::find_if(forward.slots.begin(), forward.slots.end(), [](const Slot& slot) { return slot.name == "offloaded"; });
  if (there == forward.slots.end()) return std::nullopt;
  const auto slot = static_cast<std::size_t>(there - forward.slots.begin());
  TemplateBuilder b(to_host ? "offload_kept" : "reload_kept", s.dtypes.compute);
  const std::uint16_t mine = b.slot("offloaded", MemoryKind::activations);
  const BlockSaved kept(s, {.saved = mine, .offloaded = mine}, true);
  std::int64_t held = kept.offloaded_held, copies = 0;
  const std::vector<TensorSpans> tensors = slot_tensors(forward);
  for (const Value& v : kept.offloaded)
    for (const Value& part : touched(tensors[slot], v))
      copy(b, "kept_" + std::to_string(++copies), part, std::exchange(held, 0), to_host);
  if (copies == 0) return std::nullopt;
  return b.finish();
}

Template input_copy(const Shapes& s, bool to_host) {
  TemplateBuilder b(to_host ? "offload_input" : "reload_input", s.dtypes.compute);
  copy(b, "input", hidden_slot(b, s, "x"), 0, to_host);
  return b.finish();
}

}  // namespace tandem::lowering
