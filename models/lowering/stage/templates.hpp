#pragma once
// The templates one plan needs, built once and shared by all its stages.

#include <array>
#include <vector>

#include "models/lowering/program/program_builder.hpp"
#include "models/lowering/templates/blocks.hpp"

namespace tandem::lowering {

/// A template for the first micro-batch, which writes gradients, and one for the others, which add.
struct FirstAndLater {
  TemplateId first, later;
  TemplateId of(std::int32_t micro_batch) const { return micro_batch == 0 ? first : later; }
};

/// Of one kind of block.
struct BlockTemplates {
  TemplateId forward, again;  ///< `again`: before the backward pass of a layer that is recomputed
  FirstAndLater backward;
  FirstAndLater weights;      ///< the deferred half, where a schedule splits the backward pass
  // Where two passes run at once (pieces.hpp); else empty.
  std::vector<TemplateId> forward_pieces;
  std::array<std::vector<TemplateId>, 2> backward_pieces;  ///< of the first micro-batch, of the others
};

/// Between stages.
struct TransferTemplates {
  TemplateId send_forward, send_backward, recv_forward, recv_backward;
  TemplateId gather;   ///< of what was received in shares

  TemplateId at(bool send, int stage_offset) const {
    if (send) return stage_offset > 0 ? send_forward : send_backward;
    return stage_offset < 0 ? recv_forward : recv_backward;
  }
};

/// What an encoder-decoder has besides: unset elsewhere.
struct DecoderTemplates {
  BlockTemplates block;
  BlockTemplates kept_block;       ///< of layers that selective recomputation leaves out
  TransferTemplates transfer;      ///< of a decoder's state with the encoder's output behind it
  TemplateId bridge_forward, pass_memory, pass_gradient, memory_start, tables_start, tables_add;
  FirstAndLater bridge_backward;
};

/// What MTP modules have besides their blocks: unset elsewhere.
struct MtpTemplates {
  TemplateId final_norm_forward, norm_forward, forward;
  FirstAndLater final_norm_backward, norm_backward, backward, words;
};

struct Templates {
  std::array<BlockTemplates, kLayerKinds> blocks;  ///< by LayerKind::index(); unset of kinds that the model has no layer of
  std::array<BlockTemplates, kLayerKinds> kept_blocks;  ///< the same of layers that selective recomputation leaves out
  DecoderTemplates decoder;
  MtpTemplates mtp;
  TemplateId embed_forward;
  FirstAndLater embed_backward, head_forward, head_backward;
  TemplateId metrics;   ///< unset where none are shown
  TransferTemplates transfer;
};

struct TemplateChoice {
  bool always_first = false;  ///< gradients of every micro-batch are written (ZeRO 2 and 3 reduce each of them)
  bool some_kept = false;     ///< selective recomputation is for some layers only
  bool pairs = false;         ///< a forward and a backward pass run at once
  bool evaluation = false;    ///< forward passes of the model alone, without MTP modules
};
Templates make_templates(const Shapes& s, const TemplateChoice& choice, TemplateLibrary& library);

}  // namespace tandem::lowering
