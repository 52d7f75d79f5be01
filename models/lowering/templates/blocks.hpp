#pragma once
// Templates of one block, one embedding, one head, one transfer and one update. Slots are bound by
// name (slot 0 is always scratch). A slot in brackets exists only if the model has such a tensor:
//
//   block_forward    weights [quantized] [adapters] [experts] [expert_adapters] [relative] x [memory] y saved [offloaded] [weight_inputs]
//   block_recompute  as block_forward; y is not written
//   block_backward   weights [quantized] [adapters] [experts] [expert_adapters] [relative] [gradients] [expert_gradients]
//                    [relative_gradients] x [memory] saved [offloaded] [weight_inputs] dy dx [dmemory] [deferred]
//                    Where the block is frozen, `gradients` and `expert_gradients` are those of adapters.
//   bridge_forward   bridge word [positions] x decoder_tokens y saved
//   bridge_backward  bridge bridge_gradients word_gradients [position_gradients] x decoder_tokens saved dy dmemory dx
//   memory_pass      from to
//   block_weights    weights [experts] gradients [expert_gradients] x weight_inputs deferred
//   embed_forward    word [embedding] [positions] tokens [types] y saved
//   embed_backward   word_gradients [embedding embedding_gradients] [position_gradients] tokens [types] saved dy
//   head_forward     [head] output x targets [labels] loss saved [logits]
//   head_backward    [head head_gradients] output output_gradients x saved dx
//   with a loss in chunks:
//   head_forward     head x saved
//   head_backward    head [head_gradients] output [output_gradients] x targets loss saved dx
//   with MTP modules:
//   head_forward     [head] output states targets mtp_targets loss saved [logits]
//   head_backward    [head head_gradients] output output_gradients states saved dstates
//   final_norm_forward    norm x saved state; mtp_norm_forward is alike
//   final_norm_backward   norm norm_gradients x saved dstate dx; mtp_norm_backward is alike
//   mtp_forward      word mtp words state y saved
//   mtp_backward     mtp mtp_gradients state saved dy dstate dwords
//   mtp_words        word_gradients mtp_tokens dwords
//   metrics          targets logits copies
//   transfers        buffer
//   reductions, gathers   buffer [shard]
//   halves of reductions  buffer [sent]; sent shard
//   tie              from to
//   optimizer        gradients weights sums [exp_avg] [exp_avg_sq] [tensor_sums] [gradient_sums] [master], by name

#include <optional>

#include "models/graph/task_graph.hpp"
#include "models/lowering/shapes/shapes.hpp"

