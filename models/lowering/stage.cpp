#include "models/lowering/stage.hpp"

#include <deque>
#include <string>

#include "models/lowering/buckets.hpp"
#include "models/mesh.hpp"

namespace tandem::lowering {
namespace {

constexpr std::size_t kReceiveBuffers = 2;   ///< a direction: one being consumed, one being filled
constexpr std::size_t kSendsOutstanding = 2; ///< a sent buffer is handed on two actions later, so no compute waits for a send

/// Completion order of gradient regions on a stage: head, layers from last to first, embedding.
struct Completion {
  std::vector<std::int64_t> elements;
  std::int32_t head = -1, embedding = -1;
  std::vector<std::int32_t> layer;           ///< by local layer

  Completion(const StageParams& params, const StagePart& part) : layer(params.layers.size()) {
    const auto push = [&](const Region& r) {
      elements.push_back(r.elements);
      return static_cast<std::int32_t>(elements.size() - 1);
    };
    if (part.last) head = push(params.head);
    for (std::size_t l = params.layers.size(); l-- > 0;) layer[l] = push(params.layers[l]);
    if (part.first) embedding = push(params.embedding);
  }
};

class StageLowering {
 public:
  StageLowering(const StageContext& c, StageId stage)
      : c_(c), s_(c.shapes), t_(c.templates), stage_(stage), part_(stage_part(c.plan, stage)),
        params_(stage_params(c.shapes, part_)), completion_(params_, part_), b_(c.library, stage),
        micro_batches_(static_cast<std::int32_t>(c.plan.micro_batches())) {}

  Program lower() {
    declare_persistent();
    prepare_update();
    b_.start();
    run_schedule();
    reduce_remaining();
    tie_embeddings();
    reduce_loss();
    update();
    return b_.finish(std::move(params_.params), params_.flat_elements);
  }

 private:
  struct InFlight {                ///< buffers of one micro-batch
    std::vector<BufferId> hidden;  ///< [layer]: input of the layer; the last one is the stage's output
    std::vector<BufferId> saved;   ///< [layer]
    BufferId embed_saved = kNoBuffer, head_saved = kNoBuffer;
    BufferId gradient = kNoBuffer; ///< of the hidden state the backward pass has reached
  };

  // ---- memory ----

  Bytes hidden_bytes() const { return bytes_of(s_.dtypes.compute, s_.tokens * s_.hidden); }
  Bytes slot_bytes(TemplateId t, std::uint16_t slot) const { return c_.library[t].slots[slot].bytes; }

  void declare_persistent() {
    const DTypes& d = s_.dtypes;
    const std::int64_t flat = params_.flat_elements;
    weights_ = b_.persistent("weights", MemoryKind::weights, {bytes_of(d.weights, flat)});
    std::vector<Bytes> regions;
    for (const std::int64_t n : completion_.elements) regions.push_back(bytes_of(d.gradients, n));
    gradients_ = b_.persistent("gradients", MemoryKind::gradients, regions);
    if (tied_here())
      tied_gradient_ = b_.persistent("tied_gradient", MemoryKind::gradients,
                                     {bytes_of(d.gradients, s_.vocab_rows * s_.hidden)});
    exp_avg_ = b_.persistent("exp_avg", MemoryKind::optimizer, {bytes_of(d.optimizer_state, flat)});
    exp_avg_sq_ = b_.persistent("exp_avg_sq", MemoryKind::optimizer, {bytes_of(d.optimizer_state, flat)});
    if (d.master != d.weights) master_ = b_.persistent("master", MemoryKind::optimizer, {bytes_of(d.master, flat)});
    partials_ = b_.persistent("partials", MemoryKind::workspace, {bytes_of(DType::fp64, global_parameters())});
    const Bytes ids = bytes_of(DType::int32, s_.tokens * micro_batches_);
    if (part_.first) tokens_ = b_.persistent("tokens", MemoryKind::activations, {ids});
    if (!part_.last) return;
    targets_ = b_.persistent("targets", MemoryKind::activations, {ids});
    loss_ = b_.persistent("loss", MemoryKind::workspace, {bytes_of(DType::fp64, 1)});
  }

