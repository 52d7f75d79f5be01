#pragma once
// The templates: what one block, one embedding, one head, one transfer and one update do. Slots are bound by name (slot 0 is
// always scratch); those in brackets exist where the model has such a thing:
//
//   block_forward    weights [experts] [relative] x [memory] y saved [weight_inputs]
//   block_again      the same; nothing touches y
//   block_backward   weights [experts] [relative] gradients [expert_gradients] [relative_gradients] x [memory] saved
//                    [weight_inputs] dy dx [dmemory] [deferred]
//   bridge_forward   bridge word [positions] x decoder_tokens y saved
//   bridge_backward  bridge bridge_gradients word_gradients [position_gradients] x decoder_tokens saved dy dmemory dx
//   memory_pass      from to
//   block_weights    weights [experts] gradients [expert_gradients] x weight_inputs deferred
//   embed_forward    word [embedding] [positions] tokens [types] y saved
//   embed_backward   word_gradients [embedding embedding_gradients] [position_gradients] tokens [types] saved dy
//   head_forward     [head] output x targets [labels] loss saved [logits]
//   head_backward    [head head_gradients] output output_gradients x saved dx
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

/// Of a layer of the kind of `s`. With a decoder's sizes, a decoder's block: "decoder_forward" and "decoder_backward".
Template block_forward(const Shapes& s);
/// The same without its last tasks, those that write nothing but its output: what its backward pass needs to have run again.
Template block_again(const Shapes& s);

enum class BackwardPart : std::uint8_t { whole, input, weights };
struct BlockBackwardKind {
  bool first = false;      ///< gradients are written, not added to: the first micro-batch
  BackwardPart part = BackwardPart::whole;
};
Template block_backward(const Shapes& s, const BlockBackwardKind& kind);

Template embed_forward(const Shapes& s);
Template embed_backward(const Shapes& s, bool first);
/// `first`: the loss is written, not added to.
Template head_forward(const Shapes& s, bool first);
Template head_backward(const Shapes& s, bool first);
/// The norm behind the model's layers (`module` false) or behind an MTP module's block: what the head reads, and the next module.
Template state_norm_forward(const Shapes& s, bool module);
Template state_norm_backward(const Shapes& s, bool module, bool first);
/// From the states of the module before, or the model's, and the words of further tokens to what a module's block reads.
Template mtp_forward(const Shapes& s);
/// Adds to the gradient of those states.
Template mtp_backward(const Shapes& s, bool first);
/// The word matrix' gradient from those of all modules' words.
Template mtp_words(const Shapes& s, bool first);
/// What a trainer shows is computed of the logits, which are kept until then: of decoders whose ranks have the whole vocabulary.
bool shows_metrics(const Shapes& s);
Template metrics(const Shapes& s);

/// From the encoder's last state to the decoder's first (sizes `s` and `d`), with the encoder's normed output behind it.
Template bridge_forward(const Shapes& s, const Shapes& d);
Template bridge_backward(const Shapes& s, const Shapes& d, bool first);
/// Copies the encoder's output, or its gradient, behind a state that leaves the stage.
Template memory_pass(std::string name, const Shapes& d);
/// Gradients that every layer adds to begin at zero.
Template memory_gradient_start(const Shapes& d);
Template table_gradient_start(const Shapes& s);
/// What all uses added to the tables in a micro-batch is complete before it is added to the others'. Slots: from, to.
Template table_gradient_add(const Shapes& s);

/// One boundary tensor to or from the stage `stage_offset` away.
Template transfer(std::string name, const Shapes& s, bool send, int stage_offset);
/// The tensor ranks' shares of a received boundary tensor put together; with Shapes::scatter_p2p.
Template gather_transfer(const Shapes& s);

