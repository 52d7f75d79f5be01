#include "models/lowering/stage.hpp"

#include <set>
#include <string>

#include "models/lowering/decoder_flow.hpp"
#include "models/lowering/kept_logits.hpp"
#include "models/lowering/stage_blocks.hpp"
#include "models/lowering/stage_regions.hpp"
#include "models/lowering/stage_transfers.hpp"

namespace tandem::lowering {
namespace {

class StageLowering {
 public:
  StageLowering(const StageContext& c, StageId stage)
      : c_(c),
        s_(c.shapes),
        t_(c.templates),
        stage_(stage),
        chunks_(stage_chunks(c.plan, stage)),
        blocks_(c.plan, s_, t_, chunks_),
        b_(c.library, stage),
        memory_(c, chunks_, b_),
        kept_logits_(c, chunks_, b_),
        reduction_(c, memory_, b_, c.plan.micro_batches()),
        gather_(memory_, reduction_, c.plan.parallel.prefetch_layers),
        w_(c.library, b_),
        decoder_(c, chunks_, {memory_, reduction_, gather_, w_}),
        regions_(memory_, decoder_, chunks_),
        transfers_(c, b_, w_, decoder_) {}

  Program lower(const std::vector<ScheduleEvent>& events) {
    memory_.declare(c_.plan.micro_batches());
    reduction_.prepare();
    flights_.resize(static_cast<std::size_t>(c_.plan.micro_batches()) * chunks_.size());
    b_.start(used_templates(), instances_of(events), c_.before);
    if (c_.plan.parallel.overlap_param_gather) reduction_.gather_updated_weights();
    kept_logits_.begin();
    run_schedule(events);
    c_.forward_only ? reduction_.sum_loss() : reduction_.finish();
    return finish();
  }

 private:
  const ChunkPart& part(const Action& a) const { return chunks_[static_cast<std::size_t>(a.chunk)]; }
  InFlight& flight(const Action& a) {
    return flights_[static_cast<std::size_t>(a.micro_batch) * chunks_.size() + static_cast<std::size_t>(a.chunk)];
  }
  const BlockTemplates& block(const ChunkPart& p, std::int64_t l) const { return blocks_.at(p, l); }
  std::int32_t region(RegionKind kind, std::int64_t layer = -1) const { return memory_.params().find(kind, layer); }

  std::vector<TemplateId> used_templates() const {
    std::vector<TemplateId> used = c_.forward_only ? reduction_.forward_templates() : reduction_.templates();
    for (const std::vector<TemplateId>& more :
         {decoder_.used_templates(), blocks_.used_templates(c_.forward_only, shows_metrics())})
      used.insert(used.end(), more.begin(), more.end());
    return used;
  }

  // ---- schedule ----

  /// A guess that is seldom too low.
  std::size_t instances_of(const std::vector<ScheduleEvent>& events) const {
    std::size_t n = events.size();
    for (const ScheduleEvent& e : events)
      if (e.kind == ScheduleEvent::Kind::compute) n += 3 * static_cast<std::size_t>(part(e.action).layers) / 2 + 1;
    return n;
  }

  void run_schedule(const std::vector<ScheduleEvent>& events) {
    std::vector<Point> ends(events.size());
    for (std::size_t i = 0; i < events.size(); ++i) {
      const ScheduleEvent& e = events[i];
      switch (e.kind) {
        case ScheduleEvent::Kind::receive:
          if (e.credit >= 0) b_.credit(ends[static_cast<std::size_t>(e.credit)]);
          transfers_.receive(e, part(e.action), flight(e.action));
          break;
        case ScheduleEvent::Kind::compute:
          backward_follows_ = backward_follows(events, i);
          weights_stay_ = c_.plan.parallel.schedule == ScheduleKind::breadth_first && same_follows(events, i);
          transfers_.before(e.action, flight(e.action));
          compute(e.action);
          break;
        case ScheduleEvent::Kind::send: transfers_.send(e, part(e.action), flight(e.action)); break;
        case ScheduleEvent::Kind::release: transfers_.release(e.action, flight(e.action)); break;
      }
      ends[i] = w_.last();
    }
  }

  void compute(const Action& a) {
    if (a.phase == Phase::forward) forward(a);
    else if (a.phase == Phase::backward) backward(a);
    else weights(a);
  }

