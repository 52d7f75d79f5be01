#pragma once
// Lowers the schedule of one stage to a program, pass by pass. Only stage*.cpp include this file.

#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "models/lowering/stage/activation_offload.hpp"
#include "models/lowering/stage/decoder_flow.hpp"
#include "models/lowering/stage/kept_logits.hpp"
#include "models/lowering/stage/stage_blocks.hpp"
#include "models/lowering/stage/stage_context.hpp"
#include "models/lowering/stage/stage_regions.hpp"
#include "models/lowering/stage/stage_transfers.hpp"
#include "models/schedule/schedule.hpp"

namespace tandem::lowering {

class StageLowering {
 public:
  StageLowering(const StageContext& c, StageId stage);

  Program lower(const std::vector<ScheduleEvent>& events);

 private:
  const ChunkPart& part(const Action& a) const { return chunks_[static_cast<std::size_t>(a.chunk)]; }
  InFlight& flight(const Action& a) {
    return flights_[static_cast<std::size_t>(a.micro_batch) * chunks_.size() + static_cast<std::size_t>(a.chunk)];
  }
  InFlight& other_chunk(const Action& a) { return flight({a.phase, a.micro_batch, 1 - a.chunk}); }
  /// Whether a pass of `phase` gets its input from the stage's other chunk, at the turn of a V.
  bool turns(const Action& a, Phase phase) const {
    const ParallelSpec& q = c_.plan.parallel;
    return folds(q.schedule) && stage_.value() + 1 == q.pipeline && a.chunk == (phase == Phase::forward ? 1 : 0);
  }
  const BlockTemplates& block(const ChunkPart& p, std::int64_t l) const { return blocks_.at(p, l); }
  std::int32_t region(RegionKind kind, std::int64_t layer = -1) const { return memory_.params().find(kind, layer); }
  /// Number of a chunk's MTP modules that run.
  std::int64_t modules(const ChunkPart& p) const { return c_.forward_only ? 0 : p.mtp; }
  /// Index in InFlight::hidden of the input of block `l`; its output follows. Each module's block has its own pair.
  static std::size_t input_of(const ChunkPart& p, std::int64_t l) {
    return static_cast<std::size_t>(l < p.layers ? l : 2 * l - p.layers + 1);
  }
  bool chunked_loss() const { return s_.loss_chunks > 1 && !c_.forward_only; }
  bool shows_metrics() const { return t_.metrics.value() >= 0; }
  std::vector<TemplateId> used_templates() const;

  // ---- schedule ----

  /// Estimated number of instances, seldom too low.
  std::size_t instances_of(const std::vector<ScheduleEvent>& events) const;
  void run_schedule(const std::vector<ScheduleEvent>& events);
  void run(const std::vector<ScheduleEvent>& events, std::size_t i, const std::vector<Point>& ends);
  /// Notes the backward passes that follow event `i`.
  void look_ahead(const std::vector<ScheduleEvent>& events, std::size_t i);
  /// Lowers event `i`, a pass, together with the next event if both run as a pair.
  void compute(const std::vector<ScheduleEvent>& events, std::size_t i);
  Program finish();

  // ---- copying of repeated micro-batches: stage_repeat.cpp ----

  /// Called before event `i`. Copies earlier instances that repeat from there; returns the number of events done. `ends`: by event.
  std::size_t repeat(const std::vector<ScheduleEvent>& events, std::size_t i, std::vector<Point>& ends);
  /// Shows the detector all state that the rest of the program depends on. `mb`: the next micro-batch.
  void show(RepeatDetector& r, std::int32_t mb);
  std::size_t show(RepeatDetector& r, InFlight& f);
  struct Reference;
  std::size_t repeat(Reference& r, std::size_t times, std::size_t i, std::vector<Point>& ends);
  /// How many times the events from a reference up to `i` recur consecutively from `i` on.
  std::size_t recurrences(const std::vector<ScheduleEvent>& events, Reference& r, std::size_t i,
                          const std::vector<Point>& ends) const;
  void refer(std::size_t event, std::int32_t mb);
  bool alive(std::int32_t mb) const;

  // ---- forward: stage_forward.cpp ----

  void forward(const Action& a);
  void begin_forward(const Action& a);
  void end_forward(const Action& a);
  void gather_forward(const ChunkPart& p);
  void gather_backward(const ChunkPart& p);
  void embed(const Action& a);
  void block_forward(const Action& a, std::int64_t l);
  /// Fills `slots_` with the bindings for the returned template.
  TemplateId begin_block_forward(const Action& a, std::int64_t l);
  void end_block_forward(const Action& a, std::int64_t l);
  /// Clears `slots_` and returns it with the bindings of a block's weights.
  std::vector<Binding>& block_weights(std::int64_t layer);
  /// The same with only the weights that template `t` touches. Others may not be gathered.
  std::vector<Binding>& block_weights(std::int64_t layer, TemplateId t);
  /// Adds the gradients that template `t` touches. Others are not allocated yet.
  void add_gradients(std::vector<Binding>& slots, TemplateId t, std::int64_t layer, std::int32_t mb);
  /// Whether a block writes tensors that wait in host memory.
  bool offloads_kept(TemplateId t) const { return s_.on_host.kept() && w_.slot_bytes(t, "offloaded").count() > 0; }
  TemplateId bind_block(const Action& a, std::int64_t l, Phase phase, const Binding& y);
  void run_block(const Action& a, std::int64_t l, Phase phase, const Binding& y);
  void head(const Action& a);

  // ---- MTP modules: stage_mtp.cpp ----

