// MTP modules run after the last chunk's layers. Forward: before the head, which has all losses. Backward: after the head,
// last module first, as in the autograd of NVIDIA/Megatron-LM (megatron/core/models/gpt/gpt_model.py, _postprocess).

#include "models/lowering/stage/stage_lowering.hpp"

namespace tandem::lowering {

Binding StageLowering::state_in(BufferId all, std::int64_t place) const {
  return {all, 1, bytes_of(s_.dtypes.compute, place * s_.rows * s_.hidden).count()};
}

InstanceKey StageLowering::module_key(const Action& a, std::int64_t module) const {
  return module < 0 ? key(a) : layer_key(a, part(a).first_layer + part(a).layers + module);
}

// ---- forward ----

void StageLowering::modules_forward(const Action& a) {
  InFlight& f = flight(a);
  const ChunkPart& p = part(a);
  f.states = slot_buffer("states", t_.head_forward.first, "states");
  f.norm_saved.assign(static_cast<std::size_t>(p.mtp) + 1, kNoBuffer);
  f.module_saved.assign(static_cast<std::size_t>(p.mtp), kNoBuffer);
  state_norm(a, -1);
  for (std::int64_t k = 0; k < p.mtp; ++k) {
    module_forward(a, k);
    block_forward(a, p.layers + k);
    state_norm(a, k);
  }
}

void StageLowering::state_norm(const Action& a, std::int64_t module) {
  InFlight& f = flight(a);
  const ChunkPart& p = part(a);
  const bool model = module < 0;
  const TemplateId t = model ? t_.mtp.final_norm_forward : t_.mtp.norm_forward;
  BufferId& saved = f.norm_saved[static_cast<std::size_t>(module + 1)];
  saved = slot_buffer("norm_saved", t, "saved");
  const std::int32_t r = model ? region(RegionKind::head) : region(RegionKind::mtp, p.first_layer + p.layers + module);
  const BufferId x = f.hidden[model ? static_cast<std::size_t>(p.layers) : input_of(p, p.layers + module) + 1];
  gather_.begin();
  add(t, module_key(a, module), {memory_.weights(r), {x}, {saved}, state_in(f.states, module + 1)});
  gather_.end();
}

void StageLowering::module_forward(const Action& a, std::int64_t module) {
  InFlight& f = flight(a);
  const ChunkPart& p = part(a);
  BufferId &x = f.hidden[input_of(p, p.layers + module)], &saved = f.module_saved[static_cast<std::size_t>(module)];
  x = slot_buffer("hidden", t_.mtp.forward, "y");
  saved = slot_buffer("mtp_saved", t_.mtp.forward, "saved");
  gather_.begin();
  add(t_.mtp.forward, module_key(a, module),
      {memory_.weights(memory_.word_region()), memory_.weights(region(RegionKind::mtp, p.first_layer + p.layers + module)),
       memory_.mtp_tokens(a.micro_batch, module), state_in(f.states, module), {x}, {saved}});
  gather_.end();
}

// ---- backward ----

void StageLowering::modules_backward(const Action& a) {
  InFlight& f = flight(a);
  const ChunkPart& p = part(a);
  f.word_gradients = slot_buffer("word_gradients", t_.mtp.words.first, "dwords");
  for (std::int64_t k = p.mtp; k-- > 0;) {
    state_norm_backward(a, k);
    block_backward(a, p.layers + k);
    module_backward(a, k);
  }
  drop(f.states);
  module_words(a);
  state_norm_backward(a, -1);
  drop(f.state_gradients);
}

void StageLowering::state_norm_backward(const Action& a, std::int64_t module) {
  InFlight& f = flight(a);
  const ChunkPart& p = part(a);
  const bool model = module < 0;
  const TemplateId t = (model ? t_.mtp.final_norm_backward : t_.mtp.norm_backward).of(a.micro_batch);
  const std::int32_t r = model ? region(RegionKind::head) : region(RegionKind::mtp, p.first_layer + p.layers + module);
  BufferId &x = f.hidden[model ? static_cast<std::size_t>(p.layers) : input_of(p, p.layers + module) + 1],
           &saved = f.norm_saved[static_cast<std::size_t>(module + 1)];
  f.gradient = slot_buffer("gradient", t, "dx");
  make_narrow_gradient(r);
  gather_.begin();
  add(t, module_key(a, module),
      {memory_.weights(r), memory_.gradients(r, a.micro_batch), {x}, {saved}, state_in(f.state_gradients, module + 1),
       {f.gradient}});
  gather_.end();
  drop(saved);
  drop(x);
  if (model) reduction_.completed(r, a.micro_batch);
}

void StageLowering::module_backward(const Action& a, std::int64_t module) {
  InFlight& f = flight(a);
  const ChunkPart& p = part(a);
  const std::int32_t r = region(RegionKind::mtp, p.first_layer + p.layers + module);
  BufferId& saved = f.module_saved[static_cast<std::size_t>(module)];
  gather_.begin();
  add(t_.mtp.backward.of(a.micro_batch), module_key(a, module),
      {memory_.weights(r), memory_.gradients(r, a.micro_batch), state_in(f.states, module), {saved}, {f.gradient},
       state_in(f.state_gradients, module), state_in(f.word_gradients, module)});
  gather_.end();
  drop(saved);
  drop(f.gradient);
  reduction_.completed(r, a.micro_batch);
}

void StageLowering::module_words(const Action& a) {
  InFlight& f = flight(a);
  make_narrow_gradient(memory_.word_region());
  add(t_.mtp.words.of(a.micro_batch), key(a),
      {memory_.word_gradients(WordUse::mtp_input, a.micro_batch), memory_.mtp_tokens(a.micro_batch), {f.word_gradients}});
  drop(f.word_gradients);
  reduction_.completed_word(WordUse::mtp_input, a.micro_batch);
}

}  // namespace tandem::lowering
