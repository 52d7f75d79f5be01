#pragma once
// Fusion sets: which operations a framework does in one kernel, and what it holds besides. Each is a file of models/stacks/fusions, which
// models/fields/fusion_file.hpp reads.

#include <cstdint>
#include <string>

#include "models/plan/attention_kernel.hpp"

namespace tandem {

/// How a set differs from the set "reference", in which the lowering writes tasks.
struct FusionSet {
  std::string name = "reference";
  AttentionKernel attention = AttentionKernel::flash2;  ///< of attention without a score matrix, unless the plan names another
  /// `attention` only supports 16 bits with a causal mask; Tandem's own kernel does dropout, biases, windows and other types.
  bool own_unusual_attention = false;
  bool allocates_by_dispatcher = true;  ///< tensors are allocated by calls of PyTorch, which fill them where it is told to
  // Tasks that become one.
  bool accumulating_products = false;  ///< a matrix's gradient is added to those of earlier micro-batches by its product
  bool bias_gradient_in_product = false;  ///< a bias' gradient comes with that of its matrix
  bool bias_activation = false;        ///< the bias of an MLP's first matrix is added by the activation, not by the product
  bool activation_in_product = false;  ///< a tanh-GELU, and its gradient, in the product that it follows
  bool residual_norm = false;          ///< a norm in the kernel of the sum that it follows
  bool one_kernel_loss = false;        ///< maximum, sums and gradient of a vocabulary that no rank shares
  // Tasks that become several.
  bool scores_scaled_apart = false;    ///< the division of the scores by sqrt(head_dim)
  bool mask_apart = false;             ///< mask and bias of the scores, before their softmax
  bool attention_dropout_apart = false;
  bool dropout_apart = false;          ///< bias, dropout and residual sum behind a sublayer
  bool gate_apart = false;             ///< activation and product of a gated MLP
  bool rms_apart = false;              ///< RMSNorm as single operations, in fp32 where activations are 16 bits wide
  bool norm_widened = false;           ///< a norm's 16-bit input becomes an fp32 tensor before it, and its gradient 16 bits wide behind it
  bool rotary_apart = false;           ///< of queries and of keys: swap, times cos, times sin, sum
  bool whole_logits = false;           ///< tensor ranks gather the logits, and each takes the loss of the whole vocabulary
  bool norm_gradients_apart = false;   ///< gradients of a norm's input and of its parameters
  bool gradients_cast_apart = false;   ///< bf16 gradients become fp32 tensors before they are added to fp32 ones
  bool residual_gradient_apart = false;  ///< the sum of a norm's gradient and that of the residual beside it
  bool weighted_expert_bias = false;   ///< the last bias of experts, times the router's weights, is added by single operations in fp32
  bool norm_in_product_module = false; ///< a layer's first norm before attention, and a dense MLP's, are recomputed with the product behind, never alone
  bool rows_by_element = false;        ///< experts' rows move by gather and scatter_add over single elements, twice each way
  // What is held beside what the gradients need.
  bool rotated_copies = false;           ///< queries and keys before and after their rotation
  bool norm_copies = false;              ///< of RMSNorm as single operations, an fp32 tensor beside input and output
  bool dropout_masks = false;            ///< a byte an element, the embedding's too, but inside attention without a score matrix
  bool gate_kept = false;                ///< of a gated MLP, the activation before the product
  bool weighted_activations = false;     ///< keep an ungated expert's activation before the router weight; do not keep the returned rows
  bool gradient_stand_ins = false;       ///< where products add gradients: tensors of the matrices' shapes that only stand for them
  bool loss_in_place = false;            ///< the gradient of the logits is written over them
  bool master_remainders = false;        ///< where gradients are as narrow as bf16 weights: of fp32 masters only what these lack
  bool narrow_gradients = false;         ///< bf16 gradients of all parameters beside the fp32 ones that they are added to
  std::int64_t product_workspace = 0;    ///< bytes that products may use, thrice where collectives run beside them in chunks
  std::int64_t step_bytes = 0;           ///< for each parameter that a rank updates, while its optimizer runs
  std::int64_t cached_bytes = 0;         ///< likewise, of freed tensors that the allocator keeps, no later one having their sizes
  std::int64_t cached_sharded_bytes = 0; ///< the same where weights are sharded (ZeRO 3)
  bool sharded_streams = false;          ///< sharded weights are PyTorch's FSDP's, whose streams have memory of their own
  std::int64_t collective_elements = 0;  ///< of ZeRO 1: elements that a collective copies to send them as one tensor
  bool gathered_inputs = false;          ///< under sequence parallelism, rows gathered for a product stay for its weight's gradient
  bool loss_copies = false;              ///< an fp32 copy of 16-bit logits until the loss, and two gradients beside log_softmax before its narrow one
  bool softmax_widened = false;          ///< of a score matrix by PyTorch in fp32: its probabilities beside their narrow copy
  std::int64_t kept_logits = 0;          ///< micro-batches whose logits, as wide as the loss, stay until as many more have passed
  // What is computed beside the step.
  std::int64_t metrics = 0;              ///< cross-entropies of the logits for display, after a micro-batch's backward pass

  bool operator==(const FusionSet&) const = default;
};

}  // namespace tandem
