#include "exec/run/executor.hpp"

#include <algorithm>
#include <string_view>

#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

std::vector<std::vector<Rank>> groups_of(const Mesh& mesh, Rank rank) {
  std::vector<std::vector<Rank>> groups;
  for (std::size_t g = 0; g < kGroups; ++g) groups.push_back(mesh.members(static_cast<Group>(g), rank));
  return groups;
}

std::vector<std::int64_t> positions_in(const std::vector<std::vector<Rank>>& groups, Rank rank) {
  std::vector<std::int64_t> positions;
  for (const auto& g : groups) positions.push_back(std::find(g.begin(), g.end(), rank) - g.begin());
  return positions;
}

StageId stage_of(const Coords& c) { return StageId(c[Axis::pp]); }

}  // namespace

/// A task's operands as addresses.
struct RankExecutor::Pointers {
  static constexpr std::size_t kMost = 12;
  std::array<const std::byte*, kMost> in;
  std::array<std::byte*, kMost> out;
};

RankExecutor::RankExecutor(const RunContext& run, RankParts parts, std::function<void(Rank)> failed)
    : run_(run),
      parts_(std::move(parts)),
      coords_(run.mesh.coords(parts_.rank)),
      program_(run.graph.program(stage_of(coords_))),
      order_(run.orders[stage_of(coords_).index()]),
      reader_(data_shape(run.plan), run.data, coords_[Axis::cp]),
      groups_(groups_of(run.mesh, parts_.rank)),
      positions_(positions_in(groups_, parts_.rank)),
      pieces_(param_pieces(program_, state().seat)),
      board_(order_.tasks()) {
  context_.seed = run.plan.training.seed;
  context_.tensor_rank = coords_[Axis::tp];
  context_.expert_tensor_rank = static_cast<std::int32_t>(positions_[static_cast<std::size_t>(Group::expert_tensor)]);
  context_.tensor_size = static_cast<std::int32_t>(run.mesh.size(Axis::tp));
  context_.context_rank = coords_[Axis::cp];
  context_.context_size = static_cast<std::int32_t>(run.mesh.size(Axis::cp));
  context_.scalars = &scalars_;
  context_.pieces = pieces_;
  start_workers(failed);
}

void RankExecutor::start_workers(const std::function<void(Rank)>& failed) {
  for (std::size_t s = 0; s < kStreams; ++s)
    if (!inline_stream(static_cast<Stream>(s)) && order_.uses(static_cast<Stream>(s)))
      workers_[s] = std::make_unique<StreamWorker>([this](std::uint32_t number) { execute(number); },
                                                   [this, failed] { failed(parts_.rank); });
}

RankState RankExecutor::state() { return rank_state(program_, run_.mesh, parts_.rank, arena()); }

void RankExecutor::cancel() { board_.fail(); }

void RankExecutor::run_step(const StepStart& start, std::optional<TimePoint> record) {
  begin_step(start, record.has_value());
  if (record) origin_ = *record;
  for (std::uint32_t i = 0; i < program_.instances.size(); ++i) {
    const auto& instance = program_.instances[i];
    begin_instance(instance);
    const auto tasks = run_.graph.of(instance).tasks.size();
    for (std::uint16_t t = 0; t < tasks; ++t) issue({i, t});
  }
  for (auto& worker : workers_)
    if (worker) worker->drain();
  if (board_.failed()) throw Cancelled{};
}

void RankExecutor::begin_step(const StepStart& start, bool record) {
  board_.reset();
  scalars_ = start.scalars;
  step_ = start.step;
  first_sample_ = start.first_sample;
  context_.step = static_cast<std::uint64_t>(start.step);
  record_ = record;
  if (record) stamps_.assign(order_.tasks(), {});
  if (record) routing_.clear();
  issued_.clear();
  for (auto& n : notes_) n.order.clear();
}

void RankExecutor::begin_instance(const Instance& instance) {
  context_.layer = instance.layer;
  context_.seq_length = run_.plan.layer_seq_length(instance.layer);
  context_.first_sequence = first_sequence(std::max(instance.micro_batch, 0));
  fill_inputs(instance);
}

