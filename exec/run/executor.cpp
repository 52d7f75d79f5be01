#include "exec/run/executor.hpp"

#include <algorithm>

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

std::size_t documents_bytes(const RunContext& run) {
  const DataShape shape = data_shape(run.plan);
  const std::int64_t positions = shape.global_batch_size / run.mesh.size(Axis::dp) * shape.seq_length;
  return shape.separate ? static_cast<std::size_t>(positions) * sizeof(std::int32_t) : 0;
}

/// A task's operands, located in the rank's arena.
struct RankExecutor::Operands {
  static constexpr std::size_t kMost = 12;
  std::array<Tensor, kMost> in, out;
};

RankExecutor::RankExecutor(const RunContext& run, RankParts parts, std::function<void(Rank)> failed)
    : run_(run),
      parts_(std::move(parts)),
      coords_(run.mesh.coords(parts_.rank)),
      program_(run.graph.program(stage_of(coords_))),
      order_(run.orders[stage_of(coords_).index()]),
      owned_(owned_ranges(program_)),
      on_host_(run.graph, program_),
      reader_(data_shape(run.plan), run.data, coords_[Axis::cp]),
      groups_(groups_of(run.mesh, parts_.rank)),
      positions_(positions_in(groups_, parts_.rank)),
      board_(order_.tasks()),
      reads_counts_(parts_.backend->asynchronous() && (parts_.backend->needs_rows() || !parts_.comm->blocks())),
      wants_replays_(run.plan.training.cuda_graphs == CudaGraphs::iteration),
      replays_(wants_replays_ && can_replay()) {
  rank_context_.seed = run.plan.training.seed;
  rank_context_.tensor_rank = coords_[Axis::tp];
  rank_context_.expert_tensor_rank = static_cast<std::int32_t>(positions_[static_cast<std::size_t>(Group::expert_tensor)]);
  rank_context_.expert_rank = static_cast<std::int32_t>(positions_[static_cast<std::size_t>(Group::expert)]);
  rank_context_.tensor_size = static_cast<std::int32_t>(run.mesh.size(Axis::tp));
  rank_context_.context_rank = coords_[Axis::cp];
  rank_context_.context_size = static_cast<std::int32_t>(run.mesh.size(Axis::cp));
  rank_context_.table = table_address(*parts_.backend);
  if (const std::size_t bytes = documents_bytes(run); bytes > 0) documents_ = &parts_.backend->documents(bytes);
  const RankState mine = state();
  const auto rows = piece_rows(param_pieces(program_, mine.seat), [&](const Param& p) { return share_map(p, mine); });
  parts_.backend->load_pieces(rows);
  if (parts_.states) parts_.backend->split_updates(parts_.states->layout().updates(program_, rows));
  const auto performing = parts_.comm->blocks() ? Performing::on_queues : Performing::all_on_queues;
  if (parts_.backend->asynchronous()) queues_ = std::make_unique<QueueOrder>(*parts_.backend, order_, performing);
  require(queues_ || parts_.comm->blocks(), "a communicator that issues to queues needs a backend that has some");
  if (runs_ahead()) prepare();
  start_workers(failed);
}

/// Plans all launches now, so that inside a step the queues only enqueue.
void RankExecutor::prepare() {
  StreamNotes unused;
  for (const Instance& instance : program_.instances) {
    const KernelContext context = context_of(instance);
    for (const Task& task : run_.graph.of(instance).tasks)
      if (!is_communication(task.op))
        parts_.backend->queue(task.stream).prepare(launch_of(task, resolve(task, instance, unused), context));
  }
}

Launch RankExecutor::launch_of(const Task& task, const Operands& at, const KernelContext& context) {
  const bool copy = std::holds_alternative<HostCopy>(task.op);  // the graph has only one end as operand
  const std::size_t in = copy ? 1 : task.inputs.size(), out = copy ? 1 : task.outputs.size();
  return {task.op, task.dtype, std::span(at.in).first(in), std::span(at.out).first(out), context};
}

void RankExecutor::start_workers(const std::function<void(Rank)>& failed) {
  const auto work = [this](std::uint32_t number) { execute(number, context_of(program_.instances[order_.ref(number).instance])); };
  for (std::size_t s = 0; s < kStreams; ++s)
    if (!inline_stream(static_cast<Stream>(s), how()) && order_.uses(static_cast<Stream>(s)))
      workers_[s] = std::make_unique<StreamWorker>(work, [this, failed] { failed(parts_.rank); });
}

RankState RankExecutor::state() { return rank_state(program_, run_.mesh, parts_.rank, parts_.arena.get()); }

