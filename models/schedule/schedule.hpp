#pragma once
// Pipeline schedules as data: the order in which one stage does its passes, and the transfers around them.
//
// Notation: p stages, m micro-batches, v chunks a stage, tF and tB the time of a forward and a backward pass of a
// stage; a zero-bubble schedule splits the backward pass: tB is then its input-gradient part, tW its weight-gradient
// part.

#include <cstdint>
#include <optional>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"

namespace tandem {

/// One pass of one micro-batch through one chunk of one stage.
struct Action {
  /// forward, backward (all of it; its input-gradient half in zb-h1, zb-h2 and dualpipe-v) or weight (the other half of the
  /// backward pass of the same micro-batch and chunk).
  Phase phase = Phase::forward;
  std::int32_t micro_batch = 0;
  std::int32_t chunk = 0;  ///< chunk c of stage s is the model's part c * stages + s; folded: chunk 1 is part 2 * stages - 1 - s
  bool whole = false;      ///< dualpipe-v: a backward pass with both halves, which no weight action follows; transfers do not say
  bool operator==(const Action&) const = default;
};

/// What a stage's passes take and what a micro-batch holds there, relative to each other.
struct PassCosts {
  std::int32_t forward = 1, backward = 1, weight = 1;  ///< times: tF, tB, tW
  std::int32_t held = 1;      ///< memory, from a micro-batch's forward to its backward
  std::int32_t deferred = 1;  ///< and from there to its weight
};

struct ScheduleShape {
  std::int64_t stages = 1;
  std::int64_t micro_batches = 1;
  std::int64_t chunks = 1;  ///< a stage; above 1 only for interleaved, breadth-first and dualpipe-v, which has 2
  std::vector<PassCosts> costs = {};  ///< by stage, only read by schedules that split backward passes; empty: all take the same
  std::int32_t transfer = 0;          ///< time of a transfer between stages, in units of `costs`
  bool steps_overlap = false;         ///< a stage begins the next step when it has ended this one: no stage waits for all
  bool exchanges = false;             ///< interleaved: what a stage sends and receives goes at once, see make_events
  bool pairs = false;                 ///< 1F1B, interleaved and dualpipe-v: a forward and a backward pass in turn run at once
  bool folded = false;                ///< dualpipe-v: chunks lie in a V (folds in models/plan/plan.hpp)
};

/// By stage.
using Orders = std::vector<std::vector<Action>>;

/// Actions of `stage` in order, each exactly once. Forwards, backwards and weights of a chunk ascend in micro-batches:
/// that is the order in which gradients are added. Throws ContractError for a shape that no plan has.
///
/// GPipe (arXiv 1811.06965): all forwards, then all backwards. Step (m+p-1)(tF+tB); m micro-batches held.
///
/// 1F1B (PipeDream-flush, arXiv 2104.04473 section 2.2): min(m, p-s-1) forwards, then one forward and one backward in
/// turn, then the remaining backwards. Step as GPipe; min(m, p-s) micro-batches held.
///
/// Interleaved (Megatron's order, same paper): micro-batches pass chunk 0 in a group of g, then chunk 1, ...; backwards
/// the same from the last chunk; min(mv, 2(p-s-1) + (v-1)g) forwards first, g as interleaved_group() has it. Step
/// m(tF+tB) + (p-1)(tF+tB)/v for m >= p, and (p-m)(v-1)(tF+tB)/v more for m < p; at most min(mv, 2(p-s-1) + (v-1)g + 1)
/// chunks held.
///
/// Either with `shape.pairs`: no pass may need what the other of its pair makes, and a micro-batch goes on by a stage in the time of a
/// pair. So one more forward pass comes first, and of 1F1B as many as of an interleaved schedule: min(m, 2(p-s-1) + 1) (Megatron-LM:
/// megatron/core/pipeline_parallel/schedules.py, get_pp_rank_microbatches, overlap_moe_expert_parallel_comm).
///
/// Breadth-first (looped BFS, arXiv 2211.05953): all micro-batches pass chunk 0, then chunk 1, ...; then all backwards from the
/// last chunk. Step m(tF+tB) + (p-1)(tF+tB)/v for m >= p; all m micro-batches held. One chunk a stage is GPipe.
///
/// ZB-H1 (arXiv 2401.10241): forwards and backwards as 1F1B; a weight follows the backward that is s later, so that
/// every stage holds min(m, p) micro-batches until their weights. Step m(tF+tB+tW) + (p-1)(tF+tB-tW) for tW <= tF, tB
/// and m >= p.
///
/// ZB-H2 (same): 2(p-s-1) forwards first, weights 2s backwards later: every stage holds min(m, 2p-1). From its first
/// start to its last end a stage idles (p-s-1)(tF+tB-2tW), for tW <= tF, tB and m >= 2p-1.
///
/// Either with fewer micro-batches is the same rule cut short: legal, and (p-m)tW or (2p-1-m)tW longer. On one stage a
/// weight follows its backward at once, which is the arithmetic of 1F1B.
///
/// DualPipeV (deepseek-ai/DualPipe: dualpipe/dualpipev.py, step; m >= 2p). Two chunks in a V; F0 is a forward pass of chunk 0, B a
/// backward pass, W a weight. Stage s does 2(p-s-1) F0; s+1 times F0 F1; p-s-1 times B1 W F1; m-2p+s+1 times F0 B1 F1 B0; p-s-1 times
/// B1 F1 B0; s+1 times B1 B0; p-s-1 times W B0; s+1 W. Backward passes have both halves, but for those of the third step and from the
/// middle of the sixth on. Pairs are F B of the fourth and fifth step; the last stage's first is none, for its passes need each other. With
/// times of a chunk, tFB of a pair and tW <= tF, tB, stages idle at most (p-1)(tFB + tB - 2tW). That is the published
/// (PP/2-1)(F&B + B - 3W) of PP = 2p chunks and a whole backward pass B. Every stage holds 2p+1 chunks until their backward.
///
/// ZB-H1 and ZB-H2 are the orders for passes that take the same. Where `shape.costs` differ they become what the authors run, ZB-1p
/// and ZB-2p (section 3): orders made for these costs by a list scheduler (models/schedule/zero_bubble), in the memory of p and of 2p
/// micro-batches before their backward, or of the handcrafted order where that is more. By the costs, neither the longest stage
/// nor the end is later than the handcrafted order's; the less a micro-batch holds after its backward, the fewer gaps remain.
std::vector<Action> make_schedule(ScheduleKind kind, const ScheduleShape& shape, StageId stage);
/// Those of all stages. An automatic order is made for all stages at once: ask here for more than one.
Orders make_orders(ScheduleKind kind, const ScheduleShape& shape);

/// Micro-batches that pass a chunk as one group in the interleaved schedule: the smallest g >= p such that m % g is 0
/// or at least p (what Megatron-LM demands of microbatch_group_size_per_vp_stage, for a smaller last group would leave
/// bubbles); all m when there are no more than p.
std::int64_t interleaved_group(const ScheduleShape& shape);
/// Forward passes of 1F1B or an interleaved schedule before `stage` begins to do one forward and one backward pass in turn.
std::int64_t warmup(ScheduleKind kind, const ScheduleShape& shape, StageId stage);
/// With `shape.pairs`: the action of `stage` from which on a forward pass and the backward pass behind it run at once.
std::size_t first_pair(ScheduleKind kind, const ScheduleShape& shape, StageId stage);
/// Whether the transfers of `shape` are exchanges.
bool has_exchanges(ScheduleKind kind, const ScheduleShape& shape);
/// Micro-batches that pass a chunk before the next chunk's turn: that group, one in a V, or all of them.
std::int64_t chunk_group(ScheduleKind kind, const ScheduleShape& shape);

/// Whether the plan's chunks lie in a V.
inline bool folds(const ParallelSpec& parallel) { return folds(parallel.schedule); }

/// Whether a stage reduces whole gradients beside its last backward pass. It wishes so by overlap_grad_reduce; but where a stage has one
/// chunk, only the first one does. What reductions take of the memory slows a pass for which all earlier stages wait, and behind
/// its last pass a later stage has time for them (NVIDIA/Megatron-LM: megatron/core/pipeline_parallel/schedules.py,
/// forward_backward_pipelining_without_interleaving, where grad_sync_func is given, as align_grad_reduce does).
bool reduces_beside_backward(const ParallelSpec& parallel, StageId stage);

/// The other end of a transfer: the action there, on the stage `offset` away, modulo the number of stages.
struct Neighbour {
  int offset = 0;  ///< +1 or -1; the last stage and the first are neighbours when a chunk ends
  Action action;
  bool operator==(const Neighbour&) const = default;
};

/// What makes the input of `action` of `stage`; nothing for weights, at the model's ends, where a V turns, and when there is one stage.
std::optional<Neighbour> input_from(const ScheduleShape& shape, StageId stage, const Action& action);
/// What the output of `action` of `stage` is the input of; nothing in the same cases.
std::optional<Neighbour> output_to(const ScheduleShape& shape, StageId stage, const Action& action);

/// One thing that a stage issues.
struct ScheduleEvent {
  enum class Kind : std::uint8_t {
    receive,  ///< the input of `action`, which is computed later
    compute,
    send,     ///< the output of `action`, which was computed just before
    release,  ///< the buffer that `action` sent may be handed on: what is issued later may wait for that send
  };
  Kind kind = Kind::compute;
  Action action;
  int offset = 0;  ///< receive and send: to the peer's stage
  /// receive: index of the computation whose end frees the buffer it fills, always before it; -1: nobody held it yet.
  std::int32_t credit = -1;
  bool with_next = false;      ///< compute: a forward pass that runs at once with the next event, a backward pass
  bool operator==(const ScheduleEvent&) const = default;
};

/// Whether the next computation after event `i`, a forward pass, is the backward pass of the same micro-batch and chunk.
bool backward_follows(const std::vector<ScheduleEvent>& events, std::size_t i);

/// Whether the next computation after event `i` is the same pass of the same chunk.
bool same_follows(const std::vector<ScheduleEvent>& events, std::size_t i);

/// Receive buffers of each direction (forward, backward), but for those that hold what waits longer (make_events).
inline constexpr std::int64_t kReceiveBuffers = 2;
/// A sent buffer is handed on that many actions later.
inline constexpr std::size_t kSendHold = 2;

/// Everything that `stage` issues, in issue order: its actions, and the transfers around them. Sends and receives of a
/// stage each keep this order in a stream of their own, and a transfer happens when it heads both ends' streams.
///
/// Sends follow their action. The receive of an action's input is issued before the action in front of it. What the
/// last stage sends to the first, or back, is only needed w = max(0, g-p) passes of its direction later than anything
/// else, g being the micro-batches in its group; its receive is issued w passes earlier and has w more buffers, or the
/// sender's stream would stand still meanwhile (for p = 2 and odd m >= 5 for ever). With this no order deadlocks, even
/// if everything waits for every computation and release in front of it; and with equal stages, transfers of at most
/// half a forward pass cost no more time than with unlimited buffers. tests/models/schedule/schedule_transfers_test.cpp plays it.
///
/// With `shape.pairs` what both passes of a pair need comes before it, and what they make goes behind it.
///
/// In a V a stage sends and receives both chunks' activations and gradients either way. So transfers stand where they happen when the
/// orders of all stages are played (timed_events), which both ends of each have in one order.
///
/// With `shape.exchanges` an interleaved schedule has Megatron-LM's order without overlap_p2p_comm (megatron/core/pipeline_parallel/
/// schedules.py, forward_backward_pipelining_with_interleaving): behind each pass, and between the two of a forward and a backward
/// pass in turn not, everything is sent that was made and received that is needed before the next such place, as one exchange.
/// Whoever lowers it lets the next pass wait for all of it. Groups of more micro-batches than stages (Megatron-LM has none) keep
/// the order above, for their first stage receives ahead.
std::vector<ScheduleEvent> make_events(ScheduleKind kind, const ScheduleShape& shape, StageId stage);
/// The same of all stages: ask here for more than one. Around an automatic order transfers stand where they happen when it is
/// played by its costs, with longer transfers (models/schedule/zero_bubble), so that a stage's sends and receives wait for each other as
/// little as they can.
std::vector<std::vector<ScheduleEvent>> make_events(ScheduleKind kind, const ScheduleShape& shape);

/// The same of the forward passes alone, in their order.
std::vector<ScheduleEvent> make_forward_events(ScheduleKind kind, const ScheduleShape& shape, StageId stage);

}  // namespace tandem
