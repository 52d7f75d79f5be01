// Transfers between stages, reductions, and the optimizer step.

#include "models/lowering/blocks.hpp"
#include "models/lowering/parameters.hpp"
#include "models/lowering/template_builder.hpp"

namespace tandem::lowering {

Template transfer(std::string name, const Shapes& s, bool send, int stage_offset) {
  TemplateBuilder b(name, s.dtypes.compute);
  const std::int64_t n = s.tokens * s.hidden;
  const Value buffer = b.whole(b.slot("buffer", MemoryKind::communication), s.dtypes.compute, n);
  if (send) b.add("send", Send{n, s.dtypes.compute, stage_offset}, {buffer}, {}, Stream::send);
  else b.add("recv", Recv{n, s.dtypes.compute, stage_offset}, {}, {buffer}, Stream::recv);
  return b.finish();
}

Template reduce(const ReduceSpec& spec) {
  TemplateBuilder b(spec.name, spec.dtype);
  const Value buffer = b.whole(b.slot("buffer", spec.kind), spec.dtype, spec.elements);
  b.add("all_reduce", Collective{CollectiveKind::all_reduce, spec.group, spec.elements, spec.dtype, Reduce::sum}, {buffer},
        {buffer}, Stream::data);
  return b.finish();
}

Template tie(const Shapes& s) {
  TemplateBuilder b("tie", s.dtypes.gradients);
  const std::int64_t n = s.vocab_rows * s.hidden;
  const Value embedding =
      b.whole(b.slot("embedding_gradients", MemoryKind::gradients), s.dtypes.gradients, embedding_params(s).elements)
          .part(embedding_params(s).word, n);
  const Value head = b.whole(b.slot("tied_gradients", MemoryKind::gradients), s.dtypes.gradients, n);
  b.add("add", Accumulate{n, s.dtypes.gradients, s.dtypes.gradients}, {head, embedding}, {embedding});
  return b.finish();
}

Template optimizer_step(const Shapes& s, const OptimizerSpecLocal& spec) {
  TemplateBuilder b("optimizer", s.dtypes.compute);
  const DTypes& d = s.dtypes;
  const std::int64_t n = spec.elements, g = spec.global_parameters;
  const bool master = d.master != d.weights;
  const Value gradients = b.whole(b.slot("gradients", MemoryKind::gradients), d.gradients, n);
  const Value weights = b.whole(b.slot("weights", MemoryKind::weights), d.weights, n);
  const Value exp_avg = b.whole(b.slot("exp_avg", MemoryKind::optimizer), d.optimizer_state, n);
  const Value exp_avg_sq = b.whole(b.slot("exp_avg_sq", MemoryKind::optimizer), d.optimizer_state, n);
  const Value partials = b.whole(b.slot("partials", MemoryKind::workspace), DType::fp64, g);

  b.add("grad_norm", GradNorm{n, g, d.gradients}, {gradients}, {partials});
  if (spec.norm_is_shared)
    b.add("norm_all_reduce", Collective{CollectiveKind::all_reduce, Group::model, g, DType::fp64, Reduce::sum},
          {partials}, {partials}, Stream::data);
  b.add("clip", ClipCoefficient{g, spec.clip_grad}, {partials}, {});
  std::vector<Value> state{weights, exp_avg, exp_avg_sq};
  if (master) state.push_back(b.whole(b.slot("master", MemoryKind::optimizer), d.master, n));
  std::vector<Value> in{gradients};
  in.insert(in.end(), state.begin(), state.end());
  const OptimizerSpec& o = spec.optimizer;
  b.add("adamw", AdamW{n, o.beta1, o.beta2, o.epsilon, o.weight_decay, master, d.gradients, d.weights, d.optimizer_state},
        in, state);
  return b.finish();
}

}  // namespace tandem::lowering
