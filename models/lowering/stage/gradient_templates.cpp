// Templates for units of gradients and weights, and the groups that exchange them.

#include "models/lowering/stage/gradient_reduction.hpp"

#include <utility>

#include "models/lowering/templates/unit_copies.hpp"
#include "models/plan/mesh.hpp"

namespace tandem::lowering {

TemplateId GradientReduction::add(Template t) {
  all_.push_back(c_.library.add(std::move(t)));
  return all_.back();
}

Group GradientReduction::group_of(const ShardUnit& u) const {
  return u.replication == Replication::expert ? Group::expert_shard : Group::shard;
}
Group GradientReduction::sum_group(const ShardUnit& u) const {
  return u.replication == Replication::expert ? Group::expert_data : Group::data;
}
std::int64_t GradientReduction::ranks_of(const ShardUnit& u) const {
  return u.replication == Replication::expert ? expert_copies(c_.plan) : data_;
}

ReduceSpec GradientReduction::spec_of(std::int32_t unit, std::string name, DType dtype, MemoryKind kind) const {
  const ShardUnit& u = memory_.unit(unit);
  const DType held = kind == MemoryKind::gradients ? s_.dtypes.gradients : dtype;
  const std::int64_t shards = memory_.whole_owned() ? 1 : u.shards;
  ReduceSpec spec{std::move(name), group_of(u), u.elements, memory_.padding(unit), dtype, kind, shards, held};
  spec.copied = s_.unit_copies != UnitCopies::none;
  spec.written = s_.written_gradients();
  spec.summed_whole = !c_.plan.parallel.reduce_scatter && !memory_.weights_sharded();
  return spec;
}

GradientReduction::UnitTemplates GradientReduction::unit_templates(std::int32_t unit) {
  const ShardUnit& u = memory_.unit(unit);
  const bool tied = memory_.is_extra(unit);
  const DType d = s_.dtypes.gradient_reduce;
  UnitTemplates t;
  if (u.frozen) {
    if (memory_.weights_sharded()) add_gather(unit, t);
    return t;
  }
  if (ranks_of(u) == 1 && whole_gradients()) return t;
  ReduceSpec spec = spec_of(unit, tied ? "tied_grad_reduce" : "grad_reduce", d, MemoryKind::gradients);
  if (spec.shards == 1 && whole_gradients()) {
    spec.group = sum_group(u);
    if (sent_apart(spec)) whole_in_halves(spec, t);
    else t.reduce = add(all_reduce(spec));
    if (u.shards > 1 && !tied) add_gather(unit, t);
    return t;
  }
  gradient_templates(unit, spec, t);
  if (ranks_of(u) > u.shards) {
    const Group replicas = u.replication == Replication::expert ? Group::expert_replica : Group::replica;
    const bool halves = !whole_gradients() && spec.dtype != spec.held;
    t.replicas = add(halves ? send_share(spec, replicas) : sum_share(spec, replicas, whole_gradients()));
    if (halves) t.replicas_back = add(take_share(spec));
  }
  if (!tied && (u.shards > 1 || memory_.weights_sharded())) add_gather(unit, t);
  return t;
}

void GradientReduction::add_gather(std::int32_t unit, UnitTemplates& t) {
  t.gather = add(weight_gather(unit));
  if (s_.unit_copies == UnitCopies::per_parameter)
    t.copy_out = add(copy_out(spec_of(unit, "weight_copy_out", s_.dtypes.weights, MemoryKind::weights)));
}

/// Templates of a unit with sharded gradients.
void GradientReduction::gradient_templates(std::int32_t unit, const ReduceSpec& spec, UnitTemplates& t) {
  const bool later = each_micro_batch() && micro_batches_ > 1, direct = spec.dtype == spec.held && !spec.summed_whole;
  if (in_halves(unit)) {
    if (direct) t.scatter_first = add(spec.copied ? scatter_copied(spec) : reduce_scatter(spec, ShareGoes::written));
    else t.take_first = add(take_sum(spec, ShareGoes::written));
    if (later || !direct) t.send = add(scatter_sum(spec));
    if (later) t.take_later = add(take_sum(spec, ShareGoes::added));
  } else if (sent_apart(spec) && spec.shards > 1) {
    whole_in_halves(spec, t);
  } else if (spec.shards > 1 || each_micro_batch()) {
    t.scatter_first = add(reduce_scatter(spec, whole_gradients() ? ShareGoes::in_place : ShareGoes::written));
    if (later) t.scatter_later = add(reduce_scatter(spec, ShareGoes::added));
  }
}

bool GradientReduction::sent_apart(const ReduceSpec& spec) const {
  return whole_gradients() && beside_ && spec.dtype != spec.held;
}

void GradientReduction::whole_in_halves(const ReduceSpec& spec, UnitTemplates& t) {
  t.send = add(sum_apart(spec));
  t.take_first = add(take_apart(spec));
}

Template GradientReduction::weight_gather(std::int32_t unit) const {
  const ReduceSpec spec = spec_of(unit, "weight_gather", s_.dtypes.weights, MemoryKind::weights);
  if (!memory_.weights_sharded()) return all_gather(spec);
  return gather_unit(spec, s_.stored_weights(), s_.unit_copies, memory_.weights_offloaded());
}

TemplateId GradientReduction::offloaded_template(std::int32_t unit) {
  const ReduceSpec spec = spec_of(unit, "", s_.dtypes.gradients, MemoryKind::gradients);
  return add(offloaded_update(s_, {spec, whole_gradients(), !memory_.weights_sharded(), memory_.weights_offloaded(),
                                   s_.stored_weights(), c_.plan.training.optimizer}));
}

void GradientReduction::prepare() {
  const DType d = s_.dtypes.gradient_reduce;
  const auto units = memory_.extra_unit(memory_.extras());
  uses_added_ = memory_.extras() > 0 && whole_gradients() && !memory_.uses_apart();
  for (std::int32_t u = 0; u < units; ++u) {
    units_.push_back(uses_added_ && memory_.is_extra(u) ? UnitTemplates{} : unit_templates(u));
    if (!memory_.is_extra(u) && memory_.offloaded(u)) units_.back().offloaded = offloaded_template(u);
  }
  reduced_.assign(static_cast<std::size_t>(units), false);
  for (std::int32_t u = 0; u < units; ++u) root_.push_back(memory_.in_root(u));
  if (s_.tensor > 1)
    for (std::size_t r = 0; r < memory_.params().regions.size(); ++r) {
      if (memory_.frozen(static_cast<std::int32_t>(r))) continue;
      const RegionLayout& layout = memory_.params().regions[r].layout;
      const std::int64_t n = s_.sequence_parallel ? layout.partial_elements() : layout.head_elements();
      if (n > 0)
        partial_[static_cast<std::int32_t>(r)] =
            add(all_reduce({"sequence_grad_reduce", Group::tensor, n, 0, s_.written_gradients(), MemoryKind::gradients, 1,
                            s_.written_gradients()}, Stream::tensor));
    }
  if (memory_.last() && data_ > 1)
    loss_ = add(all_reduce({"loss_reduce", Group::data, memory_.losses(), 0, DType::fp64, MemoryKind::workspace, 1, DType::fp64}));
  if (memory_.word_region() >= 0 && !memory_.only_adapters() && word_stages(c_.plan).size() > 1)
    tie_stages_ = across_stages(memory_.word_region(), "tie_reduce", Group::embedding);
  if (s_.relative_buckets > 0 && c_.plan.parallel.pipeline > 1)
    tables_ = across_stages(memory_.params().tables(), "relative_reduce", Group::pipeline);
  if (s_.shared_positions() && memory_.params().tables() >= 0 && position_stages(c_.plan).size() > 1)
    tables_ = across_stages(memory_.params().tables(), "position_reduce", Group::position);
  if (memory_.extras() > 0) {
    ReduceSpec spec = spec_of(memory_.extra_unit(0), "tie", d, MemoryKind::gradients);
    if (memory_.sharding().zero_stage == 0 || uses_added_) spec.elements = s_.vocab_rows * s_.hidden;  // no padding
    if (uses_added_) spec.shards = 1;
    tie_ = add(tie(spec, whole_gradients()));
  }
  optimizer_ = add(optimizer_step(s_, memory_.update_spec()));
  if (memory_.update_spec().post_validated) validation_ = add(validation(s_, memory_.update_spec()));
}

/// Sum over the stages' gradients of a matrix that each has a copy of.
TemplateId GradientReduction::across_stages(std::int32_t region, std::string name, Group group) {
  const StageRegion& r = memory_.params().regions[static_cast<std::size_t>(region)];
  ReduceSpec spec = spec_of(r.unit, std::move(name), s_.dtypes.gradient_reduce, MemoryKind::gradients);
  if (memory_.sharding().zero_stage == 0) spec.elements = r.layout.elements();
  return add(sum_share(spec, group, whole_gradients()));
}

std::vector<TemplateId> GradientReduction::forward_templates() const {
  std::vector<TemplateId> used;
  for (const UnitTemplates& t : units_)
    for (const TemplateId each : {t.gather, t.copy_out})
      if (exists(each)) used.push_back(each);
  if (exists(loss_)) used.push_back(loss_);
  return used;
}

}  // namespace tandem::lowering
