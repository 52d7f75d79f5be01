#pragma once
// Spellings of the plan's enumerations, in the order of their enumerators. Private to models/fields.

#include <array>
#include <string_view>

#include "models/ops/collective.hpp"
#include "models/plan/plan.hpp"

namespace tandem {

/// An older name that is still read, and the present one.
struct Renamed {
  std::string_view older, name;
};

template <class E>
struct Spelling;  // names: one per enumerator; older: names that are still read, where there are any

template <>
struct Spelling<Algorithm> {
  static constexpr std::array<std::string_view, 7> names{"ring", "two_way_ring", "direct", "tree", "hierarchical", "halving_doubling",
                                                       "multi_ring"};
};
template <>
struct Spelling<Family> {
  static constexpr std::array<std::string_view, 5> names{"gpt", "llama", "bloom", "bert", "t5"};
};
template <>
struct Spelling<Activation> {
  static constexpr std::array<std::string_view, 6> names{"gelu", "relu", "squared_relu", "swiglu", "geglu", "clamped_swiglu"};
};
template <>
struct Spelling<Normalization> {
  static constexpr std::array<std::string_view, 2> names{"layernorm", "rmsnorm"};
};
template <>
struct Spelling<NormPlacement> {
  static constexpr std::array<std::string_view, 5> names{"pre", "post", "post_add", "sandwich", "behind"};
};
template <>
struct Spelling<ParallelResidual> {
  static constexpr std::array<std::string_view, 3> names{"none", "one_norm", "two_norms"};
};
template <>
struct Spelling<RouterScores> {
  static constexpr std::array<std::string_view, 2> names{"softmax", "sigmoid"};
};
template <>
struct Spelling<GroupScore> {
  static constexpr std::array<std::string_view, 2> names{"max", "top2"};
};
template <>
struct Spelling<QkNorm> {
  static constexpr std::array<std::string_view, 4> names{"none", "head", "full", "l2"};
  static constexpr std::array older{Renamed{"row", "full"}, Renamed{"turned", "l2"}};
};
template <>
struct Spelling<PositionEmbedding> {
  static constexpr std::array<std::string_view, 5> names{"learned", "rope", "alibi", "relative", "none"};
};
template <>
struct Spelling<RecurrenceRule> {
  static constexpr std::array<std::string_view, 2> names{"gated_delta", "mamba2"};
};
template <>
struct Spelling<ScheduleKind> {
  static constexpr std::array<std::string_view, 10> names{"gpipe",         "1f1b",       "interleaved", "zb-h1",  "zb-h2",
                                                          "breadth-first", "dualpipe-v", "zb-v",        "v-half", "v-min"};
};
template <>
struct Spelling<TokenDispatcher> {
  static constexpr std::array<std::string_view, 3> names{"alltoall", "deepep", "allgather"};
};
template <>
struct Spelling<ContextMode> {
  static constexpr std::array<std::string_view, 3> names{"ring", "all_gather", "ulysses"};
};
template <>
struct Spelling<OptimizerSync> {
  static constexpr std::array<std::string_view, 2> names{"global", "post_validated"};
};
template <>
struct Spelling<UnitCopies> {
  static constexpr std::array<std::string_view, 3> names{"none", "flat", "per_parameter"};
};
template <>
struct Spelling<Recompute> {
  static constexpr std::array<std::string_view, 3> names{"none", "selective", "full"};
};
template <>
struct Spelling<OptimizerKind> {
  static constexpr std::array<std::string_view, 5> names{"adamw", "lans", "lamb", "sgd", "muon"};
};
template <>
struct Spelling<MuonScale> {
  static constexpr std::array<std::string_view, 3> names{"spectral", "shape", "unit_rms"};
};
template <>
struct Spelling<DecayShape> {
  static constexpr std::array<std::string_view, 4> names{"constant", "linear", "cosine", "polynomial"};
};

template <>
struct Spelling<CudaGraphs> {
  static constexpr std::array<std::string_view, 3> names{"none", "layers", "iteration"};
};
template <>
struct Spelling<Documents> {
  static constexpr std::array<std::string_view, 2> names{"joined", "separate"};
};
template <>
struct Spelling<FrozenWeights> {
  static constexpr std::array<std::string_view, 2> names{"plain", "nf4"};
};
template <>
struct Spelling<AttentionKernel> {
  static constexpr std::array<std::string_view, 5> names{"flash1", "triton", "flash2", "tuned", "own"};
};

/// Precisions that `training.precision` fills dtypes from.
inline constexpr std::array<std::string_view, 9> kPrecisions{"fp64", "fp32", "tf32",      "fp16", "bf16",
                                                             "fp8",  "fp8_block", "mxfp8", "nvfp4"};

/// Values of `cluster.override.nccl_algo`.
inline constexpr std::array<std::string_view, 2> kNcclAlgorithms{"ring", "^nvls"};

inline constexpr std::array<std::string_view, 9> kRecomputeModules{
    "core_attention", "norm", "mlp", "moe", "moe_activation", "shared_experts", "mla_up_proj", "block", "operations"};

/// What a layer keeps and parallel.offload.activations may send to the host: all of it, or what single modules read.
inline constexpr std::array<std::string_view, 9> kOffloadedActivations{
    "all", "attention_norm", "qkv", "core_attention", "projection", "mlp_norm", "moe", "moe_input", "moe_activation"};

}  // namespace tandem
