#pragma once
// What one micro-batch has in memory in one chunk of a stage, and the small steps that put it there.

#include <string_view>
#include <vector>

#include "models/lowering/shapes/parameters.hpp"
#include "models/lowering/stage/stage_context.hpp"

namespace tandem::lowering {

/// Buffers of one micro-batch in one chunk.
struct InFlight {
  std::vector<BufferId> hidden;    ///< [layer]: input of the layer; then the chunk's output, and of each MTP module its block's input and output
  std::vector<BufferId> saved;     ///< [layer]
  // Where the backward pass is split, by layer:
  std::vector<BufferId> inputs;    ///< what of the forward pass the weights' gradients read
  std::vector<BufferId> deferred;  ///< and what of the backward pass
  BufferId embed_saved = kNoBuffer, head_saved = kNoBuffer;
  BufferId embed_mask = kNoBuffer; ///< of the embedding's dropout: held, never touched
  BufferId logits = kNoBuffer;     ///< where they are kept for what is shown of them
  BufferId gradient = kNoBuffer;   ///< of the hidden state the backward pass has reached
  BufferId sent_hidden = kNoBuffer, sent_gradient = kNoBuffer;  ///< until their bytes may be handed on
  TemplateId gather_hidden, gather_gradient;  ///< of what came in shares and has not been put together
  Point gradient_there;            ///< when a received gradient has come, whole
  // MTP modules: states that the head reads, their gradients, those of the modules' words, and what norms of states (the model's first) and
  // modules keep.
  BufferId states = kNoBuffer, state_gradients = kNoBuffer, word_gradients = kNoBuffer;
  std::vector<BufferId> norm_saved, module_saved;
  // An encoder-decoder.
  BufferId bridge_input = kNoBuffer, bridge_saved = kNoBuffer;
  Binding memory;                  ///< the encoder's output: behind the first decoder state that the chunk has
  Binding memory_gradient;         ///< its gradient so far: a buffer of its own, or behind a received one
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
