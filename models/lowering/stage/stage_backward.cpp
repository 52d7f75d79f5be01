#include <utility>

#include "models/lowering/stage/stage_lowering.hpp"

namespace tandem::lowering {

void StageLowering::backward(const Action& a) {
  InFlight& f = flight(a);
  const ChunkPart& p = part(a);
  begin_backward(a);
  for (std::int64_t l = p.layers; l-- > 0;) {
    block_backward(a, l);
    if (decoder_.bridge_before(p, l)) decoder_.bridge_backward(a, f);
  }
  end_backward(a);
}

void StageLowering::begin_backward(const Action& a) {
  InFlight& f = flight(a);
  const ChunkPart& p = part(a);
  if (turns(a, Phase::backward)) f.gradient = std::exchange(other_chunk(a).gradient, kNoBuffer);
  if (s_.defer_weights) f.deferred.assign(static_cast<std::size_t>(p.blocks()), kNoBuffer);
  if (memory_.weights_sharded()) gather_backward(p);
  decoder_.start_tables(a);
  offload_.before_pass(a, f);
  drop_narrow_gradients();
  if (p.last) head_backward(a);
  if (modules(p) > 0) modules_backward(a);
  decoder_.start_backward(a, f);
}

void StageLowering::end_backward(const Action& a) {
  InFlight& f = flight(a);
  const ChunkPart& p = part(a);
  decoder_.leave_backward(a, f);
  if (p.first) embed_backward(a);
  decoder_.complete_tables(a);
  gather_.let_go(memory_.root_regions(p));
  reduction_.end_pass();
  if (p.last && shows_metrics()) metrics(a);
  if (!s_.defer_weights || a.whole) finish_flight(a);
}

void StageLowering::finish_flight(const Action& a) {
  InFlight& f = flight(a);
  f.hidden.clear();
  f.saved.clear();
  f.offloaded.clear();
  f.away.clear();
  f.inputs.clear();
  f.norm_saved.clear();
  f.module_saved.clear();
}

void StageLowering::head_backward(const Action& a) {
  InFlight& f = flight(a);
  const bool modules = this->modules(part(a)) > 0;
  BufferId& dx = modules ? f.state_gradients : f.gradient;
  dx = modules ? slot_buffer("state_gradients", t_.head_backward.first, "dstates")
               : w_.buffer("gradient", decoder_.gradient_bytes(part(a), part(a).layers));
  gather_.begin();
  const std::int32_t head = modules && !s_.output_bias ? -1 : region(RegionKind::head);
  std::vector<Binding> slots;
  const bool trained = !memory_.only_adapters();
  if (head >= 0) slots.push_back(memory_.weights(head));
  if (head >= 0 && trained) slots.push_back(memory_.gradients(head, a.micro_batch));
  slots.push_back(memory_.weights(memory_.output_region()));
  if (trained) slots.push_back(memory_.output_gradients(a.micro_batch));
  slots.push_back({modules ? f.states : f.hidden.back()});
  if (chunked_loss()) slots.insert(slots.end(), {memory_.targets(a.micro_batch), memory_.loss()});
  slots.insert(slots.end(), {{f.head_saved}, {dx}});
  if (head >= 0) make_narrow_gradient(head);
  make_narrow_gradient(memory_.output_region());
  add(t_.head_backward.of(a.micro_batch), key(a), slots);
  gather_.end();
  drop(f.head_saved);
  kept_logits_.keep();
  if (!modules) drop(f.hidden.back());
  if (!trained) return;
  if (!modules && head >= 0) reduction_.completed(head, a.micro_batch);
  if (s_.tied) reduction_.completed_word(WordUse::output, a.micro_batch);
  else reduction_.completed(region(RegionKind::output), a.micro_batch);
}

void StageLowering::block_backward(const Action& a, std::int64_t l) {
  const TemplateId t = begin_block_backward(a, l);
  add(t, layer_key(a, part(a).first_layer + l), slots_);
  end_block_backward(a, l);
  if (a.whole) block_weights_backward(a, l);
}

TemplateId StageLowering::begin_block_backward(const Action& a, std::int64_t l) {
  InFlight& f = flight(a);
  const auto i = static_cast<std::size_t>(l);
  const std::int64_t layer = part(a).first_layer + l;
  gather_.begin();
  fetch_offloaded(a, l);
  next_gradient_ = recompute_and_begin(a, l);
  const TemplateId t = blocks_.backward(part(a), l).of(a.micro_batch);
  std::vector<Binding>& slots = block_weights(layer);
  add_gradients(slots, t, layer, a.micro_batch);
  slots.push_back({f.hidden[input_of(part(a), l)]});
  if (decoder_.decoder(layer)) slots.push_back(f.memory);
  slots.push_back({f.saved[i]});
  if (s_.on_host.kept()) slots.push_back({f.offloaded[i]});
  if (s_.defer_weights) slots.push_back({f.inputs[i]});
  slots.push_back({f.gradient});
  slots.push_back({next_gradient_});
  if (decoder_.decoder(layer)) slots.push_back(f.memory_gradient);
  if (s_.defer_weights) {
    f.deferred[i] = slot_buffer("weight_gradient_inputs", t, "deferred");
    slots.push_back({f.deferred[i]});
  }
  for (const std::int32_t r : regions_.layer(layer)) make_narrow_gradient(r);
  return t;
}

void StageLowering::end_block_backward(const Action& a, std::int64_t l) {
  InFlight& f = flight(a);
  const auto i = static_cast<std::size_t>(l);
  gather_.end();
  decoder_.drop_gradient(f);
  f.gradient = next_gradient_;
  drop_saved(f, i);
  offload_.free_copied();
  if (!s_.defer_weights) block_done(a, l);
  else if (!reads_input_later(a, l)) drop(f.hidden[input_of(part(a), l)]);
}

/// The first block of the next backward pass comes back during this pass' last one, if its forward pass has ended.
void StageLowering::fetch_offloaded(const Action& a, std::int64_t l) {
  offload_.before_backward(a, flight(a), l);
  if (l == 0 && next_backward_) offload_.before_pass(*next_backward_, flight(*next_backward_));
}

void StageLowering::drop_saved(InFlight& f, std::size_t l) {
  if (f.saved[l] != kNoBuffer) drop(f.saved[l]);
  if (f.offloaded[l] != kNoBuffer) drop(f.offloaded[l]);
}

void StageLowering::drop_narrow_gradients() {
  for (BufferId& b : narrow_) drop(b);
  narrow_.clear();
  narrow_made_.clear();
}

void StageLowering::make_narrow_gradient(std::int32_t region) {
  const Bytes bytes = memory_.narrow_gradient(region);
  if (bytes.count() > 0 && narrow_made_.insert(region).second)
    narrow_.push_back(b_.allocate("narrow_gradients", MemoryKind::gradients, bytes));
}

bool StageLowering::reads_input_later(const Action& a, std::int64_t l) const {
  const TemplateId t = block(part(a), l).weights.of(a.micro_batch);
  return c_.library.touches(t, c_.library.slot(t, "x"));
}

void StageLowering::drop_kept(InFlight& f, std::size_t l) {
  drop_saved(f, l);
  if (s_.defer_weights) drop(f.inputs[l]);
}

void StageLowering::block_done(const Action& a, std::int64_t l) {
  if (BufferId& x = flight(a).hidden[input_of(part(a), l)]; x != kNoBuffer) drop(x);
  for (const std::int32_t r : regions_.layer(part(a).first_layer + l))
    if (r != region(RegionKind::relative)) reduction_.completed(r, a.micro_batch);
}

BufferId StageLowering::recompute_and_begin(const Action& a, std::int64_t l) {
  const TemplateId backward = blocks_.backward(part(a), l).of(a.micro_batch);
  const bool wanted = c_.library.touches(backward, c_.library.slot(backward, "dx"));
  const auto gradient = [&] { return wanted ? w_.buffer("gradient", decoder_.gradient_bytes(part(a), l)) : kNoBuffer; };
  if (!blocks_.recomputed(part(a), l)) return gradient();
  const TemplateId t = block(part(a), l).again;
  if (c_.library.touches(t, c_.library.slot(t, "y"))) {
    BufferId y = w_.slot_buffer("recomputed_hidden", t, "y");
    run_block(a, l, Phase::recompute, {y});
    drop(y);
    return gradient();
  }
  const Bytes bytes = decoder_.gradient_bytes(part(a), l);
  const BufferId dx = wanted ? b_.allocate_later("gradient", MemoryKind::activations, bytes) : kNoBuffer;
  run_block(a, l, Phase::recompute, {});
  return dx;
}

void StageLowering::embed_backward(const Action& a) {
  InFlight& f = flight(a);
  if (memory_.only_adapters()) return drop_embedding(f);
  const std::int32_t embedding = region(RegionKind::embedding);
  if (embedding >= 0) gather_.begin();
  std::vector<Binding> slots{memory_.word_gradients(WordUse::input, a.micro_batch)};
  if (embedding >= 0)
    slots.insert(slots.end(), {memory_.weights(embedding), memory_.gradients(embedding, a.micro_batch)});
  if (const std::int32_t p = region(RegionKind::positions); p >= 0) slots.push_back(memory_.gradients(p, a.micro_batch));
  slots.push_back(memory_.tokens(a.micro_batch));
  if (s_.token_types > 0) slots.push_back(memory_.types(a.micro_batch));
  slots.insert(slots.end(), {{f.embed_saved}, {f.gradient}});
  for (const std::int32_t r : {memory_.word_region(), embedding, region(RegionKind::positions)})
    if (r >= 0) make_narrow_gradient(r);
  add(t_.embed_backward.of(a.micro_batch), key(a), slots);
  if (embedding >= 0) gather_.end();
  drop_embedding(f);
  if (embedding >= 0) reduction_.completed(embedding, a.micro_batch);
  reduction_.completed_word(WordUse::input, a.micro_batch);
}

void StageLowering::drop_embedding(InFlight& f) {
  if (f.embed_saved != kNoBuffer) drop(f.embed_saved);
  if (f.embed_mask != kNoBuffer) drop(f.embed_mask);
  if (f.gradient != kNoBuffer) drop(f.gradient);
}

void StageLowering::metrics(const Action& a) {
  InFlight& f = flight(a);
  BufferId copies = slot_buffer("metrics", t_.metrics, "copies");
  add(t_.metrics, key(a), {memory_.targets(a.micro_batch), {f.logits}, {copies}});
  drop(copies);
  drop(f.logits);
}

WeightGather::Needs StageLowering::weights_again(const Action& a) const {
  const ChunkPart& p = part(a);
  WeightGather::Needs needs;
  for (std::int64_t l = p.blocks(); l-- > 0;) {
    const std::vector<std::int32_t>& all = regions_.layer(p.first_layer + l);
    std::vector<std::int32_t>& read = needs.emplace_back();
    for (std::size_t i = 0; i < all.size(); ++i)
      if (c_.library.touches(block(p, l).weights.of(a.micro_batch), static_cast<std::uint16_t>(i + 1))) read.push_back(all[i]);
  }
  return needs;
}

void StageLowering::weights(const Action& a) {
  reduction_.before_weights();
  const ChunkPart& p = part(a);
  if (memory_.weights_sharded()) gather_.plan(weights_again(a));
  for (std::int64_t l = p.blocks(); l-- > 0;) block_weights_backward(a, l);
  reduction_.settle();
  finish_flight(a);
}

void StageLowering::block_weights_backward(const Action& a, std::int64_t l) {
  InFlight& f = flight(a);
  const auto i = static_cast<std::size_t>(l);
  const std::int64_t layer = part(a).first_layer + l;
  gather_.begin();
  const TemplateId t = block(part(a), l).weights.of(a.micro_batch);
  std::vector<Binding>& slots = block_weights(layer, t);
  add_gradients(slots, t, layer, a.micro_batch);
  slots.insert(slots.end(), {{f.hidden[input_of(part(a), l)]}, {f.inputs[i]}, {f.deferred[i]}});
  add(t, {static_cast<std::int32_t>(layer), a.micro_batch, a.chunk, Phase::weight}, slots);
  gather_.end();
  drop(f.inputs[i]);
  drop(f.deferred[i]);
  block_done(a, l);
}

}  // namespace tandem::lowering
