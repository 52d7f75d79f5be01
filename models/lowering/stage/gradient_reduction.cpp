#include "models/lowering/stage/gradient_reduction.hpp"

#include <algorithm>
#include <utility>

#include "models/plan/mesh.hpp"
#include "models/schedule/schedule.hpp"
#include "models/stack/gradient_buckets.hpp"

namespace tandem::lowering {
namespace {

InstanceKey key_of(std::int32_t layer, std::int32_t mb, Phase phase) { return {layer, mb, 0, phase}; }

}  // namespace

GradientReduction::GradientReduction(const StageContext& c, StageId stage, StageMemory& memory, ProgramBuilder& builder)
    : c_(c), s_(c.shapes), memory_(memory), b_(builder), micro_batches_(static_cast<std::int32_t>(c.plan.micro_batches())),
      beside_(reduces_beside_backward(c.plan.parallel, stage)),
      aligned_(beside_ && whole_gradients() && gradient_buckets(c.plan).aligned), stage_(stage.value()),
      data_(c.plan.parallel.data * c.plan.parallel.context) {}

// ---- as gradients are completed ----

void GradientReduction::completed(std::int32_t region, std::int32_t mb) {
  if (memory_.frozen(region)) return;
  if (each_micro_batch() || mb == micro_batches_ - 1) sum_partial(region, mb);
  count(memory_.params().regions[static_cast<std::size_t>(region)].unit, mb);
}

void GradientReduction::completed_word(WordUse use, std::int32_t mb) {
  const std::int32_t extra = memory_.extra_unit(use);
  if (uses_added_ && extra < 0 && mb == micro_batches_ - 1) tie_embeddings();  // the first use's gradient is complete last
  if (extra < 0) completed(memory_.word_region(), mb);
  else if (!uses_added_) count(extra, mb);
  tie_waits_ = mb == micro_batches_ - 1 && exists(tie_stages_);
}

void GradientReduction::before_weights() {
  const bool experts = s_.experts > 0 && expert_copies(c_.plan) > 1;
  const bool sums_first = exists(tables_) || memory_.extras() > 0 || data_ > 1 || experts || !whole_gradients();
  if (tie_waits_ && !sums_first) tie_stages();
}

void GradientReduction::sum_partial(std::int32_t region, std::int32_t mb) {
  const auto t = partial_.find(region);
  if (t == partial_.end()) return;
  const auto layer = static_cast<std::int32_t>(memory_.params().regions[static_cast<std::size_t>(region)].layer);
  // The gradients of tables share one buffer over all micro-batches.
  const std::int32_t place = memory_.added_later(region, mb) ? 0 : mb;
  b_.add(t->second, key_of(layer, mb, Phase::reduce), {memory_.gradients(region, place)});
}

void GradientReduction::count(std::int32_t unit, std::int32_t mb) {
  const bool last = mb == micro_batches_ - 1;
  if (!each_micro_batch() && !(last && beside_)) return;
  if (++done_[{unit, mb}] < memory_.regions_of(unit)) return;
  done_.erase({unit, mb});
  if (aligned_) return waiting_.push_back({unit, passes_ + stage_});
  in_root(unit) ? count_root(unit, mb) : reduce(unit, mb);
}

/// FSDP's root unit is reduced as one, when its last gradient is complete.
void GradientReduction::count_root(std::int32_t unit, std::int32_t mb) {
  std::vector<std::int32_t>& complete = root_done_[mb];
  complete.push_back(unit);
  if (static_cast<std::ptrdiff_t>(complete.size()) < std::count(root_.begin(), root_.end(), true)) return;
  settle();
  for (const std::int32_t u : complete) reduce(u, mb);
  root_done_.erase(mb);
}

void GradientReduction::reduce(std::int32_t unit, std::int32_t mb) {
  const UnitTemplates& t = units_[static_cast<std::size_t>(unit)];
  const InstanceKey key = key_of(unit, each_micro_batch() ? mb : -1, Phase::reduce);
  reduced_[static_cast<std::size_t>(unit)] = true;
  if (whole_gradients() && exists(t.send)) return send_whole(unit);
  if (exists(t.reduce)) b_.add(t.reduce, key, {memory_.unit_gradients(unit)});
  if (whole_gradients() && exists(t.scatter_first)) b_.add(t.scatter_first, key, {memory_.unit_gradients(unit)});
  whole_gradients() ? sum_replicas(unit) : reduce_micro_batch(unit, mb);
}

void GradientReduction::end_pass() {
  settle();
  if (aligned_) reduce_aligned();
  ++passes_;
}

/// Reductions slow passes, so all stages reduce a chunk at the same time. A stage ends its pass of a micro-batch by so many passes
/// earlier as there are stages before it (NVIDIA/Megatron-LM: megatron/core/pipeline_parallel/schedules.py,
/// backward_step_helper_postprocess). These collectives are issued after a pass, so they wait for all of it.
void GradientReduction::reduce_aligned() {
  const auto due = [&](const auto& w) { return w.second <= passes_; };
  if (std::any_of(waiting_.begin(), waiting_.end(), due)) b_.after_computation();
  for (const auto& w : waiting_)
    if (due(w)) reduce(w.first, -1);
  std::erase_if(waiting_, due);
}

bool GradientReduction::in_halves(std::int32_t unit) const {
  return each_micro_batch() && c_.plan.parallel.overlap_grad_reduce && memory_.unit(unit).shards > 1;
}

void GradientReduction::reduce_micro_batch(std::int32_t unit, std::int32_t mb) {
  if (in_halves(unit)) {
    if (!in_root(unit)) settle();
    return send(unit, mb);
  }
  const UnitTemplates& t = units_[static_cast<std::size_t>(unit)];
  const std::uint32_t sum = b_.add(mb == 0 ? t.scatter_first : t.scatter_later, key_of(unit, mb, Phase::reduce),
                                   {memory_.temporary_gradients(unit, mb), memory_.unit_gradients(unit)});
  if (memory_.unit(unit).shards > 1) b_.computation_after(b_.end_of(sum));
  memory_.release_gradients(unit, mb);
  if (mb == micro_batches_ - 1) sum_replicas(unit);
}

/// Reduces during the backward pass. A reduced unit is accumulated only when the next one is complete, so two are held
/// and the computation between them does not wait (PyTorch: torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py,
/// reduce_scatter_state; DeepSpeed: deepspeed/runtime/zero/stage3.py, reduce_and_partition_stream).
void GradientReduction::send(std::int32_t unit, std::int32_t mb) {
  const UnitTemplates& t = units_[static_cast<std::size_t>(unit)];
  const InstanceKey key = key_of(unit, mb, Phase::reduce);
  const Binding from = memory_.temporary_gradients(unit, mb);
  Sent sent{unit, mb, kNoBuffer, {}};
  const bool written = mb == 0 && exists(t.scatter_first);
  if (!written) sent.take = mb == 0 ? t.take_first : t.take_later;
  const TemplateId leaves = written ? t.scatter_first : t.send;
  std::vector<Binding> slots{from};
  // Slots of the template: scratch, the gradients, the sent copy if any, and the shard if it is written directly.
  const std::vector<Slot>& all = c_.library[leaves].slots;
  if (all.size() == (written ? 4U : 3U)) {
    const Pool pool = memory_.gathers_in_place() ? Pool::reductions : Pool::computation;
    sent.apart = b_.allocate("sent_gradients", all[2].kind, all[2].bytes, pool);
    slots.push_back({sent.apart});
  }
  if (written) slots.push_back(memory_.unit_gradients(unit));
  b_.add(leaves, key, slots);
  if (sent.apart != kNoBuffer) memory_.release_gradients(unit, mb);
  sent_.push_back(sent);
}

/// Sends whole gradients in another type before it accumulates
/// the unit sent before: links stay busy while computation waits.
void GradientReduction::send_whole(std::int32_t unit) {
  const UnitTemplates& t = units_[static_cast<std::size_t>(unit)];
  const Slot& slot = c_.library[t.send].slots[2];  // slot after scratch and the gradients
  const BufferId apart = b_.allocate("sent_gradients", slot.kind, slot.bytes);
  b_.add(t.send, key_of(unit, -1, Phase::reduce), {memory_.unit_gradients(unit), {apart}});
  const std::vector<Sent> before = std::exchange(sent_, {{unit, micro_batches_ - 1, apart, t.take_first}});
  for (const Sent& s : before) take_up(s);
}

void GradientReduction::settle() {
  if (each_micro_batch()) take_up_all();
}

void GradientReduction::take_up_all() {
  for (const Sent& s : std::exchange(sent_, {})) take_up(s);
}

void GradientReduction::take_up(const Sent& s) {
  const bool apart = s.apart != kNoBuffer;
  const Binding from = apart ? Binding{s.apart} : memory_.temporary_gradients(s.unit, s.mb);
  const InstanceKey key = key_of(s.unit, each_micro_batch() ? s.mb : -1, Phase::reduce);
  if (exists(s.take)) b_.add(s.take, key, {from, memory_.unit_gradients(s.unit)});
  if (apart) b_.release(s.apart);
  else memory_.release_gradients(s.unit, s.mb);
  if (s.mb == micro_batches_ - 1) sum_replicas(s.unit);
}

void GradientReduction::sum_replicas(std::int32_t unit) {
  take_replicas();
  const UnitTemplates& t = units_[static_cast<std::size_t>(unit)];
  if (!exists(t.replicas)) return;
  std::vector<Binding> slots{memory_.unit_gradients(unit)};
  if (exists(t.replicas_back)) {
    const Slot& sent = c_.library[t.replicas].slots[2];
    replicas_sent_ = {unit, b_.allocate("sent_gradients", sent.kind, sent.bytes)};
    slots.push_back({replicas_sent_->second});
  }
  b_.add(t.replicas, key_of(unit, -1, Phase::reduce), slots);
}

/// A sum in another type is converted back when the next unit's share is sent, so computation does not wait for it.
void GradientReduction::take_replicas() {
  if (!replicas_sent_) return;
  const auto [unit, sent] = *replicas_sent_;
  replicas_sent_.reset();
  b_.add(units_[static_cast<std::size_t>(unit)].replicas_back, key_of(unit, -1, Phase::reduce),
         {{sent}, memory_.unit_gradients(unit)});
  b_.release(sent);
}

// ---- the end of the step ----

void GradientReduction::finish() {
  if (whole_gradients()) {
    // A collective issued after the backward passes waits for all earlier work on the device.
    if (!beside_ || !waiting_.empty()) b_.after_computation();
    for (std::int32_t e = 0; e < memory_.extras() && !uses_added_; ++e)
      if (!reduced_[static_cast<std::size_t>(memory_.extra_unit(e))]) reduce(memory_.extra_unit(e), -1);
    for (std::size_t u = 0; u < memory_.params().units.size(); ++u)
      if (!reduced_[u] && !memory_.params().units[u].frozen) reduce(static_cast<std::int32_t>(u), -1);
  }
  take_up_all();
  take_replicas();
  if (!uses_added_) tie_embeddings();
  sum_over_stages();
  sum_loss();
  update();
}

void GradientReduction::sum_loss() {
  if (exists(loss_)) b_.add(loss_, key_of(-1, -1, Phase::reduce), {memory_.loss()});
}

/// Adds the gradients of a shared matrix' uses after the data-parallel reduction of each. So the sum does not depend on
/// the number of data ranks, nor on that of stages if all uses but the first are on the last stage: they are added from
/// the last one on. Frameworks with one gradient for all uses reduce that one, so there the uses are added before.
void GradientReduction::tie_embeddings() {
  for (std::int32_t e = memory_.extras(); e-- > 0;) {
    const Binding to = e == 0 ? share_of(memory_.word_region()) : memory_.unit_gradients(memory_.extra_unit(e - 1));
    b_.add(tie_, key_of(e, -1, Phase::reduce), {to, memory_.unit_gradients(memory_.extra_unit(e))});
  }
}

void GradientReduction::sum_over_stages() {
  const InstanceKey key = key_of(-1, -1, Phase::reduce);
  if (exists(tables_)) b_.add(tables_, key, {share_of(memory_.params().tables())});
  if (tie_waits_) tie_stages();
}

void GradientReduction::tie_stages() {
  b_.add(tie_stages_, key_of(-1, -1, Phase::reduce), {share_of(memory_.word_region())});
  tie_waits_ = false;
}

/// Gradients of a region that is a unit of its own if anything is sharded: whole, or the rank's shard.
Binding GradientReduction::share_of(std::int32_t region) {
  if (whole_gradients()) return memory_.gradients(region, -1);
  return memory_.unit_gradients(memory_.params().regions[static_cast<std::size_t>(region)].unit);
}

void GradientReduction::update() {
  const Template& t = c_.library[optimizer_];
  std::vector<Binding> slots{memory_.all_gradients()};
  for (std::size_t s = 2; s < t.slots.size(); ++s)
    slots.push_back(t.slots[s].name == "weights" ? memory_.trained_weights() : memory_.state(t.slots[s].name));
  const BufferId room = memory_.begin_update();
  b_.add(optimizer_, key_of(-1, -1, Phase::optimizer), slots);
  if (room != kNoBuffer) b_.release(room);
  update_offloaded();
  if (!memory_.sharding().gathers_next) gather_updated_weights();
  if (exists(validation_)) b_.add(validation_, key_of(-1, -1, Phase::optimizer), {memory_.state("sums")});
}

/// Updates unit by unit. While one is updated, the next one's states are copied from the host.
void GradientReduction::update_offloaded() {
  std::vector<BufferId> before;
  for (std::size_t u = 0; u < memory_.params().units.size(); ++u) {
    if (!exists(units_[u].offloaded)) continue;
    const auto unit = static_cast<std::int32_t>(u);
    const Template& t = c_.library[units_[u].offloaded];
    std::vector<Binding> slots{memory_.unit_gradients(unit)};
    std::vector<BufferId> mine;
    for (std::size_t s = 2; s < t.slots.size(); ++s) {
      const bool here = t.slots[s].name == "weights" && !memory_.weights_offloaded();
      if (!here) mine.push_back(b_.allocate("offloaded", t.slots[s].kind, t.slots[s].bytes));
      slots.push_back(here ? memory_.unit_weights(unit) : Binding{mine.back()});
    }
    b_.add(units_[u].offloaded, key_of(unit, -1, Phase::optimizer), slots);
    for (const BufferId buffer : before) b_.release(buffer);
    before = std::move(mine);
  }
  for (const BufferId buffer : before) b_.release(buffer);
}

void GradientReduction::gather_updated_weights() {
  if (memory_.weights_sharded()) return;
  for (std::size_t u = memory_.params().units.size(); u-- > 0;)
    if (exists(units_[u].gather))
      b_.add(units_[u].gather, key_of(static_cast<std::int32_t>(u), -1, Phase::gather),
             {memory_.unit_weights(static_cast<std::int32_t>(u))});
}

void GradientReduction::gather(std::int32_t unit) {
  const TemplateId t = units_[static_cast<std::size_t>(unit)].gather;
  const InstanceKey key = key_of(unit, -1, Phase::gather);
  const bool apart = exists(units_[static_cast<std::size_t>(unit)].copy_out);
  const Binding to = apart ? memory_.arrival(unit) : memory_.gather_place(unit);
  if (!memory_.weights_offloaded()) {
    b_.add(t, key, {to, memory_.unit_weights(unit)});
    return;
  }
  const Slot& shard = c_.library[t].slots[2];
  const BufferId fetched = b_.allocate("fetched_weights", shard.kind, shard.bytes);
  b_.add(t, key, {to, {fetched}});
  b_.release(fetched);
}

void GradientReduction::place(std::int32_t unit) {
  const TemplateId t = units_[static_cast<std::size_t>(unit)].copy_out;
  if (!exists(t) || memory_.gathered(unit)) return;
  b_.add(t, key_of(unit, -1, Phase::gather), {memory_.arrival(unit), memory_.gather_place(unit)});
  memory_.release_arrival(unit);
}

}  // namespace tandem::lowering