void RankExecutor::cancel() { board_.fail(); }

void RankExecutor::run_step(const StepTable& start, std::optional<TimePoint> record) {
  begin_step(start, record.has_value());
  if (record) origin_ = *record;
  fill_inputs();
  perform_step();
  for (auto& worker : workers_)
    if (worker) worker->drain();
  if (board_.failed()) throw Cancelled{};
  if (!runs_ahead()) return;
  queues_->finish();
  parts_.comm->require_whole();
  if (record_) take_times();
}

void RankExecutor::take_times() {
  for (std::uint32_t n = 0; n < stamps_.size(); ++n) {
    if (!queues_->queued(n)) continue;
    const auto [started, ended] = queues_->times(n);
    stamps_[n].ready = stamps_[n].started = started, stamps_[n].ended = ended;
  }
}

void RankExecutor::settle() noexcept {
  for (auto& worker : workers_)
    if (worker) worker->drain();
  if (runs_ahead()) queues_->settle();
}

bool RankExecutor::can_replay() const {
  if (!parts_.backend->asynchronous()) return false;
  const auto computes = [&](const Task& task) {
    return !is_communication(task.op) && !(reads_counts_ && counted_rows(task.op).has_value());
  };
  return std::all_of(program_.instances.begin(), program_.instances.end(), [&](const Instance& i) {
    const auto& tasks = run_.graph.of(i).tasks;
    return std::all_of(tasks.begin(), tasks.end(), computes);
  });
}

// A recorded step needs marks around every task, which a replay does not have; a scored one copies rows to the host.
void RankExecutor::perform_step() {
  if (scores_) return issue_all();
  if (replays_ && issued_once_ && !record_ && !replay_) replay_ = parts_.backend->capture([this] { issue_all(); });
  if (replay_ && !record_) return replay_->start();
  issue_all();
  issued_once_ = true;
}

void RankExecutor::issue_all() {
  issued_.clear();
  for (auto& n : notes_) n.order.clear();
  for (std::uint32_t i = 0; i < program_.instances.size(); ++i) {
    const auto& instance = program_.instances[i];
    context_ = context_of(instance);
    const auto tasks = run_.graph.of(instance).tasks.size();
    for (std::uint16_t t = 0; t < tasks; ++t) issue({i, t});
  }
}

void RankExecutor::begin_step(const StepTable& start, bool record) {
  board_.reset();
  counts_.clear();
  rows_.clear();
  start_ = start;
  count_targets();
  write_value(parts_.backend->step_table(), 0, start_);
  if (documents_ != nullptr) fill_documents();
  record_ = record;
  if (record) stamps_.assign(order_.tasks(), {});
  if (record) routing_.clear();
  if (runs_ahead()) queues_->record(record);
}

/// Every rank counts the targets of the global batch, so that all divide by the same number.
void RankExecutor::count_targets() {
  const DataShape& shape = reader_.shape();
  const auto counted = reader_.targets(start_.first_sample, shape.global_batch_size);
  if (!counted) return;
  const std::int64_t all = shape.global_batch_size * shape.seq_length;
  target_share_ = static_cast<double>(*counted) / static_cast<double>(all);
  if (*counted != all) start_.targets = *counted;
}

void RankExecutor::fill_documents() {
  const DataShape& shape = reader_.shape();
  std::vector<std::int32_t> all(documents_bytes(run_) / sizeof(std::int32_t));
  const std::int64_t each = shape.micro_batch_size * shape.seq_length, count = static_cast<std::int64_t>(all.size()) / each;
  for (std::int64_t m = 0; m < count; ++m)
    reader_.fill_documents(start_.first_sample + first_sequence(static_cast<std::int32_t>(m)), shape.micro_batch_size,
                           all.data() + m * each);
  documents_->write(0, std::as_bytes(std::span(all)));
}

KernelContext RankExecutor::context_of(const Instance& instance) const {
  KernelContext c = rank_context_;
  c.layer = instance.layer;
  c.seq_length = run_.plan.layer_seq_length(instance.layer);
  const std::int32_t micro_batch = std::max(instance.micro_batch, 0);
  c.first_sequence = first_sequence(micro_batch);
  if (documents_ != nullptr)
    c.documents = reinterpret_cast<const std::int32_t*>(documents_->address()) +
                  micro_batch * reader_.shape().micro_batch_size * reader_.shape().seq_length;
  return c;
}

