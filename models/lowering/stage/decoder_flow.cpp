#include "models/lowering/stage/decoder_flow.hpp"

namespace tandem::lowering {

DecoderFlow::DecoderFlow(const StageContext& c, const std::vector<ChunkPart>& chunks, const Parts& parts)
    : t_(c.templates.decoder), all_(c.templates), s_(c.shapes), d_(s_.decoder_layers > 0 ? s_.decoder() : s_), chunks_(chunks),
      to_(parts) {}

std::vector<TemplateId> DecoderFlow::used_templates() const {
  std::vector<TemplateId> used;
  if (to_.memory.params().tables() >= 0) used.insert(used.end(), {t_.tables_start, t_.tables_add});
  for (const ChunkPart& p : chunks_) {
    if (p.bridge) used.insert(used.end(), {t_.bridge_forward, t_.bridge_backward.first, t_.bridge_backward.later});
    if (decoder(p.first_layer + p.layers - 1)) used.insert(used.end(), {t_.pass_memory, t_.pass_gradient, t_.memory_start});
  }
  return used;
}

Bytes DecoderFlow::hidden_bytes(const ChunkPart& p, std::int64_t l) const {
  const Shapes& shapes = before(p.first_layer + l);
  return bytes(l == p.layers && !p.last ? shapes.boundary_elements() : shapes.hidden_elements());
}

Bytes DecoderFlow::gradient_bytes(const ChunkPart& p, std::int64_t l) const {
  if (l == 0) return bytes(bridge_before(p, 0) ? d_.hidden_elements() : before(p.first_layer).boundary_elements());
  return bytes(at(p.first_layer + l).hidden_elements());
}

const TransferTemplates& DecoderFlow::transfers(std::int64_t layer) const {
  return decoder(layer - 1) ? t_.transfer : all_.transfer;
}

void DecoderFlow::add_positions(std::vector<Binding>& slots) const {
  if (const std::int32_t r = region(RegionKind::positions); r >= 0) slots.push_back(to_.memory.weights(r));
}

void DecoderFlow::add_position_gradients(std::vector<Binding>& slots, std::int32_t micro_batch) const {
  if (const std::int32_t r = region(RegionKind::positions); r >= 0) slots.push_back(to_.memory.gradients(r, micro_batch));
}

InstanceKey DecoderFlow::bridge_key(const Action& a) const {
  return {static_cast<std::int32_t>(s_.encoder_layers), a.micro_batch, a.chunk, a.phase};
}

// ---- forward ----

void DecoderFlow::received(const ChunkPart& p, InFlight& f) const {
  if (decoder(p.first_layer - 1)) f.memory = behind(f.hidden[0]);
}

void DecoderFlow::bridge(const Action& a, InFlight& f, std::int64_t l) {
  BufferId& state = f.hidden[static_cast<std::size_t>(l)];
  f.bridge_input = state;
  state = to_.writer.slot_buffer("hidden", t_.bridge_forward, "y");
  f.bridge_saved = to_.writer.slot_buffer("bridge_saved", t_.bridge_forward, "saved");
  to_.gather.begin();
  std::vector<Binding> slots{to_.memory.weights(region(RegionKind::bridge)), to_.memory.weights(to_.memory.word_region())};
  add_positions(slots);
  slots.insert(slots.end(), {{f.bridge_input}, to_.memory.decoder_tokens(a.micro_batch), {state}, {f.bridge_saved}});
  to_.writer.add(t_.bridge_forward, bridge_key(a), slots);
  to_.gather.end();
  f.memory = behind(state);
}

void DecoderFlow::leave(const Action& a, InFlight& f) {
  const ChunkPart& p = part(a);
  if (p.last || !decoder(p.first_layer + p.layers - 1)) return;
  to_.writer.add(t_.pass_memory, {-1, a.micro_batch, a.chunk, a.phase}, {f.memory, behind(f.hidden.back())});
}

void DecoderFlow::drop_bridge(InFlight& f) {
  if (f.bridge_input == kNoBuffer) return;
  to_.writer.drop(f.bridge_saved);
  to_.writer.drop(f.bridge_input);
}

void DecoderFlow::drop_memory(InFlight& f) {
  if (f.memory.first != kNoBuffer && f.memory.first != f.hidden.back()) to_.writer.drop(f.memory.first);
}

// ---- backward ----

void DecoderFlow::start_tables(const Action& a) {
  const bool top = static_cast<std::size_t>(a.chunk) + 1 == chunks_.size();
  const std::int32_t tables = to_.memory.params().tables();
  if (tables < 0 || !top) return;
  to_.writer.add(t_.tables_start, {-1, a.micro_batch, a.chunk, a.phase}, {to_.memory.gradients(tables, a.micro_batch)});
}

void DecoderFlow::start_backward(const Action& a, InFlight& f) {
  const ChunkPart& p = part(a);
  if (!decoder(p.first_layer + p.layers - 1)) return;
  if (!p.last) {
    f.memory_gradient = behind(f.gradient);
    return;
  }
  f.memory_gradient = {to_.writer.slot_buffer("memory_gradient", t_.memory_start, "dmemory")};
  to_.writer.add(t_.memory_start, {-1, a.micro_batch, a.chunk, a.phase}, {f.memory_gradient});
}

void DecoderFlow::bridge_backward(const Action& a, InFlight& f) {
  StageMemory& m = to_.memory;
  const std::int32_t norm = region(RegionKind::bridge), mb = a.micro_batch;
  const TemplateId t = t_.bridge_backward.of(mb);
  const BufferId dx = to_.writer.slot_buffer("gradient", t, "dx");
  to_.gather.begin();
  std::vector<Binding> slots{m.weights(norm), m.gradients(norm, mb), m.word_gradients(WordUse::decoder_input, mb)};
  add_position_gradients(slots, mb);
  slots.insert(slots.end(),
               {{f.bridge_input}, m.decoder_tokens(mb), {f.bridge_saved}, {f.gradient}, f.memory_gradient, {dx}});
  to_.writer.add(t, bridge_key(a), slots);
  to_.gather.end();
  drop_gradient(f);
  to_.writer.drop(f.memory_gradient.first);
  to_.writer.drop(f.bridge_saved);
  to_.writer.drop(f.bridge_input);
  f.gradient = dx;
  to_.reduction.completed(norm, mb);
  to_.reduction.completed_word(WordUse::decoder_input, mb);
}

void DecoderFlow::drop_gradient(InFlight& f) {
  if (f.gradient != f.memory_gradient.first) to_.writer.drop(f.gradient);
}

void DecoderFlow::leave_backward(const Action& a, InFlight& f) {
  if (decoder(part(a).first_layer - 1)) {
    to_.writer.add(t_.pass_gradient, {-1, a.micro_batch, a.chunk, a.phase}, {f.memory_gradient, behind(f.gradient)});
    to_.writer.drop(f.memory_gradient.first);
  }
}

void DecoderFlow::complete_tables(const Action& a) {
  const std::int32_t tables = to_.memory.params().tables(), mb = a.micro_batch;
  if (tables < 0 || a.chunk > 0) return;
  if (to_.memory.added_later(tables, mb)) {
    to_.writer.add(t_.tables_add, {-1, mb, a.chunk, a.phase}, {to_.memory.gradients(tables, mb), to_.memory.gradients(tables, 0)});
    to_.memory.release_gradients(to_.memory.params().regions[static_cast<std::size_t>(tables)].unit, mb);
  }
  to_.reduction.completed(tables, mb);
}

}  // namespace tandem::lowering