// Context ranks of one data index share its sequences: what counts is the axis, not the place in the data group.
std::int64_t RankExecutor::first_sequence(std::int32_t micro_batch) const {
  const auto& training = run_.plan.training;
  const auto global_micro_batch = micro_batch * run_.mesh.size(Axis::dp) + coords_[Axis::dp];
  return first_sample_ + global_micro_batch * training.micro_batch_size;
}

void RankExecutor::fill_inputs(const Instance& instance) {
  const auto& slots = run_.graph.of(instance).slots;
  for (const auto [slot, input] : run_.inputs[instance.tmpl.index()]) {
    const auto bytes = bytes_of(DType::int32, reader_.elements(input));
    const auto offset = program_.bindings[instance.binding + slot];
    require(slots[slot].bytes >= bytes, "a slot that the host fills is smaller than what a micro-batch has for it");
    require(offset >= 0 && offset + bytes.count() <= static_cast<std::int64_t>(parts_.arena->size()),
            "a slot that the host fills lies outside the arena");
    reader_.fill(input, context_.first_sequence, reinterpret_cast<std::int32_t*>(arena() + offset));
  }
}

void RankExecutor::issue(TaskRef ref) {
  const auto number = order_.number(ref);
  const auto stream = order_.task(ref).stream;
  issued_.emplace_back(ref.instance, ref.task);
  if (record_) stamps_[number].issued = now();
  if (inline_stream(stream)) return execute(number);
  workers_[static_cast<std::size_t>(stream)]->push(number);
}

void RankExecutor::execute(std::uint32_t number) {
  const auto ref = order_.ref(number);
  const auto& task = order_.task(ref);
  const auto& instance = program_.instances[ref.instance];
  if (!board_.wait(order_.waits(number))) throw Cancelled{};
  const auto ready = now();
  auto& mine = notes(task.stream);
  mine.order.emplace_back(ref.instance, ref.task);
  const auto started = perform(task, instance, resolve(task, instance, mine), ready);
  if (record_) {
    auto& s = stamps_[number];
    s.ready = ready, s.started = std::max(ready, started), s.ended = now();
  }
  if (order_.awaited(number)) board_.complete(number);
}

TimePoint RankExecutor::perform(const Task& task, const Instance& instance, const Pointers& at, TimePoint ready) {
  auto& comm = *parts_.comm;
  const auto peer = [&](int offset) { return run_.mesh.stage_neighbour(parts_.rank, offset); };
  if (const auto* op = std::get_if<Collective>(&task.op)) return collect(*op, task, at);
  if (const auto* op = std::get_if<Send>(&task.op))
    return comm.send(at.in[0], bytes_of(op->dtype, op->elements).count(), peer(op->stage_offset),
                     sent(instance, op->stage_offset));
  if (const auto* op = std::get_if<Recv>(&task.op))
    return comm.recv(at.out[0], bytes_of(op->dtype, op->elements).count(), peer(op->stage_offset),
                     received(instance, op->stage_offset));
  parts_.backend->run(task.op, task.dtype, std::span(at.in.data(), task.inputs.size()),
                      std::span(at.out.data(), task.outputs.size()), context_);
  if (record_) note_routing(task, instance, at);
  return ready;
}

/// What the router of a recorded step has chosen; computed again it chooses the same.
void RankExecutor::note_routing(const Task& task, const Instance& instance, const Pointers& at) {
  const auto* router = std::get_if<TopKRouter>(&task.op);
  if (router == nullptr || instance.phase != Phase::forward) return;
  const auto* counts = reinterpret_cast<const std::int32_t*>(at.out[3]);
  routing_.push_back({instance.layer, instance.micro_batch, {counts, counts + router->dims.experts}});
}

