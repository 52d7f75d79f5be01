// Transfers between stages, reductions, and the optimizer step.

#include "models/lowering/shapes/regions.hpp"
#include "models/lowering/templates/blocks.hpp"
#include "models/lowering/templates/template_builder.hpp"
#include "models/lowering/templates/update_ops.hpp"

namespace tandem::lowering {
namespace {

Collective sum_over(Group group, std::int64_t elements, DType dtype) {
  return {CollectiveKind::all_reduce, group, elements, dtype, Reduce::sum};
}

Value buffer_slot(TemplateBuilder& b, const ReduceSpec& spec) {
  return b.whole(b.slot("buffer", spec.kind), spec.copied ? spec.written : spec.held, spec.elements);
}

Value shard_slot(TemplateBuilder& b, const ReduceSpec& spec) {
  return b.whole(b.slot("shard", spec.kind), spec.held, spec.elements / spec.shards);
}

/// Padding elements travel too, so they must be initialized.
void fill_padding(TemplateBuilder& b, const ReduceSpec& spec, const Value& buffer) {
  if (spec.padding > 0)
    b.add("padding", Fill{spec.padding, buffer.dtype}, {}, {buffer.part(spec.elements - spec.padding, spec.padding)});
}

void copy(TemplateBuilder& b, const std::string& name, const Value& from, const Value& to) {
  b.add(name, Accumulate{to.elements, from.dtype, to.dtype, true}, {from}, {to});
}

bool travels_apart(const ReduceSpec& spec) { return spec.copied || spec.dtype != spec.held; }

/// Copies into the tensor of the collective.
void copy_in(TemplateBuilder& b, const ReduceSpec& spec, const Value& from, const Value& to) {
  copy(b, spec.copied ? "copy_in" : "convert", from, to);
}

/// Moves or adds the rank's share of a sum to its place.
void take(TemplateBuilder& b, ShareGoes goes, const Value& sum, const Value& share) {
  if (goes == ShareGoes::added)
    b.add("accumulate", Accumulate{share.elements, sum.dtype, share.dtype}, {sum, share}, {share});
  else
    copy(b, "keep", sum, share);
}

/// The rank's share of the sum of `sent`: in `to`, or in its place in `sent` if each rank gets the whole sum.
Value share_of_sum(TemplateBuilder& b, const ReduceSpec& spec, const Value& sent, const Value& to) {
  if (spec.summed_whole) {
    b.add("all_reduce", sum_over(spec.group, sent.elements, sent.dtype), {sent}, {sent}, Stream::data);
    return sent.share(spec.group, spec.shards);
  }
  b.add("reduce_scatter", Collective{CollectiveKind::reduce_scatter, spec.group, spec.elements, spec.dtype, Reduce::sum}, {sent}, {to},
        Stream::data);
  return to;
}

/// Sums `v` over `over` and leaves the sum in `v`.
void sum_in_place(TemplateBuilder& b, const ReduceSpec& spec, Group over, const Value& v, Stream stream) {
  const bool apart = spec.dtype != spec.held;
  const Value sent = apart ? b.scratch(spec.dtype, v.elements) : v;
  if (apart) copy(b, "convert", v, sent);
  b.add("all_reduce", sum_over(over, sent.elements, sent.dtype), {sent}, {sent}, stream);
  if (apart) copy(b, "convert_back", sent, v);
}

}  // namespace

Template transfer(std::string name, const Shapes& s, bool send, int stage_offset) {
  TemplateBuilder b(name, s.dtypes.compute);
  const std::int64_t n = s.boundary_elements();
  const Value buffer = b.whole(b.slot("buffer", MemoryKind::communication), s.dtypes.compute, n);
  const Value part = s.scatter_p2p ? buffer.share(Group::tensor, s.tensor) : buffer;
  if (send) b.add("send", Send{part.elements, s.dtypes.compute, stage_offset}, {part}, {}, Stream::send);
  else b.add("recv", Recv{part.elements, s.dtypes.compute, stage_offset}, {}, {part}, Stream::recv);
  Template t = b.finish();
  t.host_waits = !send && s.host_receives;
  return t;
}

Template gather_transfer(const Shapes& s) {
  TemplateBuilder b("gather_received", s.dtypes.compute);
  const Value buffer = b.whole(b.slot("buffer", MemoryKind::communication), s.dtypes.compute, s.boundary_elements());
  b.add("received_all_gather",
        Collective{CollectiveKind::all_gather, Group::tensor, buffer.elements, buffer.dtype, Reduce::sum},
        {buffer.share(Group::tensor, s.tensor)}, {buffer}, Stream::tensor);
  Template t = b.finish();
  t.host_waits = s.host_receives;
  return t;
}

Template all_reduce(const ReduceSpec& spec, Stream stream) {
  TemplateBuilder b(spec.name, spec.dtype);
  const Value buffer = buffer_slot(b, spec);
  fill_padding(b, spec, buffer);
  sum_in_place(b, spec, spec.group, buffer, stream);
  return b.finish();
}

Template reduce_scatter(const ReduceSpec& spec, ShareGoes goes) {
  TemplateBuilder b(spec.name, spec.dtype);
  const Value buffer = buffer_slot(b, spec);
  const Value shard = goes == ShareGoes::in_place ? buffer.share(spec.group, spec.shards) : shard_slot(b, spec);
  fill_padding(b, spec, buffer);
  Value sum = buffer;  // no other rank: the sum is the rank's own value
  if (spec.shards > 1) {
    const bool apart = travels_apart(spec);
    const Value sent = apart ? b.scratch(spec.dtype, buffer.elements) : buffer;
    if (apart) copy_in(b, spec, buffer, sent);
    const bool direct = goes == ShareGoes::written && spec.dtype == spec.held && !spec.summed_whole;
    sum = share_of_sum(b, spec, sent, direct ? shard : sent.share(spec.group, spec.shards));
    if (direct || (goes == ShareGoes::in_place && spec.dtype == spec.held)) return b.finish();
  }
  take(b, goes, sum, shard);
  return b.finish();
}

Template scatter_sum(const ReduceSpec& spec) {
  TemplateBuilder b(spec.name, spec.dtype);
  const Value buffer = buffer_slot(b, spec);
  fill_padding(b, spec, buffer);
  Value sent = buffer;
  if (travels_apart(spec)) {
    sent = b.whole(b.slot("sent", spec.kind), spec.dtype, spec.elements);
    copy_in(b, spec, buffer, sent);
  }
  share_of_sum(b, spec, sent, sent.share(spec.group, spec.shards));
  return b.finish();
}

Template scatter_copied(const ReduceSpec& spec) {
  TemplateBuilder b(spec.name, spec.dtype);
  const Value buffer = buffer_slot(b, spec), sent = b.whole(b.slot("sent", spec.kind), spec.dtype, spec.elements);
  const Value shard = shard_slot(b, spec);
  fill_padding(b, spec, buffer);
  copy_in(b, spec, buffer, sent);
  share_of_sum(b, spec, sent, shard);
  return b.finish();
}

Template take_sum(const ReduceSpec& spec, ShareGoes goes) {
  TemplateBuilder b(spec.name, spec.dtype);
  const Value sum = b.whole(b.slot("sent", spec.kind), spec.dtype, spec.elements).share(spec.group, spec.shards);
  take(b, goes, sum, shard_slot(b, spec));
  return b.finish();
}

Template all_gather(const ReduceSpec& spec) {
  TemplateBuilder b(spec.name, spec.dtype);
  const Value buffer = buffer_slot(b, spec);
  b.add("all_gather", Collective{CollectiveKind::all_gather, spec.group, spec.elements, spec.dtype, Reduce::sum},
        {buffer.share(spec.group, spec.shards)}, {buffer}, Stream::data);
  return b.finish();
}

Template sum_apart(const ReduceSpec& spec) {
  if (spec.shards > 1) return scatter_sum(spec);
  TemplateBuilder b(spec.name, spec.dtype);
  const Value buffer = buffer_slot(b, spec);
  fill_padding(b, spec, buffer);
  const Value sent = b.whole(b.slot("sent", spec.kind), spec.dtype, spec.elements);
  copy(b, "convert", buffer, sent);
  b.add("all_reduce", sum_over(spec.group, sent.elements, sent.dtype), {sent}, {sent}, Stream::data);
  return b.finish();
}

Template take_apart(const ReduceSpec& spec) {
  TemplateBuilder b(spec.name, spec.dtype);
  const Value sent = b.whole(b.slot("sent", spec.kind), spec.dtype, spec.elements), buffer = buffer_slot(b, spec);
  copy(b, "convert_back", sent.share(spec.group, spec.shards), buffer.share(spec.group, spec.shards));
  return b.finish();
}

Template sum_share(const ReduceSpec& spec, Group over, bool whole) {
  TemplateBuilder b(spec.name, spec.dtype);
  const Value share = whole ? buffer_slot(b, spec).share(spec.group, spec.shards) : shard_slot(b, spec);
  sum_in_place(b, spec, over, share, Stream::data);
  return b.finish();
}

Template send_share(const ReduceSpec& spec, Group over) {
  TemplateBuilder b(spec.name, spec.dtype);
  const Value shard = shard_slot(b, spec), sent = b.whole(b.slot("sent", spec.kind), spec.dtype, shard.elements);
  copy(b, "convert", shard, sent);
  b.add("all_reduce", sum_over(over, sent.elements, sent.dtype), {sent}, {sent}, Stream::data);
  return b.finish();
}

Template take_share(const ReduceSpec& spec) {
  TemplateBuilder b(spec.name, spec.dtype);
  const Value sent = b.whole(b.slot("sent", spec.kind), spec.dtype, spec.elements / spec.shards);
  copy(b, "convert_back", sent, shard_slot(b, spec));
  return b.finish();
}

Template tie(const ReduceSpec& spec, bool whole) {
  TemplateBuilder b("tie", spec.dtype);
  const std::int64_t n = whole ? spec.elements : spec.elements / spec.shards;
  const auto use = [&](std::string name) {
    const Value all = b.whole(b.slot(std::move(name), spec.kind), spec.held, n);
    return whole ? all.share(spec.group, spec.shards) : all;
  };
  const Value to = use("to"), from = use("from");
  b.add("add", Accumulate{to.elements, spec.held, spec.held}, {from, to}, {to});
  return b.finish();
}

namespace {

/// Computes the norm over all ranks from `sums`, and the clip coefficient.
void add_validation(TemplateBuilder& b, const UpdateSpec& spec, const Value& sums) {
  if (spec.norm_is_shared)
    b.add("norm_all_reduce", norm_sum(spec), {sums}, {sums}, Stream::data);
  b.add("clip", clip_of(spec), {sums}, {});
}

Value norm_slot(TemplateBuilder& b) { return b.whole(b.slot("sums", MemoryKind::workspace), DType::int64, kExactWords); }

/// The optimizer's template: norm, clip coefficient, then the update of the chosen kind.
class UpdateWriter {
 public:
  UpdateWriter(const Shapes& s, const UpdateSpec& spec)
      : s_(s), spec_(spec), o_(spec.optimizer), d_(s.dtypes), master_(d_.master != spec.weights),
        master_type_(held_master(s.fusion, d_)), b_("optimizer", d_.compute),
        gradients_(slot("gradients", MemoryKind::gradients, d_.gradients, spec.gradient_elements)),
        weights_(spec.weight_elements > 0 ? slot("weights", MemoryKind::weights, spec.weights, spec.weight_elements) : Value{}),
        sums_(norm_slot(b_)) {}

