#include "exec/executor.hpp"

#include <algorithm>
#include <string_view>

#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr std::size_t kGroups = static_cast<std::size_t>(Group::world) + 1;

std::vector<std::vector<Rank>> groups_of(const Mesh& mesh, Rank rank) {
  std::vector<std::vector<Rank>> groups;
  for (std::size_t g = 0; g < kGroups; ++g) groups.push_back(mesh.members(static_cast<Group>(g), rank));
  return groups;
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
      groups_(groups_of(run.mesh, parts_.rank)),
      board_(order_.tasks()) {
  context_.seed = run.plan.training.seed;
  context_.seq_length = run.plan.training.seq_length;
  context_.tensor_rank = coords_[Axis::tp];
  context_.tensor_size = static_cast<std::int32_t>(run.mesh.size(Axis::tp));
  context_.scalars = &scalars_;
  context_.params = program_.params;
  start_workers(failed);
}

void RankExecutor::start_workers(const std::function<void(Rank)>& failed) {
  for (std::size_t s = 0; s < kStreams; ++s)
    if (!inline_stream(static_cast<Stream>(s)) && order_.uses(static_cast<Stream>(s)))
      workers_[s] = std::make_unique<StreamWorker>([this](std::uint32_t number) { execute(number); },
                                                   [this, failed] { failed(parts_.rank); });
}

void RankExecutor::cancel() { board_.fail(); }

void RankExecutor::run_step(const Scalars& scalars, std::int64_t step, std::optional<TimePoint> record) {
  begin_step(scalars, step, record.has_value());
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

void RankExecutor::begin_step(const Scalars& scalars, std::int64_t step, bool record) {
  board_.reset();
  scalars_ = scalars;
  step_ = step;
  context_.step = static_cast<std::uint64_t>(step);
  record_ = record;
  if (record) stamps_.assign(order_.tasks(), {});
  issued_.clear();
  for (auto& n : notes_) n.order.clear();
}

void RankExecutor::begin_instance(const Instance& instance) {
  context_.layer = instance.layer;
  context_.first_sequence = first_sequence(std::max(instance.micro_batch, 0));
  fill_inputs(instance);
}

std::int64_t RankExecutor::first_sequence(std::int32_t micro_batch) const {
  const auto& training = run_.plan.training;
  const auto global_micro_batch = micro_batch * run_.mesh.size(Axis::dp) + coords_[Axis::dp];
  return step_ * training.global_batch_size + global_micro_batch * training.micro_batch_size;
}

// The host's part of the input pipeline: slots of these names are filled before the instance that has them is issued.
void RankExecutor::fill_inputs(const Instance& instance) {
  const auto& slots = run_.graph.of(instance).slots;
  for (std::size_t s = 0; s < slots.size(); ++s) {
    if (slots[s].name == "tokens") fill_slot(instance, s, 0);
    if (slots[s].name == "targets") fill_slot(instance, s, 1);
  }
}

void RankExecutor::fill_slot(const Instance& instance, std::size_t slot, std::size_t shift) {
  const auto& training = run_.plan.training;
  const auto seq = static_cast<std::size_t>(training.seq_length);
  require(run_.graph.of(instance).slots[slot].bytes >= bytes_of(DType::int32, training.micro_batch_size * training.seq_length),
          "a slot for tokens that is smaller than a micro-batch");
  std::vector<std::int32_t> sequence(seq + 1);
  auto* out = reinterpret_cast<std::int32_t*>(arena() + program_.bindings[instance.binding + slot]);
  for (std::int64_t s = 0; s < training.micro_batch_size; ++s, out += seq) {
    run_.data.sequence(context_.first_sequence + s, sequence);
    std::copy_n(sequence.begin() + static_cast<std::ptrdiff_t>(shift), seq, out);
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
  if (const auto* op = std::get_if<Collective>(&task.op))
    return comm.run(*op, groups_[static_cast<std::size_t>(op->group)], at.out[0]);
  if (const auto* op = std::get_if<Send>(&task.op))
    return comm.send(at.in[0], bytes_of(op->dtype, op->elements).count(), peer(op->stage_offset), tag(instance));
  if (const auto* op = std::get_if<Recv>(&task.op))
    return comm.recv(at.out[0], bytes_of(op->dtype, op->elements).count(), peer(op->stage_offset), tag(instance));
  parts_.backend->run(task.op, task.dtype, std::span(at.in.data(), task.inputs.size()),
                      std::span(at.out.data(), task.outputs.size()), context_);
  return ready;
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
  const auto offset = program_.bindings[instance.binding + operand.slot] + operand.offset;
  const auto end = offset + bytes_of(operand.dtype, operand.elements).count();
  require(offset >= 0 && end <= static_cast<std::int64_t>(parts_.arena->size()), "an operand outside the arena");
  notes.touched = std::max(notes.touched, end);
  return arena() + offset;
}

// Both ends of a message run it for the same micro-batch and phase of the same step.
std::int64_t RankExecutor::tag(const Instance& instance) const {
  return ((step_ << 24) + instance.micro_batch + 1) * 8 + static_cast<std::int64_t>(instance.phase);
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
  Lane lane{coords_, {parts_.rank.value()}, {}, Bytes(static_cast<std::int64_t>(parts_.arena->size()))};
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
