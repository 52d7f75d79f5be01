#pragma once
// The task graph of one optimizer step. A *template* holds the tasks of one kind of block, once. An *instance* runs
// a template for one layer, micro-batch and phase, and says where its tensors lie. A *program* lists the instances
// of one stage in issue order. All ranks of the stage issue this list. The order on each stream follows from it.
//
// A task starts when its launch was issued, its stream is free and its dependencies are done.
// A communication also waits until every participant has arrived. No other rule orders tasks.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/ids.hpp"
#include "models/graph/matrix_parts.hpp"
#include "models/graph/memory_plan.hpp"
#include "models/ops/op.hpp"
#include "models/plan/mesh.hpp"

namespace tandem {

struct Plan;

enum class Stream : std::uint8_t { compute, tensor, data, send, recv, host };
inline constexpr std::size_t kStreams = 6;
std::string_view name(Stream s);

/// `weight`: the weight-gradient half of a backward pass that a zero-bubble schedule has split. `gather`: ZeRO's weights.
enum class Phase : std::uint8_t { forward, recompute, backward, reduce, optimizer, weight, gather };
inline constexpr std::size_t kPhases = 7;
std::string_view name(Phase p);

/// A tensor as a task sees it: `offset` bytes into the memory bound to `slot`. With `shards` > 1
/// it is the rank's share of a larger tensor: member i of `shard_group` adds i * `stride` bytes.
struct Operand {
  std::uint16_t slot = 0;
  DType dtype = DType::fp32;
  std::int64_t offset = 0;    ///< bytes
  std::int64_t elements = 0;
  std::int64_t stride = 0;    ///< bytes
  std::int32_t shards = 1;
  Group shard_group = Group::tensor;

  /// Bytes from `offset` to the end of the last rank's share.
  std::int64_t span() const { return (shards - 1) * stride + bytes_of(dtype, elements).count(); }
};

struct Task {
  std::string name;                 ///< unique within its template, e.g. "qkv"
  Op op;
  DType dtype = DType::fp32;        ///< compute type
  Stream stream = Stream::compute;
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;
  std::vector<std::uint16_t> deps;  ///< earlier tasks of the same template (other streams, and memory reuse)
  std::uint32_t host_operations = 1;  ///< host operations that issue it under the plan's stack (models/lowering/task_launches)
  bool repeats_none = false;        ///< a product of the forward pass that no forward template computes, so model FLOPs count it
};

/// A block of memory that a template's operands refer to. Slot 0 of every template is scratch, planned inside the template.
struct Slot {
  std::string name;
  MemoryKind kind = MemoryKind::activations;
  Bytes bytes;
};

/// A tensor in a template's scratch, alive while tasks `first` to `last` run.
struct ScratchTensor {
  Bytes bytes;
  std::int32_t first = 0, last = 0;
  bool ahead = false;  ///< freed just before task `first` writes its outputs; no task touches it
};

struct Template {
  std::string name;                 ///< e.g. "block_forward"
  std::vector<Slot> slots;
  std::vector<Task> tasks;          ///< in issue order
  bool host_waits = false;          ///< on a device, the host issues dependent tasks only after this has ended
  std::vector<ScratchTensor> scratch{};  ///< ascending `first`; includes memory that is held but never touched
};

struct Instance {
  TemplateId tmpl;
  std::int32_t layer = -1;          ///< global layer, -1 where there is none
  std::int32_t micro_batch = -1;    ///< of this pipeline, -1 for once-a-step work
  std::int32_t chunk = 0;
  Phase phase = Phase::forward;
  std::uint32_t binding = 0;        ///< first of slots.size() entries in Program::bindings
};

/// Why a task waits for another one of its rank. data: it reads or overwrites what the other wrote or read. reuse: it takes
/// bytes of the other's tensor. credit: it receives into a buffer that the other must free. order: the schedule demands it.
enum class EdgeKind : std::uint8_t { data, reuse, credit, order };

/// Dependency across instances of one rank: `to` starts after `from` ended.
struct Edge {
  std::uint32_t from_instance, to_instance;
  std::uint16_t from_task, to_task;
  EdgeKind kind;
};

/// How a parameter is replicated over the data group.
enum class Replication : std::uint8_t {
  data,    ///< the same on all ranks (ZeRO may shard it)
  expert,  ///< ranks hold different experts, or different parts of their matrices
};

/// One parameter tensor of a rank (or some of its rows), in its place in the flat buffers.
struct Param {
  std::string name;            ///< e.g. "layer3.qkv.weight"
  std::int32_t global_index;   ///< position in the whole model's parameter list
  std::int64_t offset;         ///< elements, into the flat buffers
  std::int64_t rows, cols;     ///< shape on this rank; cols = 1 for vectors
  std::int64_t full_rows, full_cols;  ///< shape of the whole parameter, without vocabulary padding
  int shard_dim = -1;          ///< dimension (0 or 1) cut over tensor ranks (experts: expert tensor ranks); -1: replicated
  bool decay = false;          ///< weight decay applies
  bool in_norm = true;         ///< counts in the global norm (a tied copy does not)
  /// Beyond normal numbers and constants, what transformers gives a recurrence (_init_weights in modeling_qwen3_next.py and
  /// modeling_nemotron_h.py): the logarithm of a number within 0 and 16, that of the row's number from 1 on, and what softplus
  /// turns into exp(u), u uniform within log(0.001) and log(0.1).
  enum class Init : std::uint8_t { normal, normal_scaled, ones, zeros, log_uniform, log_index, log_step } init = Init::normal;
  std::int32_t init_id = 0;    ///< seed of the initial values: tied copies have the same
  Replication replication = Replication::data;
  /// Tensor rank r's share starts at first + (r / repeat) * outer + (r % repeat) * inner along shard_dim. inner = 0 with
  /// repeat > 1: `repeat` ranks hold the same share.
  std::int64_t first = 0, repeat = 1, outer = 0, inner = 0;
  bool continues = false;      ///< further rows of the parameter before it, which are cut by themselves
  /// Rows of one expert; expert rank e holds experts [e*n, (e+1)*n), stacked along the rows. 0: not an expert's.
  std::int64_t expert_rows = 0;
  bool vocabulary = false;     ///< one row for each word; local rows at or beyond full_rows are padding
  /// At least 0: w -= sign_step * sign(gradient) replaces the optimizer's update, and gradient norms skip it.
  double sign_step = -1;
  bool frozen = false;         ///< not trained: it has weights, but no gradient and no optimizer state
  bool quantized = false;      ///< frozen, and stored in Program::quantized
  MatrixParts matrices{};      ///< updated by Muon; such a parameter has a momentum, but no second moment