  /// Runs the final norm and all modules, up to the head's input.
  void modules_forward(const Action& a);
  /// Runs backward from the head's input gradient to the gradient of the last layer's output.
  void modules_backward(const Action& a);
  /// Norm of the model's hidden states (`module` -1), or of a module's.
  void state_norm(const Action& a, std::int64_t module);
  void state_norm_backward(const Action& a, std::int64_t module);
  void module_forward(const Action& a, std::int64_t module);
  void module_backward(const Action& a, std::int64_t module);
  void module_words(const Action& a);
  /// The hidden states of the model (`place` 0) or of a module (1, 2, ...) in the buffer of all.
  Binding state_in(BufferId all, std::int64_t place) const;
  InstanceKey module_key(const Action& a, std::int64_t module) const;

  // ---- backward: stage_backward.cpp ----

  void backward(const Action& a);
  void begin_backward(const Action& a);
  void end_backward(const Action& a);
  void finish_flight(const Action& a);
  void head_backward(const Action& a);
  void block_backward(const Action& a, std::int64_t l);
  TemplateId begin_block_backward(const Action& a, std::int64_t l);
  void end_block_backward(const Action& a, std::int64_t l);
  /// Frees the last backward pass' narrow gradients. The next pass allocates its own as it goes
  /// (deepspeed/runtime/pipe/engine.py and bf16_optimizer.py, commit 56c522386: clear_lp_grads sets them to none).
  void drop_narrow_gradients();
  void make_narrow_gradient(std::int32_t region);
  /// Whether the weight gradients of a block read the block's input.
  bool reads_input_later(const Action& a, std::int64_t l) const;
  /// Brings back the tensors of a block and of the next one, before the block's backward pass.
  void fetch_offloaded(const Action& a, std::int64_t l);
  /// Frees the tensors that only the input's gradient reads.
  void drop_saved(InFlight& f, std::size_t l);
  /// Frees the tensors that a block's forward pass stored.
  void drop_kept(InFlight& f, std::size_t l);
  /// Frees a block's input and marks its gradients complete.
  void block_done(const Action& a, std::int64_t l);
  /// Recomputes the block's forward pass if it is recomputed, then allocates the gradient of its input. The recomputed
  /// output is not needed, so the gradient takes its place. If recomputation stops before the output, the gradient is
  /// allocated before the block's stored tensors. Otherwise it would take a large hole that later tensors need.
  BufferId recompute_and_begin(const Action& a, std::int64_t l);
  void embed_backward(const Action& a);
  /// Frees what the embedding kept, and its gradient.
  void drop_embedding(InFlight& f);
  void metrics(const Action& a);
  /// Weights that the deferred half reads for recomputed products, layer by layer.
  WeightGather::Needs weights_again(const Action& a) const;
  void weights(const Action& a);
  void block_weights_backward(const Action& a, std::int64_t l);

  // ---- pairs of passes: stage_pair.cpp ----

  /// A block that is being lowered piece by piece.
  struct BlockPieces {
    const std::vector<TemplateId>* templates = nullptr;
    InstanceKey key;
    std::vector<Binding> slots;
    BufferId held = kNoBuffer;      ///< scratch shared by several pieces
    std::size_t next = 0;

    bool over() const { return next == templates->size(); }
  };
  /// Lowers both passes at once.
  void both(const Action& forward, const Action& backward);
  /// Lowers both passes one after the other. The first waits for the second's input, and its output for the second's end.
  void in_turn(const Action& forward, const Action& backward);
  BlockPieces pieces(const Action& a, std::int64_t l);
  void add_next(BlockPieces& pieces);

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
  ActivationOffload offload_;
  std::vector<InFlight> flights_;                         ///< by micro-batch, then chunk
  std::vector<BufferId> narrow_;                          ///< narrow gradients of the last backward pass
  std::set<std::int32_t> narrow_made_;                    ///< regions with a narrow gradient
  BufferId next_gradient_ = kNoBuffer;                    ///< input gradient of the block whose backward pass is lowered next
  bool backward_follows_ = false;                         ///< the forward pass being lowered is followed by its own backward pass
  // Backward passes as seen from the pass being lowered. Only where activations are offloaded:
  std::vector<std::size_t> next_backwards_;               ///< by event: the next backward pass after it; the number of events: none
  bool own_backward_next_ = false;                        ///< the stage's next backward pass is that of this forward pass
  std::optional<Action> next_backward_;                   ///< the stage's next one after this backward pass, if its forward pass has ended
  bool weights_stay_ = false;                             ///< gathered weights stay for the next pass
  std::vector<Binding> slots_;                            ///< see block_weights

  /// The builder's state before a forward pass of the first chunk.
  struct Reference {
    RepeatDetector state;
    std::size_t event = 0;
    std::int64_t searches = 0;                            ///< the arena's searches() up to this state
    std::int32_t micro_batch = 0, micro_batches = 0;      ///< its micro-batch; period of the repetition in micro-batches
    ProgramBuilder::Mark mark{};
  };
  std::vector<Reference> references_;                     ///< the latest states that may recur
  std::int32_t until_reference_ = -1;                     ///< forward passes of chunk 0 until the next reference; -1: not known yet
  bool repeats_ = false;                                  ///< whether any state may recur
  std::int32_t group_ = 1;                                ///< micro-batches that the schedule treats as a group
  bool turned_ = false;                                   ///< a backward pass has run since the last such forward pass
  std::int32_t first_alive_ = 0, last_begun_ = 0;         ///< micro-batches; earlier ones hold no memory
};

}  // namespace tandem::lowering