  // ---- forward ----

  void forward(const Action& a) {
    InFlight& f = flight(a);
    const ChunkPart& p = part(a);
    const auto layers = static_cast<std::size_t>(p.layers);
    f.hidden.resize(layers + 1, kNoBuffer);
    f.saved.assign(layers, kNoBuffer);
    if (s_.defer_weights) f.inputs.assign(layers, kNoBuffer);
    gather_.hold(memory_.root_regions(p));
    if (memory_.weights_sharded()) gather_forward(p);
    if (p.first) embed(a);
    for (std::int64_t l = 0; l < p.layers; ++l) {
      if (decoder_.bridge_before(p, l)) decoder_.bridge(a, f, l);
      if (c_.forward_only) decoder_.drop_bridge(f);
      block_forward(a, l);
    }
    decoder_.leave(a, f);
    if (c_.forward_only) decoder_.drop_memory(f);
    if (p.last) head(a);
    if (c_.forward_only) gather_.let_go(memory_.root_regions(p));
  }

  void gather_forward(const ChunkPart& p) {
    if (weights_stay_) return gather_.plan_before_same(regions_.forward(p));
    if (!p.last || !backward_follows_) return gather_.plan(regions_.forward(p));
    gather_.plan_before_backward(regions_.forward(p), regions_.backward(p), regions_.backward_reads(p, blocks_),
                                 c_.plan.parallel.reuse_distance);
  }

  void gather_backward(const ChunkPart& p) {
    if (weights_stay_) gather_.plan_before_same(regions_.backward(p));
    else gather_.plan(regions_.backward(p));
  }

  void embed(const Action& a) {
    InFlight& f = flight(a);
    f.hidden[0] = w_.buffer("hidden", decoder_.hidden_bytes(part(a), 0));
    if (s_.embedding_norm) f.embed_saved = slot_buffer("embedding_saved", t_.embed_forward, "saved");
    const bool masked = s_.fusion.dropout_masks && s_.hidden_dropout > 0 && !c_.forward_only;
    if (masked) f.embed_mask = w_.buffer("embedding_mask", Bytes(s_.rows * s_.hidden));  // a byte an element, as in blocks
    gather_.begin();
    std::vector<Binding> slots{memory_.weights(memory_.word_region())};
    for (const RegionKind kind : {RegionKind::embedding, RegionKind::positions})
      if (region(kind) >= 0) slots.push_back(memory_.weights(region(kind)));
    slots.push_back(memory_.tokens(a.micro_batch));
    if (s_.token_types > 0) slots.push_back(memory_.types(a.micro_batch));
    slots.insert(slots.end(), {{f.hidden[0]}, {f.embed_saved}});
    add(t_.embed_forward, key(a), slots);
    gather_.end();
    if (c_.forward_only && f.embed_saved != kNoBuffer) drop(f.embed_saved);
  }

  void block_forward(const Action& a, std::int64_t l) {
    InFlight& f = flight(a);
    const auto i = static_cast<std::size_t>(l);
    f.hidden[i + 1] = w_.buffer("hidden", decoder_.hidden_bytes(part(a), l + 1));
    gather_.begin();
    run_block(a, l, Phase::forward, {f.hidden[i + 1]});
    gather_.end();
    if (c_.forward_only || blocks_.recomputed(part(a), l)) drop_kept(f, i);
    if (c_.forward_only && f.hidden[i] != f.memory.first) drop(f.hidden[i]);
  }

  /// The list of bindings of one block at a time, begun with those of its weights.
  std::vector<Binding>& block_weights(std::int64_t layer) {
    slots_.clear();
    for (const std::int32_t r : regions_.layer(layer)) slots_.push_back(memory_.weights(r));
    return slots_;
  }
  /// Those that template `t` touches; the others may not be there.
  std::vector<Binding>& block_weights(std::int64_t layer, TemplateId t) {
    slots_.clear();
    for (const std::int32_t r : regions_.layer(layer))
      slots_.push_back(c_.library.touches(t, static_cast<std::uint16_t>(slots_.size() + 1)) ? memory_.weights(r) : Binding{});
    return slots_;
  }
  /// Those of the gradients that template `t` touches; the others have no room before.
  void add_gradients(std::vector<Binding>& slots, TemplateId t, std::int64_t layer, std::int32_t mb) {
    for (const std::int32_t r : regions_.layer(layer)) {
      const bool touched = c_.library.touches(t, static_cast<std::uint16_t>(slots.size() + 1));
      slots.push_back(touched ? memory_.gradients(r, mb) : Binding{});
    }
  }