  bool tied_here() const { return s_.tied && part_.first && part_.last; }
  std::int64_t global_parameters() const { return global_parameter_count(s_, part_.total_layers); }

  Binding weights_at(const Region& r, std::int64_t extra = 0) const {
    return {weights_, 1, bytes_of(s_.dtypes.weights, r.offset + extra).count()};
  }
  Binding gradients_at(std::int32_t region, std::int64_t extra = 0) const {
    return {gradients_ + region, 1, bytes_of(s_.dtypes.gradients, extra).count()};
  }
  Binding all_gradients() const { return {gradients_, static_cast<std::int32_t>(completion_.elements.size()), 0}; }
  Binding ids_at(BufferId buffer, std::int32_t mb) const {
    return {buffer, 1, bytes_of(DType::int32, s_.tokens * mb).count()};
  }

  // ---- schedule ----

  void run_schedule() {
    flights_.resize(static_cast<std::size_t>(micro_batches_));
    const auto actions = make_schedule(c_.plan.parallel.schedule, {c_.plan.parallel.pipeline, micro_batches_}, stage_);
    receive(actions.front());
    for (std::size_t k = 0; k < actions.size(); ++k) {
      // The next action's input is received while this one computes.
      if (k + 1 < actions.size()) receive(actions[k + 1]);
      last_backward_ = k + 1 == actions.size();
      if (actions[k].phase == Phase::forward) forward(actions[k].micro_batch);
      else backward(actions[k].micro_batch);
      send(actions[k]);
      while (!sent_.empty() && sent_.front().action + kSendsOutstanding <= k) release_sent();
      action_ = k + 1;
    }
    while (!sent_.empty()) release_sent();
  }

  InFlight& flight(std::int32_t mb) { return flights_[static_cast<std::size_t>(mb)]; }

  void receive(const Action& a) {
    const bool forward = a.phase == Phase::forward;
    if (forward ? part_.first : part_.last) return;
    auto& consumed = forward ? consumed_forward_ : consumed_backward_;
    const auto need = static_cast<std::size_t>(a.micro_batch);
    if (need >= kReceiveBuffers) b_.credit(consumed[need - kReceiveBuffers]);
    const BufferId buffer = b_.allocate(forward ? "received_hidden" : "received_gradient", MemoryKind::communication,
                                        hidden_bytes());
    b_.add(forward ? t_.recv_forward : t_.recv_backward, {-1, a.micro_batch, a.chunk, a.phase}, {{buffer}});
    InFlight& f = flight(a.micro_batch);
    if (!forward) {
      f.gradient = buffer;
      return;
    }
    f.hidden.assign(static_cast<std::size_t>(part_.layers) + 1, kNoBuffer);
    f.hidden[0] = buffer;
  }

  void send(const Action& a) {
    const bool forward = a.phase == Phase::forward;
    if (forward ? part_.last : part_.first) return;
    InFlight& f = flight(a.micro_batch);
    BufferId& buffer = forward ? f.hidden.back() : f.gradient;
    b_.add(forward ? t_.send_forward : t_.send_backward, {-1, a.micro_batch, a.chunk, a.phase}, {{buffer}});
    sent_.push_back({buffer, action_});
    buffer = kNoBuffer;
  }

  void release_sent() {
    b_.release(sent_.front().buffer);
    sent_.pop_front();
  }

  // ---- forward ----

  void forward(std::int32_t mb) {
    InFlight& f = flight(mb);
    f.hidden.resize(static_cast<std::size_t>(part_.layers) + 1, kNoBuffer);
    f.saved.assign(static_cast<std::size_t>(part_.layers), kNoBuffer);
    if (part_.first) embed(mb);
    for (std::int64_t l = 0; l < part_.layers; ++l) block(mb, l);
    if (part_.last) head(mb);
    consumed_forward_.push_back(last_);
  }