// Context-parallel ranks with one dp coordinate share its sequences. So the dp axis counts, not the position in the data group.
std::int64_t RankExecutor::first_sequence(std::int32_t micro_batch) const {
  const auto global_micro_batch = micro_batch * run_.mesh.size(Axis::dp) + coords_[Axis::dp];
  return global_micro_batch * reader_.shape().micro_batch_size;
}

// Every micro-batch has its own slots (models/graph: StageMemory::ids), so all are filled before the step's first task.
void RankExecutor::fill_inputs() {
  for (const Instance& instance : program_.instances) {
    if (run_.inputs[instance.tmpl.index()].empty()) continue;
    context_ = context_of(instance);
    fill_inputs(instance);
  }
}

void RankExecutor::fill_inputs(const Instance& instance) {
  const auto& slots = run_.graph.of(instance).slots;
  for (const auto [slot, input] : run_.inputs[instance.tmpl.index()]) {
    const auto bytes = bytes_of(DType::int32, reader_.elements(input));
    const auto offset = program_.bindings[instance.binding + slot];
    require(slots[slot].bytes >= bytes, "a slot that the host fills is smaller than what a micro-batch has for it");
    require(offset >= 0 && offset + bytes.count() <= static_cast<std::int64_t>(parts_.arena->size()),
            "a slot that the host fills lies outside the arena");
    ids_.resize(static_cast<std::size_t>(reader_.elements(input)));
    reader_.fill(input, start_.first_sample + context_.first_sequence, ids_.data());
    parts_.backend->queue(Stream::compute).upload(parts_.arena->address() + offset, std::as_bytes(std::span(ids_)));
  }
}

void RankExecutor::issue(TaskRef ref) {
  const auto number = order_.number(ref);
  const auto stream = order_.task(ref).stream;
  issued_.emplace_back(ref.instance, ref.task);
  if (record_) stamps_[number].issued = now();
  if (reads_counts_) forget_written(order_.task(ref), program_.instances[ref.instance]);
  if (inline_stream(stream, how())) return execute(number, context_);
  workers_[static_cast<std::size_t>(stream)]->push(number);
}

void RankExecutor::execute(std::uint32_t number, const KernelContext& context) {
  const auto ref = order_.ref(number);
  const auto& task = order_.task(ref);
  const auto& instance = program_.instances[ref.instance];
  if (!board_.wait(order_.waits(number, how()))) throw Cancelled{};
  const bool computes = !is_communication(task.op);
  const bool queued = runs_ahead() && queues_->queued(number);
  if (runs_ahead() && !queued) queues_->meet(number);
  const auto ready = now();
  auto& mine = notes(task.stream);
  mine.order.emplace_back(ref.instance, ref.task);
  const Operands at = resolve(task, instance, mine);
  auto started = ready;
  if (computes) compute(number, at, context);
  else if (queued) issue_communication(number, at);
  else started = communicate(task, instance, at);
  if (record_) {
    auto& s = stamps_[number];
    s.ready = ready, s.started = std::max(ready, started), s.ended = now();
  }
  if (order_.awaited(number, how())) board_.complete(number);
}

// For a synchronous backend, complete() means that the task has ended; for an asynchronous one, that it is issued.
void RankExecutor::compute(std::uint32_t number, const Operands& at, const KernelContext& context) {
  const auto ref = order_.ref(number);
  const auto& task = order_.task(ref);
  Launch launch = launch_of(task, at, context);
  if (const auto counts = counted_rows(task.op); counts && runs_ahead() && parts_.backend->needs_rows())
    launch.rows = counts_of(number, at.in[*counts]);
  auto& queue = parts_.backend->queue(task.stream);
  const auto run = [&](Queue& q) {
    q.run(launch);
    if (scored(task)) note_rows(task, program_.instances[ref.instance], at, q);  // before a later task can take their place
  };
  runs_ahead() ? queues_->issue(number, run) : run(queue);
  if (record_) note_routing(task, program_.instances[ref.instance], at);
}

TimePoint RankExecutor::communicate(const Task& task, const Instance& instance, const Operands& at) {
  auto& comm = *parts_.comm;
  const auto peer = [&](int offset) { return run_.mesh.stage_neighbour(parts_.rank, offset); };
  if (std::holds_alternative<Collective>(task.op)) return collect(task, instance, at);
  if (const auto* op = std::get_if<Send>(&task.op))
    return comm.send(at.in[0].address, bytes_of(op->dtype, op->elements).count(), peer(op->stage_offset),
                     sent(instance, op->stage_offset));
  const auto& op = std::get<Recv>(task.op);
  return comm.recv(at.out[0].address, bytes_of(op.dtype, op.elements).count(), peer(op.stage_offset),
                   received(instance, op.stage_offset));
}