  Template write() {
    own_norm();
    if (!spec_.post_validated) add_validation(b_, spec_, sums_);
    if (spec_.state_elements > 0) update();
    return b_.finish();
  }

 private:
  void update() {
    switch (o_.kind) {
      case OptimizerKind::adamw: case OptimizerKind::sgd: case OptimizerKind::muon:
        for (const Op& op : updates_of(spec_, d_)) apart(op);
        break;
      case OptimizerKind::lamb: layerwise(LayerwiseKind::lamb); break;
      case OptimizerKind::lans: layerwise(LayerwiseKind::lans); break;
    }
  }

  Value slot(std::string name, MemoryKind kind, DType dtype, std::int64_t elements) {
    return b_.whole(b_.slot(std::move(name), kind), dtype, elements);
  }
  Value state(std::string name, DType dtype) {
    return slot(std::move(name), MemoryKind::optimizer, dtype, spec_.state_elements);
  }
  Value state(const OptimizerState& kept) {
    return slot(kept.name, MemoryKind::optimizer, kept.type, elements_of(kept, spec_));
  }
  void sum(const std::string& name, const Value& v) {
    if (spec_.norm_is_shared)
      b_.add(name, sum_over(spec_.norm_group, v.elements, v.dtype), {v}, {v}, Stream::data);
  }
  /// in + out, where every out is also read.
  static std::vector<Value> all(std::vector<Value> in, const std::vector<Value>& out) {
    in.insert(in.end(), out.begin(), out.end());
    return in;
  }