  void run_block(const Action& a, std::int64_t l, Phase phase, const Binding& y) {
    InFlight& f = flight(a);
    const auto i = static_cast<std::size_t>(l);
    const std::int64_t layer = part(a).first_layer + l;
    const TemplateId t = phase == Phase::recompute ? block(part(a), l).again : block(part(a), l).forward;
    f.saved[i] = slot_buffer("block_saved", t, "saved");
    if (s_.defer_weights) f.inputs[i] = slot_buffer("weight_inputs", t, "weight_inputs");
    std::vector<Binding>& slots = block_weights(layer);
    slots.push_back({f.hidden[i]});
    if (decoder_.decoder(layer)) slots.push_back(f.memory);
    slots.push_back(y);
    slots.push_back({f.saved[i]});
    if (s_.defer_weights) slots.push_back({f.inputs[i]});
    add(t, {static_cast<std::int32_t>(layer), a.micro_batch, a.chunk, phase}, slots);
  }

  void head(const Action& a) {
    InFlight& f = flight(a);
    const TemplateId t = t_.head_forward.of(a.micro_batch);
    f.head_saved = slot_buffer("head_saved", t, "saved");
    gather_.begin();
    std::vector<Binding> slots;
    if (region(RegionKind::head) >= 0) slots.push_back(memory_.weights(region(RegionKind::head)));
    slots.insert(slots.end(), {memory_.weights(memory_.output_region()), {f.hidden.back()}, memory_.targets(a.micro_batch)});
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

  // ---- backward ----

  void backward(const Action& a) {
    InFlight& f = flight(a);
    const ChunkPart& p = part(a);
    if (s_.defer_weights) f.deferred.assign(static_cast<std::size_t>(p.layers), kNoBuffer);
    if (memory_.weights_sharded()) gather_backward(p);
    decoder_.start_tables(a);
    drop_narrow_gradients();
    if (p.last) head_backward(a);
    decoder_.start_backward(a, f);
    for (std::int64_t l = p.layers; l-- > 0;) {
      block_backward(a, l);
      if (decoder_.bridge_before(p, l)) decoder_.bridge_backward(a, f);
    }
    decoder_.leave_backward(a, f);
    if (p.first) embed_backward(a);
    decoder_.complete_tables(a);
    gather_.let_go(memory_.root_regions(p));
    reduction_.settle();
    if (p.last && shows_metrics()) metrics(a);
    if (!s_.defer_weights) finish_flight(a);
  }

  void finish_flight(const Action& a) {
    InFlight& f = flight(a);
    f.hidden.clear();
    f.saved.clear();
    f.inputs.clear();
  }

  void head_backward(const Action& a) {
    InFlight& f = flight(a);
    f.gradient = w_.buffer("gradient", decoder_.gradient_bytes(part(a), part(a).layers));
    gather_.begin();
    const std::int32_t head = region(RegionKind::head);
    std::vector<Binding> slots;
    if (head >= 0) slots = {memory_.weights(head), memory_.gradients(head, a.micro_batch)};
    slots.insert(slots.end(), {memory_.weights(memory_.output_region()), memory_.output_gradients(a.micro_batch), {f.hidden.back()},
                               {f.head_saved}, {f.gradient}});
    if (head >= 0) make_narrow_gradient(head);
    make_narrow_gradient(memory_.output_region());
    add(t_.head_backward.of(a.micro_batch), key(a), slots);
    gather_.end();
    drop(f.head_saved);
    kept_logits_.keep();
    drop(f.hidden.back());
    if (head >= 0) reduction_.completed(head, a.micro_batch);
    if (s_.tied) reduction_.completed_word(WordUse::output, a.micro_batch);
    else reduction_.completed(region(RegionKind::output), a.micro_batch);
  }

  void block_backward(const Action& a, std::int64_t l) {
    InFlight& f = flight(a);
    const auto i = static_cast<std::size_t>(l);
    const std::int64_t layer = part(a).first_layer + l;
    gather_.begin();
    const BufferId dx = recompute_and_begin(a, l);
    const TemplateId t = block(part(a), l).backward.of(a.micro_batch);
    std::vector<Binding>& slots = block_weights(layer);
    add_gradients(slots, t, layer, a.micro_batch);
    slots.push_back({f.hidden[i]});
    if (decoder_.decoder(layer)) slots.push_back(f.memory);
    slots.push_back({f.saved[i]});
    if (s_.defer_weights) slots.push_back({f.inputs[i]});
    slots.push_back({f.gradient});
    slots.push_back({dx});
    if (decoder_.decoder(layer)) slots.push_back(f.memory_gradient);
    if (s_.defer_weights) {
      f.deferred[i] = slot_buffer("weight_gradient_inputs", t, "deferred");
      slots.push_back({f.deferred[i]});
    }
    for (const std::int32_t r : regions_.layer(layer)) make_narrow_gradient(r);
    add(t, layer_key(a, layer), slots);
    gather_.end();
    decoder_.drop_gradient(f);
    f.gradient = dx;
    drop(f.saved[i]);
    if (!s_.defer_weights) block_done(a, l);
    else if (!reads_input_later(a, l)) drop(f.hidden[i]);
  }

  /// A backward pass begins without those of the one before (deepspeed/runtime/pipe/engine.py and bf16_optimizer.py, commit 56c522386:
  /// clear_lp_grads sets them to none) and makes them as it goes.
  void drop_narrow_gradients() {
    for (BufferId& b : narrow_) drop(b);
    narrow_.clear();
    narrow_made_.clear();
  }
  void make_narrow_gradient(std::int32_t region) {
    const Bytes bytes = memory_.narrow_gradient(region);
    if (bytes.count() > 0 && narrow_made_.insert(region).second)
      narrow_.push_back(b_.allocate("narrow_gradients", MemoryKind::gradients, bytes));
  }

  /// Whether the weights' gradients of a block read its input.
  bool reads_input_later(const Action& a, std::int64_t l) const {
    const TemplateId t = block(part(a), l).weights.of(a.micro_batch);
    return c_.library.touches(t, c_.library.slot(t, "x"));
  }

  /// Nobody needs what the block's forward pass kept.
  void drop_kept(InFlight& f, std::size_t l) {
    drop(f.saved[l]);
    if (s_.defer_weights) drop(f.inputs[l]);
  }

  /// Nobody needs the block's input any more, and its gradients are complete.
  void block_done(const Action& a, std::int64_t l) {
    if (BufferId& x = flight(a).hidden[static_cast<std::size_t>(l)]; x != kNoBuffer) drop(x);
    for (const std::int32_t r : regions_.layer(part(a).first_layer + l))
      if (r != region(RegionKind::relative)) reduction_.completed(r, a.micro_batch);
  }

  /// Runs the block's forward again from its input where it is recomputed; its output is not needed. Then makes the gradient of the
  /// input, in the place of that output; where there is none, ahead of what the block keeps, which would have that place and leave the
  /// gradient one in a large hole that others want.
  BufferId recompute_and_begin(const Action& a, std::int64_t l) {
    const auto gradient = [&] { return w_.buffer("gradient", decoder_.gradient_bytes(part(a), l)); };
    if (!blocks_.recomputed(part(a), l)) return gradient();
    const TemplateId t = block(part(a), l).again;
    if (c_.library.touches(t, c_.library.slot(t, "y"))) {
      BufferId y = w_.slot_buffer("recomputed_hidden", t, "y");
      run_block(a, l, Phase::recompute, {y});
      drop(y);
      return gradient();
    }
    const Bytes bytes = decoder_.gradient_bytes(part(a), l);
    const BufferId dx = b_.allocate_later("gradient", MemoryKind::activations, bytes);
    run_block(a, l, Phase::recompute, {});
    return dx;
  }

  void embed_backward(const Action& a) {
    InFlight& f = flight(a);
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
    if (f.embed_saved != kNoBuffer) drop(f.embed_saved);
    if (f.embed_mask != kNoBuffer) drop(f.embed_mask);
    drop(f.gradient);
    if (embedding >= 0) reduction_.completed(embedding, a.micro_batch);
    reduction_.completed_word(WordUse::input, a.micro_batch);
  }

  bool shows_metrics() const { return t_.metrics.value() >= 0; }

  void metrics(const Action& a) {
    InFlight& f = flight(a);
    BufferId copies = slot_buffer("metrics", t_.metrics, "copies");
    add(t_.metrics, key(a), {memory_.targets(a.micro_batch), {f.logits}, {copies}});
    drop(copies);
    drop(f.logits);
  }

  // ---- deferred weight gradients ----

  /// The weights that they read, layer by layer: those of products that are computed again.
  WeightGather::Needs weights_again(const Action& a) const {
    const ChunkPart& p = part(a);
    WeightGather::Needs needs;
    for (std::int64_t l = p.layers; l-- > 0;) {
      const std::vector<std::int32_t>& all = regions_.layer(p.first_layer + l);
      std::vector<std::int32_t>& read = needs.emplace_back();
      for (std::size_t i = 0; i < all.size(); ++i)
        if (c_.library.touches(block(p, l).weights.of(a.micro_batch), static_cast<std::uint16_t>(i + 1))) read.push_back(all[i]);
    }
    return needs;
  }

  void weights(const Action& a) {
    InFlight& f = flight(a);
    reduction_.before_weights();
    const ChunkPart& p = part(a);
    if (memory_.weights_sharded()) gather_.plan(weights_again(a));
    for (std::int64_t l = p.layers; l-- > 0;) {
      const auto i = static_cast<std::size_t>(l);
      const std::int64_t layer = p.first_layer + l;
      gather_.begin();
      const TemplateId t = block(p, l).weights.of(a.micro_batch);
      std::vector<Binding>& slots = block_weights(layer, t);
      add_gradients(slots, t, layer, a.micro_batch);
      slots.insert(slots.end(), {{f.hidden[i]}, {f.inputs[i]}, {f.deferred[i]}});
      add(t, layer_key(a, layer), slots);
      gather_.end();
      drop(f.inputs[i]);
      drop(f.deferred[i]);
      block_done(a, l);
    }
    reduction_.settle();
    finish_flight(a);
  }

  // ---- small ----

  Program finish() {
    drop_narrow_gradients();
    kept_logits_.end();
    Program p = b_.finish();
    p.memory.expandable_segments = c_.plan.training.expandable_segments;
    const StageParams& params = memory_.params();
    p.params = params.params;
    p.units = params.units;
    p.flat_elements = params.flat_elements;
    p.shard_elements = params.shard_elements;
    p.gradients_sharded = memory_.gradients_sharded();
    p.weights_sharded = memory_.weights_sharded();
    p.norm_over_world = memory_.update_spec().norm_group == Group::world;
    return p;
  }

  static InstanceKey key(const Action& a) { return {-1, a.micro_batch, a.chunk, a.phase}; }
  static InstanceKey layer_key(const Action& a, std::int64_t layer) {
    return {static_cast<std::int32_t>(layer), a.micro_batch, a.chunk, a.phase};
  }
  void add(TemplateId t, const InstanceKey& k, const std::vector<Binding>& slots) { w_.add(t, k, slots); }
  void drop(BufferId& buffer) { w_.drop(buffer); }
  BufferId slot_buffer(std::string_view name, TemplateId t, std::string_view slot) { return w_.slot_buffer(name, t, slot); }

  const StageContext& c_;
  const Shapes& s_;
  const Templates& t_;
  StageId stage_;
  std::vector<ChunkPart> chunks_;
  StageBlocks blocks_;
  ProgramBuilder b_;
  StageMemory memory_;
  KeptLogits kept_logits_;
  GradientReduction reduction_;
  WeightGather gather_;
  InstanceWriter w_;
  DecoderFlow decoder_;
  StageRegions regions_;
  StageTransfers transfers_;
  std::vector<InFlight> flights_;                         ///< by micro-batch, then chunk
  std::vector<BufferId> narrow_;                          ///< of the last backward pass
  std::set<std::int32_t> narrow_made_;                    ///< regions that have one of them
  bool backward_follows_ = false;                         ///< of the forward pass that is written
  bool weights_stay_ = false;                             ///< gathered ones, for the pass behind the one that is written
  std::vector<Binding> slots_;                            ///< see block_weights
};

}  // namespace

Program lower_stage(const StageContext& context, StageId stage, const std::vector<ScheduleEvent>& events) {
  return StageLowering(context, stage).lower(events);
}

}  // namespace tandem::lowering