bool RankExecutor::scored(const Task& task) const {
  return scores_ && coords_[Axis::tp] == 0 && std::holds_alternative<CrossEntropy>(task.op);
}

void RankExecutor::note_rows(const Task& task, const Instance& instance, const Operands& at, Queue& queue) {
  constexpr std::size_t kTargets = 3;
  const auto& op = std::get<CrossEntropy>(task.op);
  const Template& block = run_.graph.of(instance);
  const bool labels = !op.one_kernel && block.slots[task.inputs[kTargets].slot].name == "labels";
  const std::int64_t first = start_.first_sample + first_sequence(std::max(instance.micro_batch, 0));
  rows_.copy(op, at.in, {first, reader_.shape().micro_batch_size, labels}, queue);
}

/// Keeps the router's token counts of a recorded step. Recomputation gives the same counts, so only the forward pass is read.
void RankExecutor::note_routing(const Task& task, const Instance& instance, const Operands& at) {
  const auto* router = std::get_if<TopKRouter>(&task.op);
  if (router == nullptr || instance.phase != Phase::forward) return;
  const Tensor& counts = at.out[3];
  routing_.push_back({instance.layer, instance.micro_batch, std::vector<std::int32_t>(static_cast<std::size_t>(counts.elements))});
  parts_.backend->queue(task.stream).download(std::as_writable_bytes(std::span(routing_.back().counts)), counts.address);
}

// Each stream of a rank uses its own lane, so several threads may use one group.
TimePoint RankExecutor::collect(const Task& task, const Instance& instance, const Operands& at) {
  const auto& op = std::get<Collective>(task.op);
  const Participants participants{groups_[static_cast<std::size_t>(op.group)], static_cast<int>(task.stream)};
  const auto read = [&](const Tensor& tensor) { return read_ids(tensor); };
  return parts_.comm->run(op, participants, buffers_of(task, instance.layer, at, read));
}

void RankExecutor::issue_communication(std::uint32_t number, const Operands& at) {
  const Task& task = order_.task(order_.ref(number));
  const Instance& instance = program_.instances[order_.ref(number).instance];
  auto& comm = *parts_.comm;
  const auto peer = [&](int offset) { return run_.mesh.stage_neighbour(parts_.rank, offset); };
  const auto bytes = [](const auto& op) { return static_cast<std::size_t>(bytes_of(op.dtype, op.elements).count()); };
  if (const auto* op = std::get_if<Collective>(&task.op)) {
    const auto read = [&](const Tensor& tensor) { return counts_of(number, tensor); };
    const MemberBuffers mine = buffers_of(task, instance.layer, at, read);
    const Participants participants{groups_[static_cast<std::size_t>(op->group)], static_cast<int>(task.stream)};
    return queues_->issue(number, [&](Queue& q) { comm.issue(*op, participants, mine, q); });
  }
  if (const auto* op = std::get_if<Send>(&task.op))
    return queues_->issue(number, [&](Queue& q) {
      comm.issue_send({at.in[0].address, bytes(*op)}, peer(op->stage_offset), sent(instance, op->stage_offset), q);
    });
  const auto& op = std::get<Recv>(task.op);
  queues_->issue(number, [&](Queue& q) {
    comm.issue_recv({at.out[0].address, bytes(op)}, peer(op.stage_offset), received(instance, op.stage_offset), q);
  });
}

MemberBuffers RankExecutor::buffers_of(const Task& task, std::int32_t layer, const Operands& at, const Ids& ids) {
  const auto& op = std::get<Collective>(task.op);
  const auto& members = groups_[static_cast<std::size_t>(op.group)];
  MemberBuffers mine{at.in[0].address, at.out[0].address};
  if (members.size() > 1 && gathers_owned(task)) mine.owned = owned_.at(layer);
  auto& counts = notes(task.stream);
  if (op.row > 0) {
    counts.rows_sent = ids(at.in[1]);
    counts.rows_received = ids(at.in[task.inputs.size() - 1]);
    mine.rows = {counts.rows_sent.data(), counts.rows_received.data(),
                 task.inputs[1].elements / static_cast<std::int64_t>(members.size()), task.outputs[0].elements / op.row};
  }
  return mine;
}

const KnownCounts::Numbers& RankExecutor::counts_of(std::uint32_t number, const Tensor& tensor) {
  return counts_.of(tensor, [&] {
    queues_->meet(number);
    return read_ids(tensor);
  });
}

