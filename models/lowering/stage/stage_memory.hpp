#pragma once
// The parameters of one stage in memory: weights, gradients and optimizer states, whole or sharded (ZeRO, arXiv 1910.02054).
//
//   stage 1   gradients and weights whole, states sharded; under Muon a rank has the states of whole parameters (models/graph/owners)
//   stage 2   gradients sharded too: those of one micro-batch lie in a temporary unit until they are reduced
//   stage 3   weights sharded too: a unit is gathered into a temporary one before it is used

#include <algorithm>
#include <map>
#include <vector>

#include "models/graph/owners.hpp"
#include "models/lowering/shapes/parameters.hpp"
#include "models/lowering/stage/cached_tensors.hpp"
#include "models/lowering/stage/stage_context.hpp"

namespace tandem::lowering {

class StageMemory {
 public:
  StageMemory(const StageContext& c, const std::vector<ChunkPart>& chunks, ProgramBuilder& builder);

  /// Declares all buffers that live for the whole step.
  void declare(std::int64_t micro_batches);

  const StageParams& params() const { return p_; }
  const Sharding& sharding() const { return z_; }
  bool weights_sharded() const { return z_.zero_stage == 3; }
  bool gradients_sharded() const { return z_.zero_stage > 1; }
  /// Whether each rank updates whole parameters (Muon with ZeRO 1), not its part of each unit.
  bool whole_owned() const { return !owners_.parts.empty(); }
  /// Whether gathers and reductions write tensors allocated on their own streams, as in PyTorch's FSDP; FSDP1
  /// also does so for what it sends (pytorch/pytorch: torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py,
  /// foreach_all_gather and foreach_reduce; torch/distributed/fsdp/_runtime_utils.py, _unshard and _reduce_grad).
  bool own_streams() const { return s_.unit_copies != UnitCopies::none || (weights_sharded() && s_.fusion.sharded_streams); }
  /// Whether weights are gathered directly to their place of use: FSDP1.
  bool gathers_in_place() const { return own_streams() && s_.unit_copies != UnitCopies::per_parameter; }
  bool first() const { return first_; }
  bool last() const { return last_; }
  bool head_has_bias() const { return s_.output_bias; }
  /// This stage's uses of its copy of the word matrix, in order. The first use's gradient
  /// lies with the other parameters'. Later uses have separate, "extra" gradients.
  const std::vector<WordUse>& word_uses() const { return word_uses_; }
  bool uses_apart() const { return word_uses_apart(c_.plan); }
  std::int32_t extras() const { return std::max(0, static_cast<std::int32_t>(word_uses_.size()) - 1); }

  /// Whether all regions but those of adapters are frozen.
  bool only_adapters() const { return s_.adapters.here(); }

  // ---- by region ----
  bool frozen(std::int32_t region) const { return p_.regions[static_cast<std::size_t>(region)].frozen; }
  Binding weights(std::int32_t region) const;
  /// A chunk's regions at both ends of the model, if FSDP treats them as one root unit; else none.
  std::vector<std::int32_t> root_regions(const ChunkPart& part) const;
  /// Gradients of a region for one micro-batch. Allocates a temporary unit if gradients are sharded.
  Binding gradients(std::int32_t region, std::int32_t micro_batch);
  /// Whether a micro-batch's gradients are accumulated only when complete: those of tables used in many layers.
  bool added_later(std::int32_t region, std::int32_t micro_batch) const;
  /// This stage's copy of the word matrix; -1: it has none.
  std::int32_t word_region() const;
  /// Region of the output matrix, which may be the word matrix.
  std::int32_t output_region() const;
  Binding word_gradients(WordUse use, std::int32_t micro_batch);
  Binding output_gradients(std::int32_t micro_batch);

  // ---- by unit; units from `extra_unit(0)` on are the extra gradients of the word matrix ----
  std::int32_t extra_unit(std::int32_t extra) const { return static_cast<std::int32_t>(p_.units.size()) + extra; }
  /// Whether a unit's gradients are reduced with those of both ends of the model (FSDP's root unit).
  bool in_root(std::int32_t u) const;
  bool is_extra(std::int32_t u) const { return u >= extra_unit(0); }
  /// Unit of the extra gradient of a use of the word matrix; -1: the use writes the word matrix's own region.
  std::int32_t extra_unit(WordUse use) const;
  const ShardUnit& unit(std::int32_t u) const;
  std::int64_t padding(std::int32_t u) const;
  std::int32_t regions_of(std::int32_t u) const;
  /// Persistent gradients of a unit, or this rank's shard of them.
  Binding unit_gradients(std::int32_t u) const;
  /// Bytes of the narrow gradients of a region that live beside the fp32 ones until the next backward
  /// pass (fusion.hpp, narrow_gradients). 0 if there are none, or if they live for the whole step.
  Bytes narrow_gradient(std::int32_t region) const;
  Binding temporary_gradients(std::int32_t u, std::int32_t micro_batch) const { return {temporary_.at({u, micro_batch})}; }
  void release_gradients(std::int32_t u, std::int32_t micro_batch);
  /// Persistent weights of a unit, or this rank's shard of them.
  Binding unit_weights(std::int32_t u) const { return {weights_ + u}; }
  /// Buffer from which a gathered unit is used, until release_weights.
  Binding gather_place(std::int32_t u);
  bool gathered(std::int32_t u) const { return gathered_.count(u) > 0; }
  /// Buffer that receives a gathered unit before it is copied to its place, until release_arrival.
  Binding arrival(std::int32_t u);
  void release_arrival(std::int32_t u);
  void release_weights(std::int32_t u);

