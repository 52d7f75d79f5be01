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

/// Templates of one kind of block.
struct BlockTemplates {
  TemplateId forward, again;  ///< `again`: recomputation of the forward pass before the backward pass
  TemplateId kept_out, kept_in;  ///< copies of kept tensors to the host and back; unset if none go there
  FirstAndLater backward;
  FirstAndLater backward_end; ///< of the first layer, if no parameter below it is trained; else unset
  FirstAndLater weights;      ///< weight-gradient half, if a schedule splits the backward pass
  // Pieces of the templates for two passes at once (pieces.hpp); else empty.
  std::vector<TemplateId> forward_pieces;
  std::array<std::vector<TemplateId>, 2> backward_pieces;  ///< for the first micro-batch; for the others
};

/// Templates of transfers between stages.
struct TransferTemplates {
  TemplateId send_forward, send_backward, recv_forward, recv_backward;
  TemplateId gather;   ///< gathers shares that were received

  TemplateId at(bool send, int stage_offset) const {
    if (send) return stage_offset > 0 ? send_forward : send_backward;
    return stage_offset < 0 ? recv_forward : recv_backward;
  }
};

/// Additional templates of an encoder-decoder; unset otherwise.
struct DecoderTemplates {
  BlockTemplates block;
  BlockTemplates kept_block;       ///< blocks without selective recomputation
  TransferTemplates transfer;      ///< transfers of a decoder's state followed by the encoder's output
  TemplateId bridge_forward, pass_memory, pass_gradient, memory_start, tables_start, tables_add;
  FirstAndLater bridge_backward;
};

/// Additional templates of MTP modules; unset without them.
struct MtpTemplates {
  TemplateId final_norm_forward, norm_forward, forward;
  FirstAndLater final_norm_backward, norm_backward, backward, words;
};

struct Templates {
  std::array<BlockTemplates, kLayerKinds> blocks;  ///< by LayerKind::index(); unset for kinds that the model lacks
  std::array<BlockTemplates, kLayerKinds> kept_blocks;  ///< likewise, of layers without selective recomputation
  DecoderTemplates decoder;
  MtpTemplates mtp;
  TemplateId embed_forward;
  FirstAndLater embed_backward, head_forward, head_backward;
  TemplateId metrics;   ///< unset if no metrics are shown
  TemplateId input_out, input_in;  ///< copies of a block's input to the host and back; unset if none go there
  TransferTemplates transfer;
};

struct TemplateChoice {
  bool always_first = false;  ///< each micro-batch's gradients overwrite (ZeRO 2 and 3 reduce each)
  bool some_kept = false;     ///< some layers have no selective recomputation
  bool pairs = false;         ///< a forward and a backward pass run at the same time
  bool evaluation = false;    ///< evaluation: forward passes only, without MTP modules
};
Templates make_templates(const Shapes& s, const TemplateChoice& choice, TemplateLibrary& library);

}  // namespace tandem::lowering
