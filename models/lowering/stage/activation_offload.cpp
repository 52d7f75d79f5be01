#include "models/lowering/stage/activation_offload.hpp"

#include <utility>

namespace tandem::lowering {

bool ActivationOffload::covers(const ChunkPart& p, std::int64_t l) const {
  return l < p.layers && l < among_first(chunks_, p, c_.plan.parallel.offload.layers);
}

void ActivationOffload::send(TemplateId copy, const InstanceKey& key, BufferId& buffer) {
  b_.add(copy, key, {Binding{buffer}});
  leaving_.push_back(std::exchange(buffer, kNoBuffer));
}

void ActivationOffload::after_forward(const Action& a, InFlight& f, std::int64_t l, bool stays) {
  const ChunkPart& p = part(a);
  free_copied();
  if (!here() || !covers(p, l) || (stays && l + 1 == p.layers)) return;
  const auto i = static_cast<std::size_t>(l);
  const InstanceKey at = key(a, l, Phase::forward);
  if (const TemplateId copy = blocks_.at(p, l).kept_out; copy.value() >= 0 && !blocks_.recomputed(p, l)) {
    send(copy, at, f.offloaded[i]);
    f.away[i] |= kKept;
  }
  if (!s().on_host.input) return;
  send(c_.templates.input_out, at, f.hidden[i]);
  f.away[i] |= kInput;
}

void ActivationOffload::free_copied() {
  for (BufferId& b : leaving_) w_.drop(b);
  leaving_.clear();
}

void ActivationOffload::before_pass(const Action& a, InFlight& f) { fetch(a, f, part(a).layers - 1); }

void ActivationOffload::before_backward(const Action& a, InFlight& f, std::int64_t l) {
  if (l >= part(a).layers) return;  // an MTP module's block
  fetch(a, f, l);
  fetch(a, f, l - 1);
}

void ActivationOffload::fetch(const Action& a, InFlight& f, std::int64_t l) {
  if (!here() || l < 0) return;
  const auto i = static_cast<std::size_t>(l);
  const InstanceKey at = key(a, l, Phase::backward);
  const std::uint8_t away = std::exchange(f.away[i], std::uint8_t{0});
  if ((away & kKept) != 0) {
    const TemplateId copy = blocks_.at(part(a), l).kept_in;
    f.offloaded[i] = w_.slot_buffer("block_offloaded", copy, "offloaded");
    b_.add(copy, at, {Binding{f.offloaded[i]}});
  }
  if ((away & kInput) == 0) return;
  f.hidden[i] = w_.slot_buffer("hidden", c_.templates.input_in, "x");
  b_.add(c_.templates.input_in, at, {Binding{f.hidden[i]}});
}

}  // namespace tandem::lowering