  std::int64_t elements() const { return rows * cols; }
  /// Elements of tensor rank r's share that belong to the model; padding follows them.
  std::int64_t used(std::int64_t r) const {
    return vocabulary ? std::clamp<std::int64_t>(full_rows - share(r), 0, rows) * cols : elements();
  }
  /// Where tensor rank r's share starts along shard_dim.
  std::int64_t share(std::int64_t r) const { return first + r / repeat * outer + r % repeat * inner; }
  /// Whether gradient norms count tensor rank r's copy. One of several equal copies counts.
  bool counts_on(std::int64_t r) const { return shard_dim < 0 ? r == 0 : repeat == 1 || inner != 0 || r % repeat == 0; }
};

/// The part of a parameter that one rank updates, with its offsets (in elements) in the
/// optimizer's operands. Rows that pad a vocabulary are left out: norms and updates skip them.
struct ParamPiece {
  const Param* param = nullptr;
  std::int64_t first = 0, count = 0;          ///< elements of the local parameter
  std::int64_t gradient = 0, weight = 0, state = 0;
  bool counted = false;                       ///< counted in gradient norms by this rank
  std::int64_t unsquared = 0;                 ///< elements before it in the states that have no second moment
};

/// A contiguous range of parameters in the flat buffers that ZeRO shards as a whole.
struct ShardUnit {
  std::int64_t offset = 0, elements = 0;      ///< flat, padding included
  std::int64_t shards = 1;                    ///< equal parts
  std::int64_t shard_offset = 0;              ///< start of the rank's part in its sharded buffers
  Replication replication = Replication::data;
  bool frozen = false;                        ///< its parameters are not trained; such units come last
  bool quantized = false;                     ///< frozen, and stored in Program::quantized; such units come last of all
  std::int64_t shard_elements() const { return elements / shards; }
};

/// The step of every rank of one stage.
struct Program {
  StageId stage;
  std::vector<Instance> instances;
  std::int64_t copied = 0;             ///< number of instances copied from earlier micro-batches
  std::vector<std::int64_t> bindings;  ///< arena byte offsets, by Instance::binding + slot
  std::vector<Edge> edges;             ///< ascending (to_instance, to_task)
  std::vector<Param> params;           ///< ascending offset
  std::vector<ShardUnit> units;        ///< ascending offset, covering the flat buffers
  std::int64_t flat_elements = 0;      ///< elements of the flat buffers, padding included
  std::int64_t shard_elements = 0;     ///< elements of a rank's sharded buffers: its parts of all units
  bool gradients_sharded = false, weights_sharded = false;  ///< whether a rank's buffers hold only its parts
  bool norm_over_world = false;        ///< gradient norms are summed over the world group; else the model group
  DType quantized = DType::nf4;        ///< type of quantized parameters, which lie in buffers of their own ("quantized_weights")
  std::int64_t quantized_from = 0;     ///< flat offset of the first of them; flat_elements where there are none
  MemoryPlan memory;
};

/// A rank's positions in the groups that hold its stage's parameters.
struct ShardCoords {
  std::int64_t tensor_rank = 0, expert_tensor_rank = 0;
  std::int64_t shard = 0, replica = 0;               ///< positions in the shard and replica groups
  std::int64_t expert_data = 0;                      ///< position among the ranks with the same experts
  std::int64_t expert_shard = 0, expert_replica = 0; ///< positions in the shard and replica groups of experts
  std::int64_t data = 0;                             ///< position in the data group
  bool norm_over_world = false;                      ///< gradient norms are summed over all ranks, not one model replica

