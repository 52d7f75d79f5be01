#pragma once
// The templates one plan needs, built once and shared by all its stages.

#include "models/lowering/blocks.hpp"
#include "models/lowering/program_builder.hpp"

namespace tandem::lowering {

/// A template for the first micro-batch, which writes gradients, and one for the others, which add.
struct FirstAndLater {
  TemplateId first, later;
  TemplateId of(std::int32_t micro_batch) const { return micro_batch == 0 ? first : later; }
};

struct Templates {
  TemplateId block_forward, embed_forward;
  FirstAndLater block_backward, embed_backward, head_forward, head_backward;
  TemplateId send_forward, send_backward, recv_forward, recv_backward;
  TemplateId tie;             ///< both halves on one stage
};

Templates make_templates(const Shapes& s, TemplateLibrary& library);

}  // namespace tandem::lowering
