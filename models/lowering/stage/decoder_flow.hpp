#pragma once
// What an encoder-decoder adds to a stage: sizes change where the decoder begins, the encoder's output goes on beside the
// decoder's state, and its gradient comes back as the sum of what every decoder layer gives.
//
// Inside a chunk the output lies once, behind the chunk's first decoder state; between stages it travels behind the state.

#include "models/lowering/stage/in_flight.hpp"
#include "models/lowering/stage/weight_gather.hpp"
#include "models/schedule/schedule.hpp"

namespace tandem::lowering {

class DecoderFlow {
 public:
  struct Parts {
    StageMemory& memory;
    GradientReduction& reduction;
    WeightGather& gather;
    InstanceWriter& writer;
  };
  DecoderFlow(const StageContext& c, const std::vector<ChunkPart>& chunks, const Parts& parts);

  bool decoder(std::int64_t layer) const { return s_.is_decoder_layer(layer); }
  /// Whether what stands between the stacks comes before local layer `l` of a chunk.
  bool bridge_before(const ChunkPart& p, std::int64_t l) const { return p.bridge && p.first_layer + l == s_.encoder_layers; }
  std::vector<TemplateId> used_templates() const;

  /// Bytes of the tensor that local layer `l` of a chunk reads (l = layers: that the chunk leaves), and of its gradient.
  Bytes hidden_bytes(const ChunkPart& p, std::int64_t l) const;
  Bytes gradient_bytes(const ChunkPart& p, std::int64_t l) const;
  /// Transfers in front of global layer `layer`.
  const TransferTemplates& transfers(std::int64_t layer) const;

  // ---- forward ----
  void received(const ChunkPart& p, InFlight& f) const;
  void bridge(const Action& a, InFlight& f, std::int64_t l);
  /// The chunk's output is complete: what leaves takes the encoder's output along.
  void leave(const Action& a, InFlight& f);
  /// Of an evaluation: what the bridge has used, and the encoder's output once the chunk has left.
  void drop_bridge(InFlight& f);
  void drop_memory(InFlight& f);

  // ---- backward ----
  /// Before everything else, and behind everything else.
  void start_tables(const Action& a);
  void complete_tables(const Action& a);
  /// After the head's backward pass where the chunk has the head.
  void start_backward(const Action& a, InFlight& f);
  void bridge_backward(const Action& a, InFlight& f);
  /// Drops the gradient that has been used, unless that of the encoder's output lies behind it.
  void drop_gradient(InFlight& f);
  void leave_backward(const Action& a, InFlight& f);

 private:
  const ChunkPart& part(const Action& a) const { return chunks_[static_cast<std::size_t>(a.chunk)]; }
  /// Sizes of the state that leaves the layer before `layer`, and of that which `layer` reads.
  const Shapes& before(std::int64_t layer) const { return decoder(layer - 1) ? d_ : s_; }
  const Shapes& at(std::int64_t layer) const { return decoder(layer) ? d_ : s_; }
  Binding behind(BufferId state) const { return {state, 1, bytes(d_.hidden_elements()).count()}; }
  Bytes bytes(std::int64_t elements) const { return bytes_of(s_.dtypes.compute, elements); }
  std::int32_t region(RegionKind kind) const { return to_.memory.params().find(kind); }
  /// Adds the table of positions to a list of bindings, or its gradient, where both stacks share one.
  void add_positions(std::vector<Binding>& slots) const;
  void add_position_gradients(std::vector<Binding>& slots, std::int32_t micro_batch) const;
  InstanceKey bridge_key(const Action& a) const;

  const DecoderTemplates& t_;
  const Templates& all_;
  const Shapes& s_;
  const Shapes d_;
  const std::vector<ChunkPart>& chunks_;
  Parts to_;
};

}  // namespace tandem::lowering
