#include <utility>

#include "models/lowering/stage/stage_lowering.hpp"

namespace tandem::lowering {

void StageLowering::forward(const Action& a) {
  InFlight& f = flight(a);
  const ChunkPart& p = part(a);
  begin_forward(a);
  for (std::int64_t l = 0; l < p.layers; ++l) {
    if (decoder_.bridge_before(p, l)) decoder_.bridge(a, f, l);
    if (c_.forward_only) decoder_.drop_bridge(f);
    block_forward(a, l);
  }
  end_forward(a);
}

void StageLowering::begin_forward(const Action& a) {
  InFlight& f = flight(a);
  const ChunkPart& p = part(a);
  const auto modules = static_cast<std::size_t>(this->modules(p)), blocks = static_cast<std::size_t>(p.layers) + modules;
  if (turns(a, Phase::forward)) f.hidden.assign(1, std::exchange(other_chunk(a).hidden.back(), kNoBuffer));
  f.hidden.resize(blocks + modules + 1, kNoBuffer);
  f.saved.assign(blocks, kNoBuffer);
  f.offloaded.assign(blocks, kNoBuffer);
  f.away.assign(blocks, 0);
  if (s_.defer_weights) f.inputs.assign(blocks, kNoBuffer);
  gather_.hold(memory_.root_regions(p));
  if (memory_.weights_sharded()) gather_forward(p);
  if (p.first) embed(a);
}

void StageLowering::end_forward(const Action& a) {
  InFlight& f = flight(a);
  const ChunkPart& p = part(a);
  decoder_.leave(a, f);
  if (c_.forward_only) decoder_.drop_memory(f);
  if (modules(p) > 0) modules_forward(a);
  if (p.last) head(a);
  if (c_.forward_only) gather_.let_go(memory_.root_regions(p));
}

void StageLowering::gather_forward(const ChunkPart& p) {
  if (weights_stay_) return gather_.plan_before_same(regions_.forward(p));
  if (!p.last || !backward_follows_) return gather_.plan(regions_.forward(p));
  gather_.plan_before_backward(regions_.forward(p), regions_.backward(p), regions_.backward_reads(p, blocks_),
                               c_.plan.parallel.reuse_distance);
}

void StageLowering::gather_backward(const ChunkPart& p) {
  if (weights_stay_) gather_.plan_before_same(regions_.backward(p));
  else gather_.plan(regions_.backward(p));
}

void StageLowering::embed(const Action& a) {
  InFlight& f = flight(a);
  f.hidden[0] = w_.buffer("hidden", decoder_.hidden_bytes(part(a), 0));
  if (s_.embedding_norm) f.embed_saved = slot_buffer("embedding_saved", t_.embed_forward, "saved");
  const bool masked = s_.fusion.dropout_masks && s_.hidden_dropout > 0 && !c_.forward_only && !memory_.only_adapters();
  if (masked) f.embed_mask = w_.buffer("embedding_mask", Bytes(s_.rows * s_.hidden));  // one byte per element, as in blocks
  gather_.begin();
  std::vector<Binding> slots{memory_.weights(memory_.word_region())};
  for (const RegionKind kind : {RegionKind::embedding, RegionKind::positions})
    if (region(kind) >= 0) slots.push_back(memory_.weights(region(kind)));
  slots.push_back(memory_.tokens(a.micro_batch));
  if (s_.token_types > 0) slots.push_back(memory_.types(a.micro_batch));
  slots.insert(slots.end(), {{f.hidden[0]}, {f.embed_saved}});
  add(t_.embed_forward, key(a), slots);
  gather_.end();
  if ((c_.forward_only || memory_.only_adapters()) && f.embed_saved != kNoBuffer) drop(f.embed_saved);
}

void StageLowering::block_forward(const Action& a, std::int64_t l) {
  const TemplateId t = begin_block_forward(a, l);
  add(t, layer_key(a, part(a).first_layer + l), slots_);
  end_block_forward(a, l);
}

TemplateId StageLowering::begin_block_forward(const Action& a, std::int64_t l) {
  InFlight& f = flight(a);
  BufferId& y = f.hidden[input_of(part(a), l) + 1];
  y = w_.buffer("hidden", decoder_.hidden_bytes(part(a), l + 1));
  gather_.begin();
  return bind_block(a, l, Phase::forward, {y});
}

void StageLowering::end_block_forward(const Action& a, std::int64_t l) {
  InFlight& f = flight(a);
  const auto i = static_cast<std::size_t>(l);
  gather_.end();
  if (c_.forward_only || blocks_.recomputed(part(a), l)) drop_kept(f, i);
  if (c_.forward_only && f.hidden[i] != f.memory.first) drop(f.hidden[i]);
  offload_.after_forward(a, f, l, own_backward_next_);
}

std::vector<Binding>& StageLowering::block_weights(std::int64_t layer) {
  slots_.clear();
  for (const std::int32_t r : regions_.layer(layer)) slots_.push_back(memory_.weights(r));
  return slots_;
}

std::vector<Binding>& StageLowering::block_weights(std::int64_t layer, TemplateId t) {
  slots_.clear();
  for (const std::int32_t r : regions_.layer(layer))
    slots_.push_back(c_.library.touches(t, static_cast<std::uint16_t>(slots_.size() + 1)) ? memory_.weights(r) : Binding{});
  return slots_;
}

void StageLowering::add_gradients(std::vector<Binding>& slots, TemplateId t, std::int64_t layer, std::int32_t mb) {
  for (const std::int32_t r : regions_.layer(layer)) {
    if (memory_.frozen(r)) continue;
    const bool touched = c_.library.touches(t, static_cast<std::uint16_t>(slots.size() + 1));
    slots.push_back(touched ? memory_.gradients(r, mb) : Binding{});
  }
}

TemplateId StageLowering::bind_block(const Action& a, std::int64_t l, Phase phase, const Binding& y) {
  InFlight& f = flight(a);
  const auto i = static_cast<std::size_t>(l);
  const std::int64_t layer = part(a).first_layer + l;
  const TemplateId t = phase == Phase::recompute ? block(part(a), l).again : block(part(a), l).forward;
  if (!s_.on_host.kept() || w_.slot_bytes(t, "saved").count() > 0) f.saved[i] = slot_buffer("block_saved", t, "saved");
  if (offloads_kept(t)) f.offloaded[i] = slot_buffer("block_offloaded", t, "offloaded");
  if (s_.defer_weights) f.inputs[i] = slot_buffer("weight_inputs", t, "weight_inputs");
  std::vector<Binding>& slots = block_weights(layer);
  slots.push_back({f.hidden[input_of(part(a), l)]});
  if (decoder_.decoder(layer)) slots.push_back(f.memory);
  slots.push_back(y);
  slots.push_back({f.saved[i]});
  if (s_.on_host.kept()) slots.push_back({f.offloaded[i]});
  if (s_.defer_weights) slots.push_back({f.inputs[i]});
  return t;
}

void StageLowering::run_block(const Action& a, std::int64_t l, Phase phase, const Binding& y) {
  const TemplateId t = bind_block(a, l, phase, y);
  add(t, {static_cast<std::int32_t>(part(a).first_layer + l), a.micro_batch, a.chunk, phase}, slots_);
}

void StageLowering::head(const Action& a) {
  InFlight& f = flight(a);
  const TemplateId t = t_.head_forward.of(a.micro_batch);
  f.head_saved = slot_buffer("head_saved", t, "saved");
  gather_.begin();
  std::vector<Binding> slots;
  const bool modules = this->modules(part(a)) > 0;
  if (region(RegionKind::head) >= 0 && (!modules || s_.output_bias)) slots.push_back(memory_.weights(region(RegionKind::head)));
  if (chunked_loss()) {
    slots.insert(slots.end(), {{f.hidden.back()}, {f.head_saved}});
    add(t, key(a), slots);
    return gather_.end();
  }
  slots.insert(slots.end(), {memory_.weights(memory_.output_region()), {modules ? f.states : f.hidden.back()},
                             memory_.targets(a.micro_batch)});
  if (modules) slots.push_back(memory_.mtp_targets(a.micro_batch));
  if (s_.bert) slots.push_back(memory_.labels(a.micro_batch));
  slots.insert(slots.end(), {memory_.loss(), {f.head_saved}});
  if (shows_metrics()) slots.push_back({f.logits = slot_buffer("logits", t, "logits")});
  add(t, key(a), slots);
  gather_.end();
  kept_logits_.drop();
  if (!c_.forward_only) return;
  if (shows_metrics()) drop(f.logits);
  drop(f.head_saved);
  drop(f.hidden.back());
}

}  // namespace tandem::lowering