/// What one reduction or gather works on.
struct ReduceSpec {
  std::string name;
  Group group = Group::data;
  std::int64_t elements = 0;   ///< of the full vector
  std::int64_t padding = 0;    ///< of these, the last so many belong to no parameter
  DType dtype = DType::fp32;   ///< as it travels
  MemoryKind kind = MemoryKind::gradients;
  std::int64_t shards = 1;     ///< ranks that share the vector
  DType held = DType::fp32;    ///< as it lies in its buffers
  bool copied = false;         ///< it is copied into one tensor before it leaves, whatever its types
  DType written = DType::fp32; ///< of what is copied, as the full vector lies in `buffer`
};
/// all_reduce of `buffer` in place.
Template all_reduce(const ReduceSpec& spec, Stream stream = Stream::data);
/// Every rank's share of the sum of `buffer`: at its own place in `buffer`, or (`apart`) in slot `shard`, written or added to.
enum class ShareGoes : std::uint8_t { in_place, written, added };
Template reduce_scatter(const ReduceSpec& spec, ShareGoes goes);
/// The first half of it: every rank's share of the sum of `buffer` at its own place there or, where gradients travel in another
/// type than they lie in, in slot `sent`.
Template scatter_sum(const ReduceSpec& spec);
/// The same where gradients are copied and the sum has the type that the share is kept in: it goes into slot `shard`. Slots:
/// buffer sent shard.
Template scatter_copied(const ReduceSpec& spec);
/// The second half: from there into slot `shard`, written or added to. Slots: sent shard.
Template take_sum(const ReduceSpec& spec, ShareGoes goes);
/// The sum of `buffer` over its group in two halves, where it travels in another type: what of it the rank keeps, all or its share,
/// is in slot `sent`. Slots: buffer sent.
Template sum_apart(const ReduceSpec& spec);
/// The second half: from there to its place in `buffer`. Slots: sent buffer.
Template take_apart(const ReduceSpec& spec);
/// all_gather of `buffer` from the shares at their places in it.
Template all_gather(const ReduceSpec& spec);
/// Sum of the rank's share over group `over`. `whole`: the share lies at its place in `buffer`, else it is slot `shard`.
Template sum_share(const ReduceSpec& spec, Group over, bool whole);
/// The same in two halves where the share, slot `shard`, travels in another type, in slot `sent`. Slots: shard sent.
Template send_share(const ReduceSpec& spec, Group over);
/// The second half. Slots: sent shard.
Template take_share(const ReduceSpec& spec);
/// `to` += `from`, this rank's shares of the gradients of the two uses of one matrix, both on one stage. `whole` as above.
Template tie(const ReduceSpec& spec, bool whole);

struct UpdateSpec {
  std::int64_t gradient_elements = 0, weight_elements = 0, state_elements = 0;  ///< of the rank's buffers
  std::int64_t own_elements = 0;    ///< of its gradients, those of the parameters that it updates
  std::int64_t global_parameters = 0;
  Group norm_group = Group::model;
  bool norm_is_shared = false;      ///< the norm group has more than one rank
  bool post_validated = false;      ///< the update does not wait for the norm (arXiv 2401.10241 section 4)
  DType weights = DType::fp32;      ///< as the rank keeps them
  OptimizerSpec optimizer;
  double clip_grad = 0;
  std::optional<LossScale> loss_scale = std::nullopt;
  bool stochastic = false;          ///< what stays in 16 bits is rounded at random
};
/// The update of one unit whose states, and with `weights_too` whose weights, live in the host's memory: they come, are
/// updated and go back. Slots: gradients weights exp_avg exp_avg_sq [master].
struct OffloadedUpdate {
  ReduceSpec unit;
  bool whole_gradients = true, whole_weights = true;   ///< the share lies at its place in the whole unit
  bool weights_too = false;
  DType weights = DType::fp32;                         ///< as the rank keeps them
  OptimizerSpec optimizer;
};
Template offloaded_update(const Shapes& s, const OffloadedUpdate& spec);
/// Norm, clip coefficient and update; where the update is validated afterwards only this rank's part of the norm, and update.
Template optimizer_step(const Shapes& s, const UpdateSpec& spec);
/// What such an update is validated by: the norm of all ranks and the clip coefficient. Slots: sums.
Template validation(const Shapes& s, const UpdateSpec& spec);

}  // namespace tandem::lowering