  void embed(std::int32_t mb) {
    InFlight& f = flight(mb);
    f.hidden[0] = b_.allocate("hidden", MemoryKind::activations, hidden_bytes());
    if (s_.embedding_norm)
      f.embed_saved = b_.allocate("embedding_saved", MemoryKind::activations,
                                  slot_bytes(t_.embed_forward, static_cast<std::uint16_t>(EmbedForwardSlot::saved)));
    add(t_.embed_forward, {-1, mb, 0, Phase::forward},
        {weights_at(params_.embedding), ids_at(tokens_, mb), {f.hidden[0]}, {f.embed_saved}});
  }

  BufferId allocate_saved() {
    return b_.allocate("block_saved", MemoryKind::activations,
                       slot_bytes(t_.block_forward, static_cast<std::uint16_t>(BlockForwardSlot::saved)));
  }

  void block(std::int32_t mb, std::int64_t l) {
    InFlight& f = flight(mb);
    const auto i = static_cast<std::size_t>(l);
    f.hidden[i + 1] = b_.allocate("hidden", MemoryKind::activations, hidden_bytes());
    f.saved[i] = allocate_saved();
    run_block(mb, l, Phase::forward, f.hidden[i + 1]);
    if (c_.plan.training.recompute == Recompute::full) drop(f.saved[i]);
  }

  void run_block(std::int32_t mb, std::int64_t l, Phase phase, BufferId y) {
    const InFlight& f = flight(mb);
    const auto i = static_cast<std::size_t>(l);
    add(t_.block_forward, {layer_id(l), mb, 0, phase},
        {weights_at(params_.layers[i]), {f.hidden[i]}, {y}, {f.saved[i]}});
  }

  void head(std::int32_t mb) {
    InFlight& f = flight(mb);
    const TemplateId t = t_.head_forward.of(mb);
    f.head_saved = b_.allocate("head_saved", MemoryKind::activations,
                               slot_bytes(t, static_cast<std::uint16_t>(HeadForwardSlot::saved)));
    add(t, {-1, mb, 0, Phase::forward},
        {weights_at(params_.head), output_weights(), {f.hidden.back()}, ids_at(targets_, mb), {loss_}, {f.head_saved}});
  }

  Binding output_weights() const {
    if (tied_here()) return weights_at(params_.embedding, embedding_params(s_).word);
    return weights_at(params_.head, head_params(s_, true).output);
  }
  Binding output_gradients() const {
    if (tied_here()) return {tied_gradient_};
    return gradients_at(completion_.head, head_params(s_, true).output);
  }

  // ---- backward ----

  void backward(std::int32_t mb) {
    InFlight& f = flight(mb);
    if (part_.last) {
      head_backward(mb);
      completed(completion_.head);
    }
    for (std::int64_t l = part_.layers; l-- > 0;) {
      block_backward(mb, l);
      completed(completion_.layer[static_cast<std::size_t>(l)]);
    }
    if (part_.first) {
      embed_backward(mb);
      completed(completion_.embedding);
    }
    consumed_backward_.push_back(last_);
    f.hidden.clear();
    f.saved.clear();
  }

  void head_backward(std::int32_t mb) {
    InFlight& f = flight(mb);
    f.gradient = b_.allocate("gradient", MemoryKind::activations, hidden_bytes());
    add(t_.head_backward.of(mb), {-1, mb, 0, Phase::backward},
        {weights_at(params_.head), output_weights(), gradients_at(completion_.head), output_gradients(),
         {f.hidden.back()}, {f.head_saved}, {f.gradient}});
    drop(f.head_saved);
    drop(f.hidden.back());
  }