  // ---- offloading ----
  /// Whether a unit's optimizer states are in host memory: the first units, up to the planned share of all.
  bool offloaded(std::int32_t u) const { return offloaded_[static_cast<std::size_t>(u)]; }
  bool weights_offloaded() const { return z_.offload.parameters; }

  // ---- whole ----
  Binding all_gradients() const { return {gradients_, gradient_pieces_, 0}; }
  /// Weights of all units that are trained.
  Binding trained_weights() const {
    const auto trained = std::count_if(p_.units.begin(), p_.units.end(), [](const ShardUnit& u) { return !u.frozen; });
    return {weights_, static_cast<std::int32_t>(trained), 0};
  }
  /// An optimizer state, by name.
  Binding state(std::string_view name) const;
  UpdateSpec update_spec() const;
  /// Allocates what a framework's optimizer holds beside states and gradients during the update. kNoBuffer: nothing.
  BufferId begin_update();

  Binding tokens(std::int32_t mb) const { return ids(tokens_, mb, c_.shapes.tokens); }
  Binding types(std::int32_t mb) const { return ids(types_, mb, c_.shapes.tokens); }
  Binding decoder_tokens(std::int32_t mb) const { return ids(decoder_tokens_, mb, last_tokens()); }
  Binding targets(std::int32_t mb) const { return ids(targets_, mb, last_tokens()); }
  /// The further tokens that MTP modules read: of all modules, or of module `module` (first: 0).
  Binding mtp_tokens(std::int32_t mb) const { return ids(mtp_tokens_, mb, s_.mtp * s_.tokens); }
  Binding mtp_tokens(std::int32_t mb, std::int64_t module) const {
    Binding all = mtp_tokens(mb);
    all.offset += bytes_of(DType::int32, module * s_.tokens).count();
    return all;
  }
  Binding mtp_targets(std::int32_t mb) const { return ids(mtp_targets_, mb, s_.mtp * s_.tokens); }
  Binding labels(std::int32_t mb) const { return ids(labels_, mb, c_.shapes.batch); }
  Binding loss() const { return {loss_}; }
  /// Numbers in loss(): the model's loss, and the modules' if MTP modules run.
  std::int64_t losses() const { return mtp_ && !c_.forward_only ? 2 : 1; }

 private:
  bool narrow_gradients() const;
  Binding ids(BufferId buffer, std::int32_t mb, std::int64_t each) const {
    const std::int64_t bytes = bytes_of(DType::int32, each).count();
    return {buffer, 1, bytes * mb, bytes};
  }
  /// Tokens of a micro-batch at the end of the model.
  std::int64_t last_tokens() const { return s_.decoder_layers > 0 ? s_.decoder().tokens : s_.tokens; }
  Bytes unit_bytes(const ShardUnit& u, DType d, bool sharded) const {
    return bytes_of(d, sharded ? u.shard_elements() : u.elements);
  }
  /// Number of units before the quantized ones.
  std::int32_t first_quantized() const {
    const auto before = std::count_if(p_.units.begin(), p_.units.end(), [](const ShardUnit& u) { return !u.quantized; });
    return static_cast<std::int32_t>(before);
  }
  void choose_offloaded();
  UpdateTensors update_tensors(std::int64_t updated) const;
  void declare_narrow_weights();
  void declare_gradients();
  void declare_stand_ins();
  void declare_states();
  void declare_inputs(std::int64_t micro_batches);
  BufferId gradient_piece(std::int32_t region) const;

  const StageContext& c_;
  const Shapes& s_;
  ProgramBuilder& b_;
  Sharding z_;
  bool first_ = false, bridge_ = false, last_ = false, mtp_ = false;
  std::vector<WordUse> word_uses_;
  StageParams p_;
  Ownership owners_;
  std::vector<MuonMatrices> matrices_;
  ShardUnit extra_;                          ///< size of one extra gradient of the word matrix
  std::vector<BufferId> extra_gradients_;
  std::vector<bool> offloaded_;              ///< by unit
  BufferId quantized_ = kNoBuffer;           ///< the first quantized unit
  BufferId weights_ = kNoBuffer, gradients_ = kNoBuffer, tokens_ = kNoBuffer, decoder_tokens_ = kNoBuffer, types_ = kNoBuffer,
           mtp_tokens_ = kNoBuffer, mtp_targets_ = kNoBuffer, targets_ = kNoBuffer, labels_ = kNoBuffer, loss_ = kNoBuffer;
  std::int32_t gradient_pieces_ = 0;
  std::map<std::string, BufferId, std::less<>> states_;
  std::map<std::pair<std::int32_t, std::int32_t>, BufferId> temporary_;
  std::map<std::int32_t, BufferId> gathered_, arrived_;
};

}  // namespace tandem::lowering
