#pragma once
// Activations in host memory (parallel.offload.activations). What a block keeps is copied to the host after its forward pass and
// back before its backward pass, one block ahead. So a copy runs beside the next block, and its bytes are free after that block.
//
// The last block of a chunk stays on the device if the next backward pass of the stage is its own: it would come back at once. The
// first block of a backward pass is brought back in the last block of the backward pass before, if its forward pass has ended
// (NVIDIA/Megatron-LM: megatron/core/pipeline_parallel/fine_grained_activation_offload.py, post_warmup_callback,
// should_bulk_offload and bulk_reload). Megatron-LM copies in both directions at once. Here one stream does both, as in torchtune and
// TRL (huggingface/trl: trl/models/activation_offloading.py), which bring nothing back ahead.

#include <vector>

#include "models/lowering/stage/in_flight.hpp"
#include "models/lowering/stage/stage_blocks.hpp"

namespace tandem::lowering {

class ActivationOffload {
 public:
  ActivationOffload(const StageContext& c, const std::vector<ChunkPart>& chunks, const StageBlocks& blocks, ProgramBuilder& builder,
                    InstanceWriter& writer)
      : c_(c), chunks_(chunks), blocks_(blocks), b_(builder), w_(writer) {}

  bool here() const { return !c_.forward_only && (s().on_host.kept() || s().on_host.input); }

  /// After the forward pass of block `l`. `stays`: its backward pass is the next one of the stage.
  void after_forward(const Action& a, InFlight& f, std::int64_t l, bool stays);
  /// Before a backward pass begins, or in the pass before it: brings back the tensors of its first block.
  void before_pass(const Action& a, InFlight& f);
  /// Before the backward pass of block `l`: brings back its tensors, and those of the next block.
  void before_backward(const Action& a, InFlight& f, std::int64_t l);
  /// Frees the tensors that were copied after an earlier block.
  void free_copied();

  /// Tensors on their way to the host.
  const std::vector<BufferId>& leaving() const { return leaving_; }

 private:
  static constexpr std::uint8_t kKept = 1, kInput = 2;

  const Shapes& s() const { return c_.shapes; }
  const ChunkPart& part(const Action& a) const { return chunks_[static_cast<std::size_t>(a.chunk)]; }
  bool covers(const ChunkPart& p, std::int64_t l) const;
  void send(TemplateId copy, const InstanceKey& key, BufferId& buffer);
  /// Brings back what is in host memory of block `l`.
  void fetch(const Action& a, InFlight& f, std::int64_t l);
  InstanceKey key(const Action& a, std::int64_t l, Phase phase) const {
    return {static_cast<std::int32_t>(part(a).first_layer + l), a.micro_batch, a.chunk, phase};
  }

  const StageContext& c_;
  const std::vector<ChunkPart>& chunks_;
  const StageBlocks& blocks_;
  ProgramBuilder& b_;
  InstanceWriter& w_;
  std::vector<BufferId> leaving_;
};

}  // namespace tandem::lowering