  void block_backward(std::int32_t mb, std::int64_t l) {
    InFlight& f = flight(mb);
    const auto i = static_cast<std::size_t>(l);
    if (c_.plan.training.recompute == Recompute::full) recompute(mb, l);
    const BufferId dx = b_.allocate("gradient", MemoryKind::activations, hidden_bytes());
    add(t_.block_backward.of(mb), {layer_id(l), mb, 0, Phase::backward},
        {weights_at(params_.layers[i]), gradients_at(completion_.layer[i]), {f.hidden[i]}, {f.saved[i]}, {f.gradient},
         {dx}});
    drop(f.gradient);
    f.gradient = dx;
    drop(f.saved[i]);
    drop(f.hidden[i]);
  }

  /// Runs the block's forward again from its saved input; its output is not needed.
  void recompute(std::int32_t mb, std::int64_t l) {
    InFlight& f = flight(mb);
    BufferId y = b_.allocate("recomputed_hidden", MemoryKind::activations, hidden_bytes());
    f.saved[static_cast<std::size_t>(l)] = allocate_saved();
    run_block(mb, l, Phase::recompute, y);
    drop(y);
  }

  void embed_backward(std::int32_t mb) {
    InFlight& f = flight(mb);
    add(t_.embed_backward.of(mb), {-1, mb, 0, Phase::backward},
        {weights_at(params_.embedding), gradients_at(completion_.embedding), ids_at(tokens_, mb), {f.embed_saved},
         {f.gradient}});
    if (f.embed_saved != kNoBuffer) drop(f.embed_saved);
    drop(f.gradient);
  }

  // ---- gradients and update ----

  /// Buckets, their templates and the update's: templates must exist before scratch is placed.
  void prepare_update() {
    const DTypes& d = s_.dtypes;
    const auto library_reduce = [&](std::string name, Group g, std::int64_t n, DType type, MemoryKind kind) {
      return c_.library.add(reduce({std::move(name), g, n, type, kind}));
    };
    const bool data = c_.plan.parallel.data > 1;
    if (data) {
      buckets_ = make_buckets(completion_.elements, c_.plan.parallel.bucket_bytes, bytes_of(d.gradient_reduce, 1));
      for (const Bucket& k : buckets_)
        bucket_templates_.push_back(
            library_reduce("grad_reduce", Group::data, k.elements, d.gradient_reduce, MemoryKind::gradients));
      if (part_.last) loss_template_ = library_reduce("loss_reduce", Group::data, 1, DType::fp64, MemoryKind::workspace);
    }
    const std::int64_t word = s_.vocab_rows * s_.hidden;
    if (data && tied_here())
      tied_reduce_ = library_reduce("tied_grad_reduce", Group::data, word, d.gradient_reduce, MemoryKind::gradients);
    if (s_.tied && part_.first != part_.last)
      tie_template_ = library_reduce("tie_reduce", Group::embedding, word, d.gradient_reduce, MemoryKind::gradients);
    const bool shared = c_.plan.parallel.tensor * c_.plan.parallel.pipeline > 1;
    optimizer_template_ = c_.library.add(optimizer_step(
        s_, {params_.flat_elements, global_parameters(), shared, c_.plan.training.optimizer, c_.plan.training.clip_grad}));
  }

  /// A region's gradient has had its last micro-batch added: with overlap, a full bucket leaves at once.
  void completed(std::int32_t region) {
    if (!last_backward_ || !c_.plan.parallel.overlap_grad_reduce) return;
    if (region == completion_.head && tied_here()) reduce_tied();
    if (next_bucket_ < buckets_.size()) {
      const Bucket& k = buckets_[next_bucket_];
      if (region == k.first + k.count - 1) reduce_bucket();
    }
  }

  void reduce_bucket() {
    const Bucket& k = buckets_[next_bucket_];
    b_.add(bucket_templates_[next_bucket_], {static_cast<std::int32_t>(next_bucket_), -1, 0, Phase::reduce},
           {{gradients_ + k.first, k.count, 0}});
    ++next_bucket_;
  }

