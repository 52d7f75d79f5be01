// Works of flash attention.
#include "exec/device/works/attention_places.hpp"

namespace tandem::exec::device {

Works works(const FlashAttention& op, const Operands& at) {
  const Typed q = at.in(0), kv = at.in(1), context = at.out(0);
  FlashKernel kernel{at.form({q, kv, context}), q, kv, context, at.out(1), place_of(op.dims, at, op.ring_step), layout_of(op.dims),
                     op.sinks ? at.in(2) : Typed{}, head_part(op.dims, at.context()) * op.dims.heads, op.ring_step > 0,
                     at.around().scratch};
  kernel.place.alibi = op.alibi;
  kernel.place.soft_cap = op.soft_cap;
  if (op.dropout > 0) kernel.place.dropout = at.dropout(op.site, op.dropout);
  return {kernel};
}

Works works(const FlashAttentionBackward& op, const Operands& at) {
  const FlashGradOperands o{at.in(0), at.in(1), at.in(2), at.in(3), at.in(4), at.out(0), at.out(1)};
  require(!op.sinks || op.ring_step <= 0, "sinks join once");
  AttentionPlace place = place_of(op.dims, at, op.ring_step);
  place.alibi = op.alibi;
  place.soft_cap = op.soft_cap;
  if (op.dropout > 0) place.dropout = at.dropout(op.site, op.dropout);
  const Form form = at.form({o.dcontext, o.q, o.kv, o.context, o.dq, o.dkv});
  const HeadLayout layout = layout_of(op.dims);
  const bool adds = op.ring_step > 0;
  Works all{FlashGradKernels{{form, o, place, layout, adds}, {form, o, place, layout, adds}, at.around().scratch}};
  const std::int64_t parts = op.dims.query_shards(), heads = op.dims.heads;
  if (op.sinks)
    all.push_back(SinkGradKernel{at.form({o.dcontext, o.context}), o.dcontext, o.context, o.stats, at.in(5), at.out(2), place,
                                 layout, head_part(op.dims, at.context()) * heads, parts * heads});
  return all;
}

std::int64_t flash_scratch(const Launch& launch) {
  const WorkContext none;
  const Operands at(launch, none);
  const auto adds = [](const auto& op) { return op.ring_step > 0 && op.dropout == 0; };
  if (const auto* o = std::get_if<FlashAttention>(&launch.op))
    return adds(*o) ? ring_scratch(std::get<FlashKernel>(works(*o, at).front())) : 0;
  const auto& o = std::get<FlashAttentionBackward>(launch.op);
  return adds(o) ? ring_scratch(std::get<FlashGradKernels>(works(o, at).front())) : 0;
}

}  // namespace tandem::exec::device