void RankExecutor::forget_written(const Task& task, const Instance& instance) {
  StreamNotes unused;
  for (const Operand& o : task.outputs) counts_.written(locate(o, instance, unused));
}

std::vector<std::int32_t> RankExecutor::read_ids(const Tensor& tensor) const {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tensor.elements));
  parts_.arena->read(static_cast<std::size_t>(tensor.address - parts_.arena->address()), std::as_writable_bytes(std::span(ids)));
  return ids;
}

RankExecutor::Operands RankExecutor::resolve(const Task& task, const Instance& instance, StreamNotes& notes) {
  require(task.inputs.size() <= Operands::kMost && task.outputs.size() <= Operands::kMost,
          "a task of more operands than any operation has");
  Operands at;
  for (std::size_t i = 0; i < task.inputs.size(); ++i) at.in[i] = locate(task.inputs[i], instance, notes);
  for (std::size_t i = 0; i < task.outputs.size(); ++i) at.out[i] = locate(task.outputs[i], instance, notes);
  if (const auto* copy = std::get_if<HostCopy>(&task.op)) (copy->to_host ? at.out : at.in)[0] = locate_on_host(task, instance);
  return at;
}

Tensor RankExecutor::locate_on_host(const Task& copy, const Instance& instance) const {
  const Template& of = run_.graph.of(instance);
  if (copies_activation(of, copy)) {
    const auto index = static_cast<std::uint32_t>(&instance - program_.instances.data());
    const auto task = static_cast<std::uint16_t>(&copy - of.tasks.data());
    const Operand& device = copy.inputs.empty() ? copy.outputs.front() : copy.inputs.front();
    return {parts_.activations->address() + on_host_.offset(index, task), device.dtype, device.elements};
  }
  const HostTensor& t = parts_.states->layout().host().of(copy, instance);
  return {parts_.states->host().address() + t.offset, t.dtype, t.elements};
}

Tensor RankExecutor::locate(const Operand& operand, const Instance& instance, StreamNotes& notes) {
  const auto place = operand.shards > 1 ? positions_[static_cast<std::size_t>(operand.shard_group)] : 0;
  require(operand.shards <= 1 || place < operand.shards, "an operand with fewer shares than its group has members");
  const auto offset = program_.bindings[instance.binding + operand.slot] + operand.offset + place * operand.stride;
  const auto end = offset + bytes_of(operand.dtype, operand.elements).count();
  require(offset >= 0 && end <= static_cast<std::int64_t>(parts_.arena->size()), "an operand outside the arena");
  notes.touched = std::max(notes.touched, end);
  return {parts_.arena->address() + offset, operand.dtype, operand.elements};
}

// A message goes to the next or previous virtual stage; after the last stage comes the first one's next chunk. There the two ends
// work on different chunks. So both name the message by the virtual stage that receives it.
MessageName RankExecutor::sent(const Instance& instance, int offset) const {
  const auto stages = run_.mesh.size(Axis::pp), stage = static_cast<std::int64_t>(coords_[Axis::pp]) + offset;
  if (instance.micro_batch < 0) return {tag(instance, (stage + stages) % stages), offset};
  return {tag(instance, instance.chunk * stages + stage), offset};
}

MessageName RankExecutor::received(const Instance& instance, int offset) const {
  const auto chunk = instance.micro_batch < 0 ? 0 : instance.chunk;
  return {tag(instance, chunk * run_.mesh.size(Axis::pp) + coords_[Axis::pp]), -offset};
}

// Both ends call it with the same micro-batch, phase and step.
std::int64_t RankExecutor::tag(const Instance& instance, std::int64_t virtual_stage) const {
  const auto micro_batch = (static_cast<std::int64_t>(start_.step) << 20) + instance.micro_batch + 1;
  return ((micro_batch << 16) + virtual_stage) * 8 + static_cast<std::int64_t>(instance.phase);
}

std::vector<std::string> RankExecutor::notes() const {
  std::vector<std::string> all = parts_.backend->notes();
  if (wants_replays_ && !replays_)
    all.emplace_back("training.cuda_graphs iteration is not performed: steps that communicate, or whose experts' rows the host reads, are "
                     "issued task by task");
  return all;
}

RankBooks RankExecutor::books() const {
  RankBooks books;
  books.backend = parts_.backend->counters();
  books.comm = parts_.comm->counters();
  books.arena_bytes = static_cast<std::int64_t>(parts_.arena->size());
  for (const Memory* host : {parts_.states ? &parts_.states->host() : nullptr, parts_.activations.get()})
    if (host != nullptr) books.host_arena_bytes += static_cast<std::int64_t>(host->size());
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