namespace tandem::lowering {

/// A block of the kind of `s`. With a decoder's sizes it is named "decoder_forward"; its backward pass is "decoder_backward".
Template block_forward(const Shapes& s);
/// Recomputes the tensors that a block's backward pass reads: block_forward without its last tasks, which write only its output.
Template block_recompute(const Shapes& s);

enum class BackwardPart : std::uint8_t { whole, input, weights };
struct BlockBackwardKind {
  bool first = false;      ///< gradients overwrite rather than accumulate: first micro-batch
  BackwardPart part = BackwardPart::whole;
  bool input_unread = false;  ///< nothing reads the input's gradient: all below the first layer is frozen
};
Template block_backward(const Shapes& s, const BlockBackwardKind& kind);

Template embed_forward(const Shapes& s);
Template embed_backward(const Shapes& s, bool first);
/// `first`: overwrites the loss rather than adding to it.
Template head_forward(const Shapes& s, bool first);
/// `first_loss`: a loss in chunks overwrites the loss.
Template head_backward(const Shapes& s, bool first, bool first_loss);
/// The norm after the model's layers (`module` false) or after an MTP module's block. The head and the next module read its output.
Template state_norm_forward(const Shapes& s, bool module);
Template state_norm_backward(const Shapes& s, bool module, bool first);
/// Input of an MTP module's block, from the previous module's (or the model's) hidden states and embeddings of further tokens.
Template mtp_forward(const Shapes& s);
/// Backward pass of mtp_forward. Adds to the gradient of the input states.
Template mtp_backward(const Shapes& s, bool first);
/// The word matrix' gradient from the gradients of all modules' word embeddings.
Template mtp_words(const Shapes& s, bool first);
/// Whether the trainer computes metrics from stored logits. Only for decoders whose ranks have the whole vocabulary.
bool shows_metrics(const Shapes& s);
Template metrics(const Shapes& s);

/// From the encoder's last state to the decoder's first one (sizes `s` and `d`), followed by the encoder's normed output.
Template bridge_forward(const Shapes& s, const Shapes& d);
Template bridge_backward(const Shapes& s, const Shapes& d, bool first);
/// Copies the encoder's output, or its gradient, behind a state that leaves the chunk.
Template memory_pass(std::string name, const Shapes& d);
/// Zero-fills gradients that every layer adds to.
Template memory_gradient_start(const Shapes& d);
Template table_gradient_start(const Shapes& s);
/// Adds one micro-batch's gradient of the tables, complete over all their uses, to the other micro-batches'. Slots: from, to.
Template table_gradient_add(const Shapes& s);

/// Sends or receives one boundary tensor, to or from the stage `stage_offset` away.
Template transfer(std::string name, const Shapes& s, bool send, int stage_offset);
/// Gathers the tensor ranks' shares of a received boundary tensor; with Shapes::scatter_p2p.
Template gather_transfer(const Shapes& s);

/// Sizes and types of one reduction or gather.
struct ReduceSpec {
  std::string name;
  Group group = Group::data;
  std::int64_t elements = 0;   ///< elements of the full vector
  std::int64_t padding = 0;    ///< elements at the end that belong to no parameter
  DType dtype = DType::fp32;   ///< type in the collective
  MemoryKind kind = MemoryKind::gradients;
  std::int64_t shards = 1;     ///< ranks that share the vector
  DType held = DType::fp32;    ///< type in its buffers
  bool copied = false;         ///< copied into a tensor of its own before the collective, whatever the types
  DType written = DType::fp32; ///< type of the source of that copy, the full vector in `buffer`
  bool summed_whole = false;   ///< each rank gets the whole sum, of which it keeps its share
};
/// all_reduce of `buffer` in place.
Template all_reduce(const ReduceSpec& spec, Stream stream = Stream::data);
/// Each rank's share of the sum of `buffer`: in its place in `buffer`, or in slot `shard`, overwritten or added to.
enum class ShareGoes : std::uint8_t { in_place, written, added };
Template reduce_scatter(const ReduceSpec& spec, ShareGoes goes);
/// First half of reduce_scatter: each rank's share of the sum of `buffer`. It stays
/// in its place there or, if the collective uses another type, in slot `sent`.
Template scatter_sum(const ReduceSpec& spec);
/// scatter_sum() for copied gradients whose sum has the type of the
/// stored share: the sum goes to slot `shard`. Slots: buffer sent shard.
Template scatter_copied(const ReduceSpec& spec);
/// Second half: from `sent` to slot `shard`, overwritten or added to. Slots: sent shard.
Template take_sum(const ReduceSpec& spec, ShareGoes goes);
/// First half of a sum of `buffer` in another type. The rank's
/// result, all or its share, is in slot `sent`. Slots: buffer sent.
Template sum_apart(const ReduceSpec& spec);
/// Second half: from `sent` to its place in `buffer`. Slots: sent buffer.
Template take_apart(const ReduceSpec& spec);
/// all_gather of `buffer`. Each rank's share is already at its place there. With one shard: what each rank owns (models/graph/owners).
Template all_gather(const ReduceSpec& spec);
/// Sums the rank's share over group `over`. `whole`: the share is at its place in `buffer`; else it is slot `shard`.
Template sum_share(const ReduceSpec& spec, Group over, bool whole);
/// First half of sum_share() in another type: sums slot `shard` in slot `sent`. Slots: shard sent.
Template send_share(const ReduceSpec& spec, Group over);
/// Second half: from `sent` to `shard`. Slots: sent shard.
Template take_share(const ReduceSpec& spec);
/// `to` += `from`: this rank's shares of the gradients of one matrix' two uses on its stage. `whole` as above.
Template tie(const ReduceSpec& spec, bool whole);

/// Matrices of one shape that Muon updates. `rows` and `cols`: of the rank's share of each. With ZeRO 1 `count` is that of the data rank
/// whose matrices take most FLOPs, and may be 0.
struct MuonMatrices {
  std::int64_t count, rows, cols, whole_rows, whole_cols;
};

struct UpdateSpec {
  std::int64_t gradient_elements = 0, weight_elements = 0, state_elements = 0;  ///< elements of the rank's buffers
  std::int64_t own_elements = 0;    ///< gradient elements of the parameters that the rank updates
  std::int64_t global_parameters = 0;
  Group norm_group = Group::model;
  bool norm_is_shared = false;      ///< the norm group has more than one rank
  bool post_validated = false;      ///< the update does not wait for the norm (arXiv 2401.10241 section 4)
  DType weights = DType::fp32;      ///< type in which the rank stores them
  OptimizerSpec optimizer;
  double clip_grad = 0;
  std::optional<LossScale> loss_scale = std::nullopt;
  bool stochastic = false;          ///< 16-bit values without a wider copy are rounded at random
  std::vector<MuonMatrices> matrices{};  ///< updated by Muon; AdamW updates all else
  std::int64_t unsquared_elements = 0;   ///< of `state_elements`: those without a second moment
};
/// The update of one unit with its states in host memory, and its weights with `weights_too`: copies
/// them to the device, updates and copies back. Slots: gradients weights exp_avg exp_avg_sq [master].
struct OffloadedUpdate {
  ReduceSpec unit;
  bool whole_gradients = true, whole_weights = true;   ///< the rank's share is at its place in the whole unit
  bool weights_too = false;
  DType weights = DType::fp32;                         ///< type in which the rank stores them
  OptimizerSpec optimizer;
};
Template offloaded_update(const Shapes& s, const OffloadedUpdate& spec);
/// Norm, clip coefficient and update. With post-validation: the update, and only this rank's part of the norm.
Template optimizer_step(const Shapes& s, const UpdateSpec& spec);
/// Validates such an update: computes the norm over all ranks and the clip coefficient. Slots: sums.
Template validation(const Shapes& s, const UpdateSpec& spec);

}  // namespace tandem::lowering