  /// Index of the rank's share of parameter `p`.
  std::int64_t share_of(const Param& p) const { return p.expert_rows > 0 ? expert_tensor_rank : tensor_rank; }
};

/// The parts of `program`'s parameters that the rank in `seat` updates, in order: with ZeRO its shards of the units, else all.
/// `frozen`: also the parts that it holds of frozen parameters, whose `gradient` and `state` mean nothing.
std::vector<ParamPiece> param_pieces(const Program& program, const ShardCoords& seat, bool frozen = false);

/// The step of a whole plan.
struct TaskGraph {
  std::vector<Template> templates;
  std::vector<Program> programs;       ///< one per stage
  double exposed_pieces = 0;           ///< share of the time of a collective in pieces that stays beside its product, at least

  const Template& of(const Instance& i) const { return templates[i.tmpl.index()]; }
  const Program& program(StageId s) const { return programs[s.index()]; }
  std::int64_t tasks(StageId s) const; ///< tasks in a stage's program

  /// Verifies every invariant: operands inside their slots, bindings inside the arena, no read of bytes that no ordered
  /// task wrote, no overwrite before the last reader, communicators entered alike on all ranks, sends matched by receives.
  /// Then runs all stages without durations, as Host::launches and as Host::computes (deadlock.hpp), to find deadlocks.
  /// Throws ContractError naming the tasks that are wrong or wait on each other.
  void check() const;
};

/// Lowers a validated plan. Throws InfeasibleError for what this version cannot lower.
TaskGraph lower(const Plan& plan);
/// The same graph with every pass lowered separately. lower() copies micro-batches that repeat earlier ones.
TaskGraph lower_every_pass(const Plan& plan);

/// Names one task across roles, layouts and performers: the join key of `compare`.
struct TaskKey {
  std::string_view block;  ///< template name
  std::string_view task;
  std::int32_t layer, micro_batch, chunk;
  Phase phase;
  Coords coords;
};

/// Exact totals of one stage's program.
struct Books {
  Flops matrix;                                   ///< per rank and step
  struct Line { CollectiveKind kind; Group group; std::int64_t calls; Bytes payload; };
  std::vector<Line> collectives;                  ///< ascending (kind, group); only those that occur
  Bytes sent;                                     ///< point-to-point sends
  std::int64_t sends = 0;
};
Books count(const TaskGraph& graph, StageId stage);

}  // namespace tandem
