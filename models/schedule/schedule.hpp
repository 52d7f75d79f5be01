#pragma once
// Pipeline schedules as data: the order in which one stage does its passes, and the transfers around them.
//
// Notation: p stages, m micro-batches, v chunks a stage, tF and tB the time of a forward and a backward pass of a
// stage; a zero-bubble schedule splits the backward pass: tB is then its input-gradient part, tW its weight-gradient
// part.

#include <cstdint>
#include <optional>
#include <vector>

#include "models/plan/plan.hpp"
#include "models/schedule/schedule_shape.hpp"

namespace tandem {

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
/// With `shape.pairs`, 1F1B and interleaved: no pass may need its partner's output, and a micro-batch advances one stage in
/// the time of a pair. So one more forward pass comes first. 1F1B has as many as interleaved: min(m, 2(p-s-1) + 1)
/// (Megatron-LM: megatron/core/pipeline_parallel/schedules.py, get_pp_rank_microbatches, overlap_moe_expert_parallel_comm).
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
/// ZB-H1 and ZB-H2 with fewer micro-batches: the same rule cut short. This is legal, and (p-m)tW or
/// (2p-1-m)tW longer. On one stage a weight follows its backward immediately, with the arithmetic of 1F1B.
///
/// DualPipeV (deepseek-ai/DualPipe: dualpipe/dualpipev.py, step; m >= 2p). Two chunks in a V; F0 is a forward pass of chunk 0, B
/// a backward pass, W a weight. Stage s does 2(p-s-1) F0; s+1 times F0 F1; p-s-1 times B1 W F1; m-2p+s+1 times F0 B1 F1 B0; p-s-1
/// times B1 F1 B0; s+1 times B1 B0; p-s-1 times W B0; s+1 W. Backward passes have both halves, except in the third step and from
/// the middle of the sixth on. F B of the fourth and fifth step are pairs, except the last stage's first, whose passes need each
/// other. In the authors' code a pair begins when both inputs are there and sends both outputs at its end (_forward_backward_chunk;
/// PyTorch's ScheduleDualPipeV, OVERLAP_F_B, sends so, too). So do pairs whose passes run one after the other. With overlap_experts
/// each output leaves when it is computed. With times of a chunk, tFB of a pair and
/// tW <= tF, tB, stages idle at most (p-1)(tFB + tB - 2tW). That is the published (PP/2-1)(F&B + B - 3W) of PP = 2p chunks and a
/// whole backward pass B. Without `shape.pairs` tFB is tF + tB + tW. Every stage holds 2p+1 chunks until their backward.
///
/// ZB-V (arXiv 2401.10241 section 6; the order is that of PyTorch's ScheduleZBVZeroBubble, torch/distributed/pipelining/schedules.py).
/// Two chunks in a V. Stage s does 2(p-s)-1 F0; s times F1 F0; p-s times F1 B1 W1; m-p times F0 B0 W0 F1 B1 W1, of which the last
/// p-s-1 have no F0; s times B0 B1; p-s times B0 W0; s W1 and s W0. Every stage holds 2p chunks until their weights, as many layers
/// as the first stage of 1F1B. With times of a chunk, tW <= tF <= tB and m >= 2p-1, a stage idles
/// (p-s-1)(tF+tB-2tW) + (p-1)(tB-tF) from its first start to its last end: nothing if all are equal. With fewer micro-batches it
/// leaves out the passes of those that are missing.
///
/// V-Half and V-Min (arXiv 2405.15362; the orders are those of the authors' code, sail-sg/zero-bubble-pipeline-parallelism:
/// megatron/core/pipeline_parallel/zerobubble/scheduler/zbv_greedy.py). Two chunks in a V. Micro-batches repeat a pattern every six
/// slots, and weight passes fill idle slots. Passes at both ends of the step then move to earlier idle slots, if no stage then holds
/// more than any does in the pattern. For m >= p the stage that holds most has 2(p/2+1) chunks until their weights in V-Half and
/// 2((p+4)/3) in V-Min (whole divisions). With equal passes and m >= 2p the bubble is at most half of 1F1B's in V-Half.
///
/// ZB-H1 and ZB-H2 are orders for passes of equal cost. If `shape.costs` differ, they become the authors' automatic ZB-1p and
/// ZB-2p (section 3). A list scheduler (models/schedule/zero_bubble) makes these for the costs. They hold p or 2p micro-batches
/// before their backward, or what the handcrafted order holds if that is more. Under the costs, neither the longest stage nor
/// the end is later than in the handcrafted order. The less a micro-batch holds after its backward, the fewer gaps remain.
std::vector<Action> make_schedule(ScheduleKind kind, const ScheduleShape& shape, StageId stage);
/// Orders of all stages. Use this for more than one stage: an automatic order is computed for all stages together.
Orders make_orders(ScheduleKind kind, const ScheduleShape& shape);

/// Micro-batches that pass a chunk as one group in the interleaved schedule: the smallest
/// g >= p such that m % g is 0 or at least p; m if m <= p. Megatron-LM demands this of
/// microbatch_group_size_per_vp_stage, because a smaller last group would leave bubbles.
std::int64_t interleaved_group(const ScheduleShape& shape);
/// Number of forward passes of 1F1B or interleaved before `stage` alternates forward and backward passes.
std::int64_t warmup(ScheduleKind kind, const ScheduleShape& shape, StageId stage);
/// With `shape.pairs`, and in a V: index of the first action of `stage` that belongs to a pair, a forward with the backward pass
/// behind it.
std::size_t first_pair(ScheduleKind kind, const ScheduleShape& shape, StageId stage);
/// Whether the transfers of `shape` are exchanges.
bool has_exchanges(ScheduleKind kind, const ScheduleShape& shape);
/// Micro-batches that pass a chunk before the next chunk's turn: interleaved_group(), one in a V, or all of them.
std::int64_t chunk_group(ScheduleKind kind, const ScheduleShape& shape);

/// Whether the plan's chunks lie in a V.
inline bool folds(const ParallelSpec& parallel) { return folds(parallel.schedule); }

/// Whether a stage reduces whole gradients while its last backward pass runs. Requires overlap_grad_reduce. With one
/// chunk per stage only the first stage does. Reductions slow the pass beside them, and all earlier stages wait for
/// it. A later stage has time after its last pass (NVIDIA/Megatron-LM: megatron/core/pipeline_parallel/schedules.py,
/// forward_backward_pipelining_without_interleaving, where grad_sync_func is given, as align_grad_reduce does).
bool reduces_beside_backward(const ParallelSpec& parallel, StageId stage);

/// The other end of a transfer: the action on the stage `offset` away (modulo the number of stages).
struct Neighbour {
  int offset = 0;  ///< +1 or -1; the last stage and the first are neighbours when a chunk ends
  Action action;
  bool operator==(const Neighbour&) const = default;
};

/// The action that computes the input of `action`. Nothing for weights, at the model's ends, where a V turns, or on one stage.
std::optional<Neighbour> input_from(const ScheduleShape& shape, StageId stage, const Action& action);
/// The action that reads the output of `action`. Nothing in the same cases.
std::optional<Neighbour> output_to(const ScheduleShape& shape, StageId stage, const Action& action);

/// One event of a stage's issue order.
struct ScheduleEvent {
  enum class Kind : std::uint8_t {
    receive,  ///< receives the input of `action`, which is computed later
    compute,
    send,     ///< sends the output of `action`, which was computed just before
    release,  ///< frees the buffer that `action` sent; later events may have to wait for that send
  };
  Kind kind = Kind::compute;
  Action action;
  int offset = 0;  ///< receive and send: from this stage to the peer's
  /// receive: index of the computation whose end frees the buffer to fill, always an earlier event; -1: a fresh buffer.
  std::int32_t credit = -1;
  /// compute: a forward pass that is a pair with the next event, a backward pass: both inputs are there before, outputs leave after.
  bool with_next = false;
  bool operator==(const ScheduleEvent&) const = default;
};

/// Whether the next computation after event `i`, a forward pass, is the backward pass of the same micro-batch and chunk.
bool backward_follows(const std::vector<ScheduleEvent>& events, std::size_t i);

/// Whether the next computation after event `i` is the same pass of the same chunk.
bool same_follows(const std::vector<ScheduleEvent>& events, std::size_t i);

/// Receive buffers per direction (forward, backward), without those for transfers that wait longer (make_events).
inline constexpr std::int64_t kReceiveBuffers = 2;
/// A send buffer is released this many actions later.
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
/// The inputs of both passes are received before a pair, and their outputs are sent after it.
///
/// In a V a stage sends and receives activations and gradients of both chunks in both directions. So transfers stand
/// in the order of a simulation of all stages' orders (timed_events). Both ends of each transfer have this order.
///
/// With `shape.exchanges` an interleaved schedule follows Megatron-LM's order without overlap_p2p_comm
/// (megatron/core/pipeline_parallel/ schedules.py, forward_backward_pipelining_with_interleaving). After each pass, but
/// not between an alternating forward and backward pass, one exchange sends all new outputs and receives all inputs
/// needed before the next exchange. The lowering lets the next pass wait for all of it. Groups of more micro-batches
/// than stages (which Megatron-LM does not have) keep the order above, because their first stage receives ahead.
std::vector<ScheduleEvent> make_events(ScheduleKind kind, const ScheduleShape& shape, StageId stage);
/// Events of all stages. Use this for more than one stage. With an automatic order, transfers stand
/// where they happen in a simulation by its costs with longer transfers (models/schedule/zero_bubble).
/// So a stage's sends and receives wait for each other as little as possible.
std::vector<std::vector<ScheduleEvent>> make_events(ScheduleKind kind, const ScheduleShape& shape);

/// Events of the forward passes alone, in their order.
std::vector<ScheduleEvent> make_forward_events(ScheduleKind kind, const ScheduleShape& shape, StageId stage);

}  // namespace tandem
