#include "sim/closed_form/layer_times.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <initializer_list>
#include <optional>

#include "models/graph/task_graph.hpp"
#include "models/stack/resolve.hpp"
#include "sim/engine/simulate_step.hpp"

namespace tandem::sim {
namespace {

/// The same costs on a host that launches in no time: what the device needs.
class DeviceTime final : public CostModel {
 public:
  explicit DeviceTime(const CostModel& cost) : cost_(cost) {}
  Duration duration(const Op& op, DType compute) const override { return cost_.duration(op, compute); }
  Duration launch() const override { return {}; }
  bool covered(const Op& op, DType compute) const override { return cost_.covered(op, compute); }
  double slowdown(std::int64_t active) const override { return cost_.slowdown(active); }
  std::optional<Duration> communication(const Op& op, std::int64_t ranks) const override { return cost_.communication(op, ranks); }
  CommFit comm_fit() const override { return cost_.comm_fit(); }
  std::vector<std::string> notes() const override { return {}; }

 private:
  const CostModel& cost_;
};

/// Of the plan whose step is read.
constexpr std::int64_t kSmallLayers = 2, kSmallBatches = 3;

bool zero_bubble(ScheduleKind k) { return k == ScheduleKind::zb_h1 || k == ScheduleKind::zb_h2; }

/// Two layers on one stage and one data rank, every region of parameters a unit of its own.
Plan small_plan(const Plan& plan) {
  Plan small = plan;
  ParallelSpec& q = small.parallel;
  q.pipeline = q.data = q.virtual_pipeline = 1;
  if (!zero_bubble(q.schedule)) q.schedule = ScheduleKind::one_f_one_b;
  q.pipeline_split.clear();
  q.zero_stage = 0;
  q.zero_group = 0;
  q.overlap_grad_reduce = q.overlap_param_gather = false;
  q.bucket_bytes = Bytes(1);
  small.model.num_layers = kSmallLayers;
  small.training.recompute_layers = 0;
  small.training.global_batch_size = kSmallBatches * plan.training.micro_batch_size;
  resolve_stack(small);
  return small;
}

/// Where the time of an instance belongs; nothing for the optimizer and what leads to it.
PartTime* part(LayerTimes& out, const Instance& i, const std::string& name) {
  const std::size_t order = i.micro_batch == 0 ? 0 : 1;
  if (name == "block_forward" || name == "block_again") return i.phase == Phase::recompute ? &out.recompute : &out.forward;
  if (i.layer >= 0 && i.phase == Phase::weight) return &out.weight[order];
  if (i.layer >= 0 && i.phase == Phase::backward) return &out.backward[order];
  if (name == "embed_forward") return &out.embed_forward;
  if (name == "embed_backward") return &out.embed_backward[order];
  if (name == "head_forward") return &out.head_forward[order];
  if (name == "head_backward") return &out.head_backward[order];
  if (name == "metrics") return &out.metrics;
  return nullptr;
}

std::int64_t computation(const Reader& reader, const std::vector<Task>& tasks, std::uint32_t i) {
  std::int64_t sum = 0;
  for (std::uint16_t t = 0; t < tasks.size(); ++t)
    if (tasks[t].stream == Stream::compute) sum += reader.ended(i, t) - reader.started(i, t);
  return sum;
}

/// An instance's time is from its first computation to that of the next: whatever of its collectives sticks out is in it.
void read_times(LayerTimes& out, const SimulatedStep& simulated, const TaskGraph& graph) {
  const Reader reader(simulated, 0);
  const Program& program = graph.programs[0];
  PartTime* open = nullptr;
  std::int64_t since = 0, end = 0, busy = 0;
  std::array<std::int64_t, kSmallBatches> head{}, embed{};  // starts of backward passes' ends, by micro-batch
  for (std::uint32_t i = 0; i < program.instances.size(); ++i) {
    const auto& tasks = graph.of(program.instances[i]).tasks;
    const auto first = std::find_if(tasks.begin(), tasks.end(), [](const Task& t) { return t.stream == Stream::compute; });
    if (first == tasks.end()) continue;
    const std::int64_t start = reader.started(i, static_cast<std::uint16_t>(first - tasks.begin()));
    const auto batch = static_cast<std::size_t>(std::max(0, program.instances[i].micro_batch));
    if (graph.of(program.instances[i]).name == "head_backward") head.at(batch) = start;
    if (graph.of(program.instances[i]).name == "embed_backward") embed.at(batch) = start;
    if (open != nullptr) open->ps = start - since;
    open = part(out, program.instances[i], graph.of(program.instances[i]).name);
    if (open != nullptr && open->ps > 0) open = nullptr;  // the first layer that passes speaks for all
    since = start;
    if (open == &out.backward[1]) busy = computation(reader, tasks, i);
    if (open != nullptr)
      for (const Task& t : tasks) open->launches += t.host_operations;
    for (std::uint16_t t = 0; t < tasks.size(); ++t) end = std::max(end, reader.ended(i, t));
  }
  if (open != nullptr) open->ps = end - since;
  out.computing = static_cast<double>(busy) / static_cast<double>(std::max<std::int64_t>(1, out.backward[1].ps));
  out.sums = ((embed[2] - head[2]) - (embed[1] - head[1])) / kSmallLayers;
}

/// Units in the order of completion: head, output matrix unless tied, two blocks, embedding where there is one, word matrix.
void read_parameters(LayerTimes& out, const Program& program, bool tied) {
  const auto& units = program.units;
  const std::size_t blocks = tied ? 1 : 2;
  require(units.size() == blocks + 3 || units.size() == blocks + 4, "a stage's units are not those that the closed form knows");
  out.head = units[0].elements;
  out.block = units[blocks].elements;
  out.word = units.back().elements;
  if (units.size() == blocks + 4) out.embedding = units[blocks + 2].elements;
}

void read_memory(LayerTimes& out, const TaskGraph& graph) {
  for (const Template& t : graph.templates) {
    out.scratch = std::max(out.scratch, t.slots[0].bytes);
    if (t.name != "block_forward") continue;
    for (const tandem::Slot& s : t.slots) {
      if (s.name == "saved" || s.name == "weight_inputs") out.saved += Bytes(arena_aligned(s.bytes.count()));
      if (s.name == "y") out.hidden = Bytes(arena_aligned(s.bytes.count()));
    }
  }
}

/// Of two templates of a name the first is the first micro-batch's.
void read_work(LayerWork& out, const TaskGraph& graph) {
  std::int64_t inputs = 0;
  for (const Template& t : graph.templates) {
    const std::int64_t work = nominal_work(t);
    if (t.name == "block_forward") {
      inputs = slot_bytes(t, "weight_inputs");
      out.block.forward = work;
      if (out.again == 0) out.again = work;
      out.block.held = slot_bytes(t, "x");
      out.kept = slot_bytes(t, "saved") + inputs;
    }
    if (t.name == "block_again") out.again = work;
    if (t.name == "block_backward") {
      out.block.backward = work;
      out.block.deferred = out.block.held + inputs + slot_bytes(t, "deferred");
    }
    if (t.name == "block_weights") out.block.weight = work;
    if (t.name == "send_forward") out.block.transfer = work;
    if (t.name == "embed_forward") out.embed.forward = work;
    if (t.name == "embed_backward") out.embed.backward = work;
    if (t.name == "head_forward") out.head.forward = work;
    if (t.name == "head_backward") out.head.backward = work;
    if (t.name == "metrics") out.head.backward += work;  // which the library has after it
  }
}

std::int64_t boundary_elements(const TaskGraph& graph) {
  for (const Template& t : graph.templates)
    for (const Task& task : t.tasks)
      if (const auto* send = std::get_if<Send>(&task.op)) return send->elements;
  return 0;
}

std::int64_t first_launches(const TaskGraph& graph) {
  for (const Template& t : graph.templates)
    if (t.name == "block_forward") return t.tasks.front().host_operations;
  throw ContractError("a plan's graph has no block");
}

std::int64_t bits_of(double x) { return std::bit_cast<std::int64_t>(x); }

}  // namespace

std::size_t LayerTimesCache::KeyHash::operator()(const Key& key) const {
  std::uint64_t h = 0;
  for (const std::int64_t k : key) {
    h = (h ^ static_cast<std::uint64_t>(k)) * 0x9e3779b97f4a7c15;
    h ^= h >> 29;
  }
  return h;
}

/// Everything that a layer's tasks and tensors depend on.
void LayerTimesCache::write_key(Key& key, const Plan& plan) {
  const ModelSpec& m = plan.model;
  const ParallelSpec& q = plan.parallel;
  const TrainingSpec& t = plan.training;
  const auto n = [](auto value) { return static_cast<std::int64_t>(value); };
  const auto hash_of = [&](const std::string& text) { return n(std::hash<std::string>()(text)); };
  key.assign({n(m.family), m.hidden_size, m.num_attention_heads, m.num_kv_heads, m.head_dim, m.ffn_hidden_size, m.vocab_size,
              m.pad_vocab_to, m.max_position_embeddings, m.token_types, n(m.activation), n(m.normalization), n(m.norm_placement),
              n(m.position_embedding), n(m.tie_embeddings), n(m.linear_bias), n(m.qkv_bias), n(m.embedding_norm)});
  const auto more = [&](std::initializer_list<std::int64_t> values) { key.insert(key.end(), values); };
  more({q.tensor, n(q.sequence_parallel), n(zero_bubble(q.schedule)), n(q.tensor_overlap), n(q.overlap_tensor_sum),
        n(q.zero_stage > 1), n(q.scatter_p2p)});
  more({t.seq_length, t.micro_batch_size, n(t.dtypes.compute), n(t.dtypes.weights), n(t.dtypes.gradients),
        n(t.dtypes.gradient_reduce), n(t.dtypes.master), n(t.dtypes.optimizer_state), n(t.recompute), n(t.recompute_products),
        n(t.recompute_early_stop), n(t.flash_attention), n(t.attention_kernel), hash_of(t.fusion.name), n(t.cuda_graphs),
        n(t.deterministic), n(t.fill_uninitialized_memory), bits_of(t.dropout.hidden), bits_of(t.dropout.attention),
        n(t.optimizer.kind)});
  key.push_back(hash_of(plan.stack.name + text_of(plan.stack.as_of)));
  key.push_back(hash_of(t.precision));  // on which a stack's counts of host operations may depend
  for (const std::string& module : t.recompute_modules) key.push_back(hash_of(module));
}

const LayerTimes& LayerTimesCache::of(const Plan& plan) {
  write_key(key_, plan);
  if (const auto known = known_.find(key_); known != known_.end()) return known->second;
  const Plan small = small_plan(plan);
  const TaskGraph graph = lower(small);
  const Mesh mesh = make_mesh(small);
  const DeviceTime device(cost_);
  const SimulatedStep simulated = sim::simulate_step({graph, mesh, topology_, device});
  LayerTimes out;
  read_times(out, simulated, graph);
  read_parameters(out, graph.programs[0], small.model.tie_embeddings);
  read_memory(out, graph);
  read_work(out.work, graph);
  out.boundary_elements = boundary_elements(graph);
  out.first_launches = first_launches(graph);
  const bool captured = small.training.cuda_graphs == CudaGraphs::iteration;  // sums of gradients and shares of boundaries, too
  const HostOperations& of_stack = small.stack.facts.host_operations;
  out.collective_launches = captured ? 0 : of_stack.of(kind_name(Collective{}), 0);
  out.update_recorded = of_stack.update_recorded;
  return known_.emplace(key_, out).first->second;
}

}  // namespace tandem::sim