  void own_norm() { b_.add("grad_norm", lowering::own_norm(spec_, d_), {gradients_}, {sums_}); }

  /// An update without sums over parameters. Weights and states are read and written; Muon has no second moment, and room in its place.
  void apart(const Op& op) {
    const auto* muon = std::get_if<Muon>(&op);
    std::vector<Value> in{gradients_, weights_}, out{weights_};
    for (const OptimizerState& kept : optimizer_states(o_, spec_.weights, s_)) {
      if (muon != nullptr && kept.squared) {
        out.push_back(b_.scratch(muon->iteration, muon->room_elements()));
        continue;
      }
      out.push_back(state(kept));
      in.push_back(out.back());
    }
    b_.add(std::string(kind_name(op)), op, std::move(in), std::move(out));
  }

  void layerwise(LayerwiseKind kind) {
    const Value m = state("exp_avg", d_.optimizer_state), v = state("exp_avg_sq", d_.optimizer_state);
    const LayerwiseMoments moments{kind, spec_.state_elements, spec_.global_parameters, o_.beta1, o_.beta2, o_.epsilon,
                                   o_.weight_decay, master_, d_.gradients, spec_.weights, d_.optimizer_state, spec_.stochastic,
                                   d_.master};
    const Value norms = slot("tensor_sums", MemoryKind::workspace, DType::int64,
                             spec_.global_parameters * moments.norms() * kExactWords);
    std::vector<Value> gradient_norms;
    if (kind == LayerwiseKind::lans) {
      gradient_norms = {slot("gradient_sums", MemoryKind::workspace, DType::int64, spec_.global_parameters * kExactWords)};
      b_.add("tensor_norms", TensorNorms{spec_.own_elements, spec_.global_parameters, d_.gradients}, {gradients_},
             gradient_norms);
      sum("tensor_norms_all_reduce", gradient_norms.front());
    }
    std::vector<Value> out{weights_};
    if (master_) out.push_back(state("master", master_type_));
    b_.add("moments", moments, all({gradients_, out.back(), m, v}, gradient_norms), {m, v, norms});
    sum("moments_all_reduce", norms);
    const LayerwiseApply apply{kind, spec_.state_elements, spec_.global_parameters, o_.beta1, o_.beta2, o_.epsilon,
                               o_.weight_decay, master_, d_.gradients, spec_.weights, d_.optimizer_state, spec_.stochastic,
                               d_.master};
    b_.add(kind == LayerwiseKind::lamb ? "lamb" : "lans", apply, all(all({gradients_, m, v, norms}, gradient_norms), out), out);
  }

