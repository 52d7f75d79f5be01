#include "sim/closed_form/layer_times.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "models/graph/task_graph.hpp"
#include "models/lowering/templates/update_ops.hpp"
#include "models/stack/resolve.hpp"
#include "sim/engine/simulate_step.hpp"
#include "sim/memory/workspaces.hpp"

namespace tandem::sim {
namespace {

/// The cost model of a host that launches in no time: it gives the device's time alone.
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

/// Micro-batches of the small plan, and of the one with pairs: these run two that add to gradients.
constexpr std::int64_t kSmallBatches = 3, kPairedBatches = 4;
/// Layers that the small plan with pairs has more, whose exchanges wait for each other as in a long stage.
constexpr std::int64_t kMoreLayers = 2;

/// The field for an instance's time; null for the optimizer and what leads to it.
PartTime* part(LayerTimes& out, const Instance& i, const std::string& name) {
  const std::size_t order = i.micro_batch == 0 ? 0 : 1;
  if (i.layer >= 0) {
    BlockTimes& block = out.blocks[out.small_kinds[static_cast<std::size_t>(i.layer)]];
    if (name == "block_recompute") return &block.recompute;
    if (name == "block_forward") return i.phase == Phase::recompute ? &block.recompute : &block.forward;
    if (i.phase == Phase::weight) return &block.weight[order];
    if (i.phase == Phase::backward) return &block.backward[order];
  }
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

/// An instance's time is from its first computation to the next instance's. It includes exposed collectives.
void read_times(LayerTimes& out, const SimulatedStep& simulated, const TaskGraph& graph) {
  const Reader reader(simulated, 0);
  const Program& program = graph.programs[0];
  PartTime* open = nullptr;
  std::int64_t since = 0, end = 0, busy = 0;
  std::array<std::int64_t, kSmallBatches> head{}, embed{};  // starts of the head's and embedding's backward passes, by micro-batch
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
    if (open != nullptr && open->ps > 0) open = nullptr;  // the first layer of a kind stands for all
    since = start;
    for (const BlockTimes& b : out.blocks)
      if (open == &b.backward[1]) busy += computation(reader, tasks, i);
    if (open != nullptr)
      for (const Task& t : tasks) open->launches += t.host_operations;
    for (std::uint16_t t = 0; t < tasks.size(); ++t) end = std::max(end, reader.ended(i, t));
  }
  if (open != nullptr) open->ps = end - since;
  std::int64_t backward = 0;
  for (const BlockTimes& b : out.blocks) backward += b.backward[1].ps;
  out.computing_share = static_cast<double>(busy) / static_cast<double>(std::max<std::int64_t>(1, backward));
  out.tensor_sum = ((embed[2] - head[2]) - (embed[1] - head[1])) / static_cast<std::int64_t>(out.small_kinds.size());
}

/// When the first computation of an instance starts; nothing if it has none.
std::optional<std::int64_t> begin_of(const Reader& reader, const TaskGraph& graph, std::uint32_t i) {
  const auto& tasks = graph.of(graph.programs[0].instances[i]).tasks;
  const auto first = std::find_if(tasks.begin(), tasks.end(), [](const Task& t) { return t.stream == Stream::compute; });
  if (first == tasks.end()) return std::nullopt;
  return reader.started(i, static_cast<std::uint16_t>(first - tasks.begin()));
}

/// When the turns of a pair begin, and when the last one ends. In a turn the next layer of the forward pass and the next one of the
/// backward pass alternate. The forward pass is that of `micro_batch`, the backward pass that of the one before.
std::vector<std::int64_t> turns_of(const Reader& reader, const TaskGraph& graph, std::int64_t layers, std::int32_t micro_batch) {
  const std::vector<Instance>& instances = graph.programs[0].instances;
  std::vector<std::int64_t> out(static_cast<std::size_t>(layers) + 1, INT64_MAX);
  std::uint32_t after = 0;
  for (std::uint32_t i = 0; i < instances.size(); ++i) {
    const Instance& at = instances[i];
    const bool forward = at.phase == Phase::forward && at.micro_batch == micro_batch;
    const bool backward = (at.phase == Phase::backward || at.phase == Phase::recompute) && at.micro_batch == micro_batch - 1;
    if (at.layer < 0 || (!forward && !backward)) continue;
    after = i + 1;
    if (const auto begin = begin_of(reader, graph, i)) {
      std::int64_t& turn = out[static_cast<std::size_t>(forward ? at.layer : layers - 1 - at.layer)];
      turn = std::min(turn, *begin);
    }
  }
  for (; after < instances.size(); ++after)
    if (const auto begin = begin_of(reader, graph, after)) return out.back() = *begin, out;
  throw ContractError("nothing follows a pair of passes");
}

void read_memory(LayerTimes& out, const TaskGraph& graph) {
  for (const Template& t : graph.templates) {
    if (t.name != "head_forward" && t.name != "head_backward") out.scratch = std::max(out.scratch, t.slots[0].bytes);
    if (t.name == "head_forward")
      for (const tandem::Slot& s : t.slots)
        if (s.name == "saved") out.head = s.bytes;
  }
  for (const Instance& i : graph.programs[0].instances) {
    if (graph.of(i).name != "block_forward") continue;
    Bytes& saved = out.blocks[out.small_kinds[static_cast<std::size_t>(i.layer)]].saved;
    if (saved.count() > 0) continue;
    for (const tandem::Slot& s : graph.of(i).slots) {
      if (s.name == "saved" || s.name == "weight_inputs") saved += Bytes(arena_aligned(s.bytes.count()));
      if (s.name == "y") out.hidden = Bytes(arena_aligned(s.bytes.count()));
    }
  }
}

/// Reads the bytes that live for the whole step, without parameters, gradients and states, and the peak of all others.
void read_live(LayerTimes& out, const Program& program, const lowering::Shapes& shapes, const OptimizerSpec& optimizer) {
  const auto end = static_cast<std::uint32_t>(program.instances.size()) - 1;
  Bytes lasting;
  for (const Allocation& a : program.memory.allocations) {
    if (a.name == "scratch" || a.first != 0 || a.last < end) continue;
    lasting += a.bytes;
    if (a.name == "kept_logits") out.kept_logits += a.bytes;
  }
  out.passing = program.memory.live_peak_bytes - lasting;
  const std::int64_t flat = program.flat_elements;
  Bytes counted = bytes_of(shapes.stored_weights(), flat) + bytes_of(shapes.dtypes.gradients, flat);
  for (const lowering::OptimizerState& s : lowering::optimizer_states(optimizer, shapes.stored_weights(), shapes))
    counted += bytes_of(s.type, flat);
  out.apart = std::max(Bytes(0), lasting - out.kept_logits - counted);
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

/// Regions and the work of passes, as `lower` has them.
void read_lowering(LayerTimes& out, const lowering::Shapes& shapes) {
  out.regions = lowering::model_regions(shapes);
  if (!shapes.defer_weights) return;
  lowering::TemplateLibrary library;
  const lowering::Templates templates = lowering::make_templates(shapes, {}, library);
  for (std::size_t kind = 0; kind < kLayerKinds; ++kind)
    if (std::count(out.small_kinds.begin(), out.small_kinds.end(), kind) > 0)
      out.blocks[kind].work = lowering::layer_work(templates.blocks[kind], library);
  out.ends = lowering::end_work(templates, library);
}

}  // namespace

/// Cuts a model to the fewest layers with all its kinds, plus one: a layer's time ends where the next layer begins, and the head
/// begins with a gather of its own. Dense layers in front of experts become one if all kinds remain.
void shorten(ModelSpec& m, std::int64_t more) {
  const auto kinds = [](const ModelSpec& of, std::int64_t layers) {
    std::set<LayerKind> out;
    for (std::int64_t l = 0; l < layers; ++l) out.insert(of.kind(l));
    return out;
  };
  const auto all = kinds(m, m.num_layers);
  const std::int64_t most = std::max<std::int64_t>(2, m.num_layers), dense = m.moe.first_dense_layers;
  for (const std::int64_t in_front : {std::min<std::int64_t>(1, dense), dense}) {
    ModelSpec few = m;
    few.moe.first_dense_layers = in_front;
    for (few.num_layers = 2; few.num_layers < most; ++few.num_layers)
      if (kinds(few, few.num_layers - 1) == all) break;
    if (kinds(few, few.num_layers) != all && m.num_layers >= 2) continue;
    few.num_layers = std::min(few.num_layers + more, most);
    m = few;
    return;
  }
}

/// The fewest data ranks that hold all experts together.
std::int64_t fewest_copies(const ParallelSpec& q) {
  const std::int64_t ranks = q.expert * q.expert_tensor, each = q.tensor * q.context;
  return q.expert == 1 ? 1 : std::lcm(ranks, each) / each;
}

/// Makes the small plan that plans with the same layers share. It has few layers on one stage, the fewest data ranks that hold all
/// experts, and every region of parameters as a unit of its own. It does not set the stack's facts.
void LayerTimesCache::make_small(const Plan& plan, std::int64_t more_layers) {
  small_.model = plan.model;
  small_.parallel = plan.parallel;
  small_.training = plan.training;
  ParallelSpec& q = small_.parallel;
  q.pipeline = q.virtual_pipeline = 1;
  q.data = fewest_copies(q);
  q.schedule = splits_backward(q.schedule) ? ScheduleKind::zb_h1 : ScheduleKind::one_f_one_b;
  q.pipeline_split.clear();
  q.zero_stage = 0;
  q.zero_group = 0;
  q.overlap_grad_reduce = q.overlap_param_gather = q.overlap_experts = false;
  q.bucket_bytes = Bytes(1);
  q.offload = {};
  shorten(small_.model, more_layers);
  some_again_ = std::exchange(small_.training.recompute_layers, 0) > 0;
  small_.training.global_batch_size = kSmallBatches * small_.training.micro_batch_size * q.data;
}

/// Writes the key of the small plan, and what of `plan` is not in it.
void LayerTimesCache::write_key(const Plan& plan) {
  small_.cluster = plan.cluster;
  small_.stack = plan.stack;
  key_.clear();
  append_words(key_, small_.model);
  append_words(key_, small_.parallel);
  append_words(key_, small_.training);
  append_words(key_, small_.stack);
}

const PairTimes& LayerTimesCache::pairs_of(const Plan& plan) {
  make_small(plan, kMoreLayers);
  if (some_again_) small_.training.recompute = Recompute::none;  // layers that are not computed again take the least
  small_.parallel.overlap_experts = true;
  small_.training.global_batch_size = kPairedBatches * small_.training.micro_batch_size * small_.parallel.data;
  write_key(plan);
  if (const auto known = known_pairs_.find(key_); known != known_pairs_.end()) return *known->second;
  const PairTimes& out = store_.pairs.get(key_, [&] {
    resolve_stack(small_);
    return read_pairs();
  });
  return *known_pairs_.emplace(key_, &out).first->second;
}

PairTimes LayerTimesCache::read_pairs() const {
  const TaskGraph graph = lower(small_);
  const Mesh mesh = make_mesh(small_);
  const DeviceTime device(cost_);
  const SimulatedStep simulated = sim::simulate_step({graph, mesh, topology_, device, nullptr, &footprints_});
  const Reader reader(simulated, 0);
  const lowering::Shapes shapes = lowering::make_shapes(small_);
  const auto layers = static_cast<std::size_t>(small_.model.num_layers);
  PairTimes out{};
  for (std::int32_t batch = 1; batch < kPairedBatches; ++batch) {
    const std::vector<std::int64_t> turns = turns_of(reader, graph, small_.model.num_layers, batch);
    for (std::size_t l = 0; l < layers; ++l) {
      std::int64_t& least = out[batch == 1 ? 0 : 1][shapes.kinds[l].index()][shapes.kinds[layers - 1 - l].index()];
      const std::int64_t time = turns[l + 1] - turns[l];
      least = least == 0 ? time : std::min(least, time);
    }
  }
  return out;
}

const LayerTimes& LayerTimesCache::of(const Plan& plan) {
  make_small(plan);
  write_key(plan);
  if (const auto known = known_.find(key_); known != known_.end()) return *known->second;
  const LayerTimes& out = store_.layers.get(key_, [&] {
    resolve_stack(small_);
    return read();
  });
  return *known_.emplace(key_, &out).first->second;
}

/// The times of the small plan's layers.
LayerTimes LayerTimesCache::read() const {
  const TaskGraph graph = lower(small_);
  const Mesh mesh = make_mesh(small_);
  const DeviceTime device(cost_);
  const SimulatedStep simulated = sim::simulate_step({graph, mesh, topology_, device, nullptr, &footprints_});
  const lowering::Shapes shapes = lowering::make_shapes(small_);
  LayerTimes out;
  const auto layers = static_cast<std::size_t>(small_.model.num_layers);
  for (std::size_t l = 0; l < layers; ++l) out.small_kinds.push_back(shapes.kinds[l].index());
  read_times(out, simulated, graph);
  read_memory(out, graph);
  read_live(out, graph.programs[0], shapes, small_.training.optimizer);
  out.apart += kernel_scratch(small_, cost_.comm_fit(), graph, graph.programs[0]);
  read_lowering(out, shapes);
  out.boundary_elements = boundary_elements(graph);
  out.first_launches = first_launches(graph);
  const bool captured = small_.training.cuda_graphs == CudaGraphs::iteration;  // gradient sums and boundary gathers, too
  const HostOperations& of_stack = small_.stack.facts.host_operations;
  out.collective_launches = captured ? 0 : of_stack.of(kind_name(Collective{}), 0);
  out.update_recorded = of_stack.update_recorded;
  return out;
}

}  // namespace tandem::sim
