#include "experiments/tandem/search/step_floor.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "models/graph/task_graph.hpp"
#include "models/lowering/shapes/stage_units.hpp"
#include "models/lowering/stage/stage_chunks.hpp"
#include "models/lowering/stage/stage_order.hpp"
#include "models/stack/resolve.hpp"

namespace tandem::search {

namespace {

constexpr std::int64_t kLayers = 2;  ///< of the small plan; of encoder and decoder each

/// The fewest layers, at least two, that include every kind of the model's layers.
std::int64_t few_layers(const ModelSpec& m) {
  std::set<LayerKind> all, few;
  for (std::int64_t l = 0; l < m.num_layers; ++l) all.insert(m.kind(l));
  std::int64_t n = 0;
  while (n < m.num_layers && (n < kLayers || few.size() < all.size())) few.insert(m.kind(n++));
  return std::max(n, kLayers);
}

/// A one-stage plan with one micro-batch, as few data ranks as its experts need, and two layers or one of each kind.
Plan small_plan(const Plan& plan, bool experts) {
  Plan small = plan;
  ParallelSpec& q = small.parallel;
  ModelSpec& m = small.model;
  q.pipeline = q.virtual_pipeline = 1;
  q.schedule = splits_backward(q.schedule) ? ScheduleKind::zb_h1 : ScheduleKind::one_f_one_b;
  q.pipeline_split.clear();
  q.zero_stage = 0, q.zero_group = 0;
  q.overlap_grad_reduce = q.overlap_param_gather = q.overlap_experts = false;
  q.optimizer_sync = OptimizerSync::global;
  q.offload = {};
  const ParallelSpec plain;  // what follows has no effect on one stage without sharding
  q.overlap_p2p = plain.overlap_p2p, q.scatter_p2p = plain.scatter_p2p, q.prefetch_layers = plain.prefetch_layers;
  q.reuse_distance = plain.reuse_distance, q.unit_copies = plain.unit_copies, q.root_unit = plain.root_unit;
  if (m.num_decoder_layers > 0) m.num_decoder_layers = kLayers;
  if (!experts) m.moe = {}, q.expert = 1, q.expert_tensor = q.tensor;
  m.moe.first_dense_layers = 0, m.moe.layer_frequency = 1;
  const auto some = [](const std::string& layers, char letter) { return layers.find(letter) != std::string::npos; };
  if (some(m.window.layers, 'f') && some(m.window.layers, 'w')) m.window.layers = "wf";
  if (some(m.indexer.layers, 'f') && some(m.indexer.layers, 'i')) m.indexer.layers = "if";
  m.num_layers = few_layers(m);
  const std::int64_t set = q.expert * q.expert_tensor, ranks = q.tensor * q.context;
  q.data = experts ? set / std::gcd(set, ranks) : 1;
  small.training.recompute_layers = 0;
  small.training.batch_rampup = {};
  small.training.global_batch_size = small.training.micro_batch_size * q.data;
  return small;
}

/// Time in ps of an instance's computations.
std::int64_t computation(const std::vector<Task>& tasks, DType compute, const sim::CostModel& cost) {
  std::int64_t sum = 0;
  for (const Task& t : tasks) {
    const bool computes = t.stream == Stream::compute && !is_communication(t.op) && !std::holds_alternative<HostCopy>(t.op);
    if (computes) sum += cost.duration(t.op, compute).ps();
  }
  return sum;
}

/// Times of one layer's passes in ps.
struct Passes {
  std::int64_t forward = 0, again = 0, backward = 0, weight = 0;
};

std::int64_t output_bytes(const Template& block) {
  std::int64_t sum = 0;
  for (const Slot& s : block.slots)
    if (s.name == "y") sum += s.bytes.count();
  return sum;
}

/// Bytes that a layer keeps for its backward pass.
std::int64_t kept_bytes(const Template& block) {
  std::int64_t sum = output_bytes(block);
  for (const Slot& s : block.slots)
    if (s.name == "saved" || s.name == "weight_inputs") sum += s.bytes.count();
  return sum;
}

void take_least(std::int64_t& least, std::int64_t bytes) { least = least < 0 ? bytes : std::min(least, bytes); }

void take_least(LayerFloor& out, const Passes& p, bool first) {
  const LayerFloor of{p.forward, p.backward + p.weight, p.again, p.backward};
  const auto least = [&](std::int64_t& to, std::int64_t from) { to = first ? from : std::min(to, from); };
  least(out.forward, of.forward), least(out.backward, of.backward), least(out.again, of.again), least(out.back, of.back);
}

/// The fewest parameter elements of any layer, of all or of trained parameters. "layer3.qkv.weight" belongs to layer 3.
std::int64_t least_elements(const Program& program, std::int64_t layers, bool frozen) {
  std::vector<std::int64_t> of(static_cast<std::size_t>(layers), 0);
  for (const Param& p : program.params)
    for (std::size_t l = 0; l < of.size(); ++l)
      if ((frozen || !p.frozen) && p.name.starts_with("layer" + std::to_string(l) + ".")) of[l] += p.elements();
  return *std::min_element(of.begin(), of.end());
}

}  // namespace

LayerFloor FloorTable::read(const Plan& small) const {
  const TaskGraph graph = lower(small);
  const Program& program = graph.programs.front();
  const DType compute = small.training.dtypes.compute;
  LayerFloor out;
  std::vector<Passes> layers(static_cast<std::size_t>(small.model.total_layers()));
  std::int64_t kept = -1, output = -1;
  for (const Instance& i : program.instances) {
    if (i.micro_batch < 0) continue;
    const Template& block = graph.of(i);
    const std::int64_t ps = computation(block.tasks, compute, cost_);
    if (i.layer >= small.model.total_layers()) {  // an MTP module counts with the head
      out.head += ps;
      if (i.phase == Phase::forward) out.module_forward += ps;
      else if (i.phase != Phase::weight) out.module_backward += ps;
    } else if (i.layer >= 0) {
      Passes& p = layers[static_cast<std::size_t>(i.layer)];
      if (i.phase == Phase::forward) p.forward += ps, take_least(kept, kept_bytes(block)), take_least(output, output_bytes(block));
      else if (i.phase == Phase::recompute) p.again += ps;
      else if (i.phase == Phase::backward) p.backward += ps;
      else if (i.phase == Phase::weight) p.weight += ps;
    } else if (block.name.starts_with("embed_")) {
      out.embedding += ps;
    } else if (block.name.starts_with("head_") || block.name.starts_with("final_norm_") || block.name == "mtp_words") {
      out.head += ps;
    }
  }
  for (std::size_t l = 0; l < layers.size(); ++l) take_least(out, layers[l], l == 0);
  out.kept = std::max<std::int64_t>(0, kept);
  out.output = std::max<std::int64_t>(0, output);
  out.elements = least_elements(program, small.model.total_layers(), true);
  out.trained = least_elements(program, small.model.total_layers(), false);
  return out;
}

const LayerFloor& FloorTable::of(const Plan& plan) {
  const ModelSpec& m = plan.model;
  const bool experts = m.moe.num_experts > 0;
  std::vector<Plan> kinds{small_plan(plan, experts)};
  if (experts && (m.moe.first_dense_layers > 0 || m.moe.layer_frequency > 1)) kinds.push_back(small_plan(plan, false));
  Key key;
  append_words(key, kinds.front().model);
  append_words(key, kinds.front().parallel);
  append_words(key, kinds.front().training);
  append_words(key, plan.stack);
  key.push_back(static_cast<std::int64_t>(kinds.size()));
  return known_.get(key, [&] { return read(kinds); });
}

/// The minima over the kinds of layers of these small plans.
LayerFloor FloorTable::read(const std::vector<Plan>& kinds) const {
  LayerFloor floor = read(kinds.front());
  if (kinds.size() == 1) return floor;
  const LayerFloor other = read(kinds.back());
  for (auto part : {&LayerFloor::forward, &LayerFloor::backward, &LayerFloor::again, &LayerFloor::back, &LayerFloor::embedding,
                    &LayerFloor::head, &LayerFloor::module_forward, &LayerFloor::module_backward, &LayerFloor::elements,
                    &LayerFloor::trained, &LayerFloor::kept, &LayerFloor::output})
    floor.*part = std::min(floor.*part, other.*part);
  return floor;
}

LayerFloor FloorTable::unrepeated(const Plan& plan) {
  Plan plain = plan;
  plain.training.recompute = Recompute::none;
  plain.training.recompute_modules.clear();
  plain.training.recompute_early_stop = plain.training.recompute_products = false;
  LayerFloor out = of(plain);
  out.kept = out.output;
  return out;
}

namespace {

/// A stage's computation per micro-batch, and its part of a micro-batch's path.
struct StageFloor {
  std::int64_t all = 0, first_forward = 0, first_backward = 0;
};

std::int64_t layers_again(const Plan& plan, std::int64_t layers) {
  if (plan.training.recompute == Recompute::none) return 0;
  const std::int64_t some = plan.training.recompute_layers;
  return plan.training.recompute == Recompute::full && some > 0 ? std::min(layers, some) : layers;
}

StageFloor stage_floor(const Plan& plan, const LayerFloor& layer, const std::vector<lowering::ChunkPart>& chunks) {
  StageFloor out;
  std::int64_t layers = 0;
  for (const lowering::ChunkPart& c : chunks) {
    layers += c.layers;
    out.all += (c.first ? layer.embedding : 0) + (c.last ? layer.head : 0);
  }
  out.all += layers * (layer.forward + layer.backward) + layers_again(plan, layers) * layer.again;
  out.first_forward = chunks.front().layers * layer.forward;
  out.first_backward = chunks.front().layers * layer.back;
  return out;
}

}  // namespace

std::int64_t time_floor(const Plan& plan, const LayerFloor& layer) {
  const bool split = splits_backward(plan.parallel.schedule);
  std::int64_t before = 0, most = 0;
  for (const auto& chunks : lowering::stage_chunks(plan)) {
    const StageFloor stage = stage_floor(plan, layer, chunks);
    most = std::max(most, before + plan.micro_batches() * stage.all);
    before += stage.first_forward + (split ? 0 : stage.first_backward);  // deferred weight passes may come last
  }
  return most;
}

namespace {

/// Moments of most parameters. Muon has a second one only for parameters that AdamW updates.
std::int64_t states(OptimizerKind kind, double momentum) {
  if (kind == OptimizerKind::muon) return 1;
  return kind == OptimizerKind::sgd ? (momentum > 0 ? 1 : 0) : 2;
}

/// Bits per parameter of optimizer states, including the master copy, at most: under Muon those of AdamW's parameters.
double bits_of_states(const TrainingSpec& t) {
  const std::int64_t copy = t.dtypes.master == t.dtypes.weights ? 0 : bits(t.dtypes.master);
  const std::int64_t most = t.optimizer.kind == OptimizerKind::muon ? 2 : states(t.optimizer.kind, t.optimizer.momentum);
  return static_cast<double>(copy + most * bits(t.dtypes.optimizer_state));
}

/// Number of ranks that share a parameter's states, for experts or others: the smaller.
std::int64_t fewest_shards(const Plan& plan) {
  const lowering::Sharding z = lowering::sharding_of(plan);
  if (z.zero_stage == 0) return 1;
  return std::max<std::int64_t>(1, plan.model.moe.num_experts > 0 ? std::min(z.shards, z.expert_shards) : z.shards);
}

std::int64_t most_layers(const Plan& plan) {
  std::int64_t most = 0;
  for (const auto& chunks : lowering::stage_chunks(plan)) {
    std::int64_t layers = 0;
    for (const lowering::ChunkPart& c : chunks) layers += c.layers;
    most = std::max(most, layers);
  }
  return most;
}

/// Most chunks between their forward and their backward pass in `order`.
std::int64_t most_in_flight(const std::vector<Action>& order) {
  std::int64_t now = 0, most = 0;
  for (const Action& a : order) {
    now += a.phase == Phase::forward ? 1 : a.phase == Phase::backward ? -1 : 0;
    most = std::max(most, now);
  }
  return most;
}

/// Passes of a chunk that the first stage has under way at once, at least.
std::int64_t first_passes(const Plan& plan) {
  const ScheduleKind kind = plan.parallel.schedule;
  ScheduleShape shape = lowering::shape_of(plan, {});
  if (folds(kind) && kind != ScheduleKind::dualpipe_v) {
    shape.micro_batches = std::min(shape.micro_batches, 4 * shape.stages);  // more have no more chunks in flight
    return most_in_flight(make_schedule(kind, shape, StageId(0)));
  }
  if (kind != ScheduleKind::one_f_one_b && kind != ScheduleKind::interleaved) return std::min(shape.micro_batches, shape.stages);
  const std::int64_t with_backward = shape.pairs ? 0 : 1;  // a pair's forward pass takes what its backward pass frees
  return std::min(shape.micro_batches * shape.chunks, warmup(kind, shape, StageId(0)) + with_backward);
}

/// Bytes of activations that the first stage holds of all passes under way. Each is at least that of its smallest chunk.
std::int64_t first_activations(const Plan& plan, const LayerFloor& layer) {
  const auto chunks = lowering::stage_chunks(plan).front();
  std::int64_t layers = chunks.front().layers;
  for (const lowering::ChunkPart& c : chunks) layers = std::min(layers, c.layers);
  const std::int64_t again = plan.training.recompute == Recompute::full ? layers_again(plan, layers) : 0;
  return first_passes(plan) * (again * layer.output + (layers - again) * layer.kept);
}

}  // namespace

std::int64_t most_saved(const Plan& plan, const Plan& plain) {
  const ModelSpec& m = plan.model;
  const DTypes& d = plan.training.dtypes;
  constexpr double kUnsplit = 1.02;  // for norms and biases, which tensor parallelism does not split
  const double share = static_cast<double>(most_layers(plan)) / static_cast<double>(m.total_layers());
  const double tables = 2.0 * static_cast<double>(m.vocab_size + m.max_position_embeddings) * static_cast<double>(m.hidden_size);
  const ParameterCount count = count_parameters(m, m.vocab_size);
  const double modules = static_cast<double>(count.mtp);
  const double elements = (share * (static_cast<double>(count.total) - modules) + modules + tables) * kUnsplit;
  const ParallelSpec& q = plan.parallel;
  const bool states_go = q.offload.optimizer || q.offload.parameters;
  double each = 0;  // in bits
  if (q.zero_stage >= 2 || states_go) each += bits(d.gradients);
  if (q.zero_stage >= 3 || q.offload.parameters) each += bits(d.weights);
  if (states_go) each += bits_of_states(plan.training) / static_cast<double>(fewest_shards(plain));
  return static_cast<std::int64_t>(elements / static_cast<double>(q.tensor) * each / 8);
}

std::int64_t memory_floor(const Plan& plan, const LayerFloor& layer, const Device& device) {
  const ParallelSpec& q = plan.parallel;
  const DTypes& d = plan.training.dtypes;
  const lowering::Sharding z = lowering::sharding_of(plan);
  const std::int64_t shards = std::max<std::int64_t>(1, std::max(z.shards, z.expert_shards));
  const auto bytes = [](DType t, std::int64_t n) { return n * bits(t) / 8; };
  const auto held = [&](std::int64_t n, int from) { return z.zero_stage >= from ? n / shards : n; };
  const DType base = plan.training.lora.quantizes() ? plan.training.lora.base_type() : d.weights;
  const std::int64_t moments = states(plan.training.optimizer.kind, plan.training.optimizer.momentum);
  /// Of a stage with that many layers: parameters, their states, and gradients or activations of `under_way`.
  const auto needed = [&](std::int64_t layers, std::int64_t under_way) {
    const std::int64_t elements = layers * layer.elements, trained = layers * layer.trained;
    std::int64_t weights = held(bytes(base, elements), 3), gradients = held(bytes(d.gradients, trained), 2);
    const std::int64_t copy = d.master == d.weights ? 0 : bytes(d.master, trained);
    std::int64_t kept = held(copy + moments * bytes(d.optimizer_state, trained), 1);
    if (q.offload.optimizer) kept = gradients = 0;
    if (q.offload.parameters) weights = gradients = kept = 0;
    return weights + kept + std::max(gradients, under_way);
  };
  const std::int64_t most = needed(most_layers(plan), 0);
  const auto stages = lowering::stage_chunks(plan);
  std::int64_t first = 0;
  for (const lowering::ChunkPart& c : stages.front()) first += c.layers;
  const std::int64_t activations = q.offload.activations.empty() ? first_activations(plan, layer) : 0;
  return device.runtime_memory.count() + std::max(most, needed(first, activations));
}

}  // namespace tandem::search
