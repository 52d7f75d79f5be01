#pragma once
// A plan's split over ranks: sizes of the axes, schedule, sharding, overlap.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/units.hpp"
#include "models/plan/schedule_kind.hpp"

namespace tandem {

/// How a token reaches its experts: a row per expert, a copy per rank and one between two nodes (DeepEP), or a copy to every rank.
enum class TokenDispatcher : std::uint8_t { alltoall, deepep, allgather };
enum class ContextMode : std::uint8_t { ring, all_gather, ulysses };
enum class OptimizerSync : std::uint8_t { global, post_validated };
/// Copies that a framework makes around the collectives of ZeRO 3's units (models/lowering/templates/unit_copies.hpp).
enum class UnitCopies : std::uint8_t { none, flat, per_parameter };
/// The spelling of a value in a plan file.
std::string_view name(ScheduleKind v);
std::string_view name(TokenDispatcher v);
std::string_view name(ContextMode v);
std::string_view name(OptimizerSync v);
std::string_view name(UnitCopies v);

struct OffloadSpec {
  bool optimizer = false;
  bool parameters = false;
  double ratio = 1;
  std::vector<std::string> activations;  ///< which tensors that layers keep for the backward pass wait in host memory
  std::int64_t layers = 0;               ///< first layers of a stage that do so; 0: all

  bool has(std::string_view tensors) const {
    return std::find(activations.begin(), activations.end(), tensors) != activations.end();
  }
};

struct ParallelSpec {
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t data = 1;
  std::int64_t context = 1;
  std::int64_t expert = 1;
  std::int64_t expert_tensor = 1;        ///< ranks that share the matrices of the same experts
  std::int64_t virtual_pipeline = 1;     ///< chunks per stage
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  bool sequence_parallel = false;
  ContextMode context_mode = ContextMode::ring;
  std::int64_t ulysses = 1;              ///< neighbouring context ranks that exchange heads, inside a ring or all_gather
  int zero_stage = 0;
  std::int64_t zero_group = 0;           ///< 0: the whole data axis
  OptimizerSync optimizer_sync = OptimizerSync::global;
  bool reduce_scatter = true;            ///< zero_stage 1, 2; else each rank gets the whole sum and keeps its share
  bool overlap_grad_reduce = false;
  bool overlap_param_gather = false;
  bool tensor_overlap = false;
  bool overlap_tensor_sum = false;       ///< tensor ranks sum an input gradient while the weight gradient is computed
  bool overlap_p2p = true;               ///< stages compute while they send
  bool overlap_experts = false;          ///< experts' rows of one micro-batch travel while another one computes
  TokenDispatcher token_dispatcher = TokenDispatcher::alltoall;
  bool scatter_p2p = false;              ///< each tensor rank sends a share of the tensor that all of them hold
  Bytes bucket_bytes{160'000'000};
  std::int64_t prefetch_layers = 1;
  std::int64_t reuse_distance = 0;       ///< zero_stage 3: weights reused within so many parameters stay gathered
  UnitCopies unit_copies = UnitCopies::none;
  bool root_unit = false;                ///< zero_stage 3: both ends of the model form one unit that stays gathered
  std::vector<std::int64_t> pipeline_split; ///< layers per stage (x chunk); empty: auto
  std::string rank_order = "tp-cp-ep-dp-pp";///< fastest axis first
  OffloadSpec offload;
  std::string name, notes;
};

/// Neighbouring context ranks that divide the heads of a tensor rank among themselves. 1: each has all heads.
inline std::int64_t head_ranks(const ParallelSpec& q) { return q.context_mode == ContextMode::ulysses ? q.context : q.ulysses; }

}  // namespace tandem
