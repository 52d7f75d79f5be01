#pragma once
// Tensors of one micro-batch in one chunk of a stage, and helpers that allocate and write them.

#include <string_view>
#include <vector>

#include "models/lowering/shapes/parameters.hpp"
#include "models/lowering/stage/stage_context.hpp"

namespace tandem::lowering {

/// Buffers of one micro-batch in one chunk.
struct InFlight {
  std::vector<BufferId> hidden;    ///< by layer: its input; then the chunk's output; then each MTP block's input and output
  std::vector<BufferId> saved;     ///< [layer]
  std::vector<BufferId> offloaded; ///< [layer]: those of the saved tensors that wait in host memory
  std::vector<std::uint8_t> away;  ///< [layer]: which of its tensors are there (ActivationOffload)
  // By layer, if the backward pass is split:
  std::vector<BufferId> inputs;    ///< forward tensors that the weight gradients read
  std::vector<BufferId> deferred;  ///< backward tensors that they read
  BufferId embed_saved = kNoBuffer, head_saved = kNoBuffer;
  BufferId embed_mask = kNoBuffer; ///< mask of the embedding's dropout: held, never touched
  BufferId logits = kNoBuffer;     ///< kept for metrics
  BufferId gradient = kNoBuffer;   ///< gradient of the hidden state where the backward pass stands
  BufferId sent_hidden = kNoBuffer, sent_gradient = kNoBuffer;  ///< until their bytes may be reused
  TemplateId gather_hidden, gather_gradient;  ///< gather for received shares that are not joined yet
  Point gradient_there;            ///< when a received gradient is complete
  Point leaves_after;              ///< what the last pass' output waits for before it is sent; each backward pass sets it anew
  // MTP modules: hidden states that the head reads, their gradients, gradients of the modules'
  // word embeddings, and stored tensors of state norms (the model's first) and modules.
  BufferId states = kNoBuffer, state_gradients = kNoBuffer, word_gradients = kNoBuffer;
  std::vector<BufferId> norm_saved, module_saved;
  // Encoder-decoder only.
  BufferId bridge_input = kNoBuffer, bridge_saved = kNoBuffer;
  Binding memory;                  ///< the encoder's output, behind the chunk's first decoder state
  Binding memory_gradient;         ///< its accumulated gradient: an own buffer, or behind a received one
};

/// Writes instances of computations and their buffers.
class InstanceWriter {
 public:
  InstanceWriter(const TemplateLibrary& library, ProgramBuilder& builder) : library_(library), b_(builder) {}

  void add(TemplateId t, const InstanceKey& k, const std::vector<Binding>& slots) { last_ = b_.end_of(b_.add(t, k, slots)); }
  void drop(BufferId& buffer) {
    b_.release(buffer);
    buffer = kNoBuffer;
  }
  BufferId buffer(std::string_view name, Bytes bytes) { return b_.allocate(name, MemoryKind::activations, bytes); }
  BufferId slot_buffer(std::string_view name, TemplateId t, std::string_view slot) { return buffer(name, slot_bytes(t, slot)); }
  Bytes slot_bytes(TemplateId t, std::string_view name) const { return library_[t].slots[library_.slot(t, name)].bytes; }
  /// End of the last computation.
  Point last() const { return last_; }
  void show(RepeatDetector& r) { r.point(last_); }

 private:
  const TemplateLibrary& library_;
  ProgramBuilder& b_;
  Point last_;
};

}  // namespace tandem::lowering