  const Shapes& s_;
  const UpdateSpec& spec_;
  const OptimizerSpec& o_;
  const DTypes& d_;
  bool master_;
  DType master_type_;
  TemplateBuilder b_;
  Value gradients_, weights_, sums_;
};

}  // namespace

Template offloaded_update(const Shapes& s, const OffloadedUpdate& spec) {
  const DTypes& d = s.dtypes;
  const OptimizerSpec& o = spec.optimizer;
  const std::int64_t n = spec.unit.elements / spec.unit.shards;
  TemplateBuilder b("offloaded_update", d.compute);
  const auto part = [&](const char* name, MemoryKind kind, DType type, bool whole) {
    const Value all = b.whole(b.slot(name, kind), type, whole ? spec.unit.elements : n);
    return whole ? all.share(spec.unit.group, spec.unit.shards) : all;
  };
  const Value gradients = part("gradients", MemoryKind::gradients, d.gradients, spec.whole_gradients);
  const Value weights = part("weights", MemoryKind::weights, spec.weights, spec.whole_weights);
  const std::vector<OptimizerState> kept = optimizer_states(o, spec.weights, s);
  std::vector<Value> states;
  for (const OptimizerState& state : kept) states.push_back(part(state.name, MemoryKind::optimizer, state.type, false));
  const auto travel = [&](const Value& v, bool to_host, const std::string& name) {
    b.add(name + (to_host ? "_to_host" : "_from_host"), HostCopy{v.elements, v.dtype, to_host},
          to_host ? std::vector<Value>{v} : std::vector<Value>{}, to_host ? std::vector<Value>{} : std::vector<Value>{v},
          Stream::host);
  };
  for (std::size_t i = 0; i < states.size(); ++i) travel(states[i], false, kept[i].name);
  // Copied to the device even if a master rewrites them: a skipped update (non-finite gradients) must copy them back.
  if (spec.weights_too) travel(weights, false, "weights");
  std::vector<Value> out{weights};
  out.insert(out.end(), states.begin(), states.end());
  std::vector<Value> in{gradients};
  in.insert(in.end(), out.begin(), out.end());
  b.add("adamw", adamw_of(o, d, spec.weights, n), std::move(in), std::move(out));
  for (std::size_t i = 0; i < states.size(); ++i) travel(states[i], true, kept[i].name);
  if (spec.weights_too) travel(weights, true, "weights");
  return b.finish();
}

Template optimizer_step(const Shapes& s, const UpdateSpec& spec) { return UpdateWriter(s, spec).write(); }

Template validation(const Shapes& s, const UpdateSpec& spec) {
  TemplateBuilder b("validation", s.dtypes.compute);
  add_validation(b, spec, norm_slot(b));
  return b.finish();
}

}  // namespace tandem::lowering