  void reduce_tied() {
    if (tied_reduce_.value() < 0 || tied_reduced_) return;
    b_.add(tied_reduce_, {-1, -1, 0, Phase::reduce}, {{tied_gradient_}});
    tied_reduced_ = true;
  }

  void reduce_remaining() {
    if (tied_here()) reduce_tied();
    while (next_bucket_ < buckets_.size()) reduce_bucket();
  }

  /// The embedding's and the head's gradients of a shared matrix are added once, after the data-parallel reduction of
  /// each, so that the sum does not depend on the number of stages or of data ranks.
  void tie_embeddings() {
    const InstanceKey key{-1, -1, 0, Phase::reduce};
    if (tied_here()) b_.add(t_.tie, key, {gradients_at(completion_.embedding), {tied_gradient_}});
    if (tie_template_.value() < 0) return;
    const Binding mine = part_.first ? gradients_at(completion_.embedding, embedding_params(s_).word) : output_gradients();
    b_.add(tie_template_, key, {mine});
  }

  void reduce_loss() {
    if (loss_template_.value() >= 0) b_.add(loss_template_, {-1, -1, 0, Phase::reduce}, {{loss_}});
  }

  void update() {
    std::vector<Binding> slots{all_gradients(), {weights_}, {exp_avg_}, {exp_avg_sq_}, {partials_}};
    // Slot order follows creation in optimizer_step: gradients, weights, exp_avg, exp_avg_sq, partials, master.
    if (master_ != kNoBuffer) slots.push_back({master_});
    b_.add(optimizer_template_, {-1, -1, 0, Phase::optimizer}, slots);
  }

  // ---- small ----

  void add(TemplateId t, const InstanceKey& key, const std::vector<Binding>& slots) {
    last_ = b_.end_of(b_.add(t, key, slots));
  }
  void drop(BufferId& buffer) {
    b_.release(buffer);
    buffer = kNoBuffer;
  }
  std::int32_t layer_id(std::int64_t l) const { return static_cast<std::int32_t>(part_.first_layer + l); }

  struct Sent {
    BufferId buffer;
    std::size_t action;
  };

  const StageContext& c_;
  const Shapes& s_;
  const Templates& t_;
  StageId stage_;
  StagePart part_;
  StageParams params_;
  Completion completion_;
  ProgramBuilder b_;
  std::int32_t micro_batches_;

  BufferId weights_ = kNoBuffer, gradients_ = kNoBuffer, tied_gradient_ = kNoBuffer, exp_avg_ = kNoBuffer,
           exp_avg_sq_ = kNoBuffer, master_ = kNoBuffer, partials_ = kNoBuffer, tokens_ = kNoBuffer,
           targets_ = kNoBuffer, loss_ = kNoBuffer;
  std::vector<InFlight> flights_;
  std::vector<Point> consumed_forward_, consumed_backward_;
  std::deque<Sent> sent_;
  std::size_t action_ = 0;
  Point last_;
  bool last_backward_ = false;

  std::vector<Bucket> buckets_;
  std::vector<TemplateId> bucket_templates_;
  std::size_t next_bucket_ = 0;
  bool tied_reduced_ = false;
  TemplateId tied_reduce_, tie_template_, loss_template_, optimizer_template_;
};

}  // namespace

StagePart stage_part(const Plan& plan, StageId stage) {
  const auto layers = plan.layers_per_stage();
  StagePart p;
  for (std::size_t i = 0; i < stage.index(); ++i) p.first_layer += layers[i];
  p.layers = layers[stage.index()];
  p.first = stage.value() == 0;
  p.last = stage.value() == plan.parallel.pipeline - 1;
  p.total_layers = plan.model.num_layers;
  p.tied = plan.model.tie_embeddings;
  return p;
}

Program lower_stage(const StageContext& context, StageId stage) { return StageLowering(context, stage).lower(); }

}  // namespace tandem::lowering