// Every thread of a rank has its own lane, so one group may be used from several.
TimePoint RankExecutor::collect(const Collective& op, const Task& task, const Pointers& at) {
  const int lane = inline_stream(task.stream) ? 0 : static_cast<int>(task.stream);
  const auto& members = groups_[static_cast<std::size_t>(op.group)];
  MemberBuffers mine{at.in[0], at.out[0]};
  if (op.row > 0)
    mine.rows = {reinterpret_cast<const std::int32_t*>(at.in[1]),
                 reinterpret_cast<const std::int32_t*>(at.in[task.inputs.size() - 1]),
                 task.inputs[1].elements / static_cast<std::int64_t>(members.size()), task.outputs[0].elements / op.row};
  return parts_.comm->run(op, {members, lane}, mine);
}

RankExecutor::Pointers RankExecutor::resolve(const Task& task, const Instance& instance, StreamNotes& notes) {
  require(task.inputs.size() <= Pointers::kMost && task.outputs.size() <= Pointers::kMost,
          "a task of more operands than any operation has");
  Pointers at;
  for (std::size_t i = 0; i < task.inputs.size(); ++i) at.in[i] = locate(task.inputs[i], instance, notes);
  for (std::size_t i = 0; i < task.outputs.size(); ++i) at.out[i] = locate(task.outputs[i], instance, notes);
  return at;
}

std::byte* RankExecutor::locate(const Operand& operand, const Instance& instance, StreamNotes& notes) {
  const auto place = operand.shards > 1 ? positions_[static_cast<std::size_t>(operand.shard_group)] : 0;
  require(operand.shards <= 1 || place < operand.shards, "an operand with fewer shares than its group has members");
  const auto offset = program_.bindings[instance.binding + operand.slot] + operand.offset + place * operand.stride;
  const auto end = offset + bytes_of(operand.dtype, operand.elements).count();
  require(offset >= 0 && end <= static_cast<std::int64_t>(parts_.arena->size()), "an operand outside the arena");
  notes.touched = std::max(notes.touched, end);
  return arena() + offset;
}

// A message goes to the next or the previous virtual stage: past the last stage to the first one's next chunk, and back.
// Its two ends work on different chunks there, so both name it after the virtual stage that receives it.
MessageName RankExecutor::sent(const Instance& instance, int offset) const {
  const auto stages = run_.mesh.size(Axis::pp), stage = static_cast<std::int64_t>(coords_[Axis::pp]) + offset;
  if (instance.micro_batch < 0) return {tag(instance, (stage + stages) % stages), offset};
  return {tag(instance, instance.chunk * stages + stage), offset};
}

MessageName RankExecutor::received(const Instance& instance, int offset) const {
  const auto chunk = instance.micro_batch < 0 ? 0 : instance.chunk;
  return {tag(instance, chunk * run_.mesh.size(Axis::pp) + coords_[Axis::pp]), -offset};
}

// Both ends of a message run it for the same micro-batch and phase of the same step.
std::int64_t RankExecutor::tag(const Instance& instance, std::int64_t virtual_stage) const {
  const auto micro_batch = (step_ << 20) + instance.micro_batch + 1;
  return ((micro_batch << 16) + virtual_stage) * 8 + static_cast<std::int64_t>(instance.phase);
}

RankBooks RankExecutor::books() const {
  RankBooks books;
  books.backend = parts_.backend->counters();
  books.comm = parts_.comm->counters();
  books.arena_bytes = static_cast<std::int64_t>(parts_.arena->size());
  books.issue_order = issued_;
  for (const auto& n : notes_) {
    books.stream_order.push_back(n.order);
    books.arena_touched_bytes = std::max(books.arena_touched_bytes, n.touched);
  }
  return books;
}

Lane RankExecutor::lane() const {
  Lane lane{coords_, {parts_.rank.value()}, {}, Bytes(static_cast<std::int64_t>(parts_.arena->size())), routing_};
  const auto since = [&](TimePoint t) {
    return Duration::nanoseconds(std::chrono::duration_cast<std::chrono::nanoseconds>(t - origin_).count());
  };
  for (std::uint32_t n = 0; n < stamps_.size(); ++n) {
    const auto ref = order_.ref(n);
    const auto& s = stamps_[n];
    lane.spans.push_back({ref.instance, ref.task, since(s.issued), since(s.ready), since(s.started), since(s.ended)});
  }
  return lane;
}

}  // namespace tandem::exec
