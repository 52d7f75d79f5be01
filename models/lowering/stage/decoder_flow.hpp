#pragma once
// An encoder-decoder's additions to a stage. Sizes change at the first decoder layer. The encoder's
// output travels with the decoder's state. Its gradient is the sum over all decoder layers.
//
// Inside a chunk the encoder's output is stored once, behind the first decoder state. Between stages it follows the state.

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
  /// Whether the bridge between the stacks comes before local layer `l` of a chunk.
  bool bridge_before(const ChunkPart& p, std::int64_t l) const { return p.bridge && p.first_layer + l == s_.encoder_layers; }
  std::vector<TemplateId> used_templates() const;

  /// Bytes of the input of local layer `l` of a chunk (l = layers: of the chunk's output), and of its gradient.
  Bytes hidden_bytes(const ChunkPart& p, std::int64_t l) const;
  Bytes gradient_bytes(const ChunkPart& p, std::int64_t l) const;
  /// Templates of the transfers before global layer `layer`.
  const TransferTemplates& transfers(std::int64_t layer) const;

  // ---- forward ----
  void received(const ChunkPart& p, InFlight& f) const;
  void bridge(const Action& a, InFlight& f, std::int64_t l);
  /// Called when the chunk's output is complete. Appends the encoder's output to what is sent.
  void leave(const Action& a, InFlight& f);
  /// Evaluation: frees the bridge's input, and the encoder's output after the chunk.
  void drop_bridge(InFlight& f);
  void drop_memory(InFlight& f);

  // ---- backward ----
  /// First and last step of a chunk's backward pass.
  void start_tables(const Action& a);
  void complete_tables(const Action& a);
  /// Called after the head's backward pass, on the chunk with the head.
  void start_backward(const Action& a, InFlight& f);
  void bridge_backward(const Action& a, InFlight& f);
  /// Frees a used gradient, unless the gradient of the encoder's output lies behind it.
  void drop_gradient(InFlight& f);
  void leave_backward(const Action& a, InFlight& f);

 private:
  const ChunkPart& part(const Action& a) const { return chunks_[static_cast<std::size_t>(a.chunk)]; }
  /// Sizes of the state that the layer before `layer` writes, and of the state that `layer` reads.
  const Shapes& before(std::int64_t layer) const { return decoder(layer - 1) ? d_ : s_; }
  const Shapes& at(std::int64_t layer) const { return decoder(layer) ? d_ : s_; }
  Binding behind(BufferId state) const { return {state, 1, bytes(d_.hidden_elements()).count()}; }
  Bytes bytes(std::int64_t elements) const { return bytes_of(s_.dtypes.compute, elements); }
  std::int32_t region(RegionKind kind) const { return to_.memory.params().find(kind); }
  /// Adds the table of positions, or its gradient, to a list of bindings if both stacks share one.
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
