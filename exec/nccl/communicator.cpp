#include "exec/nccl/communicator.hpp"

#include <algorithm>
#include <chrono>
#include <exception>

#include "exec/communicator/call_text.hpp"
#include "exec/communicator/slices.hpp"
#include "exec/cuda/device_engine.hpp"
#include "exec/device/fold.hpp"
#include "exec/nccl/pairs.hpp"
#include "models/base/error.hpp"

namespace tandem::exec::nccl {
namespace {

using namespace std::chrono_literals;

constexpr auto kLook = 100ms;      // interval between checks of calls and errors
constexpr auto kPatience = 3'000ms;  // time for the watch to name the dead process before NCCL's own error is reported

cudaStream_t stream_of(Queue& queue) { return static_cast<cuda::DeviceQueue&>(queue).stream(); }

std::vector<Rank> others_of(const std::vector<Rank>& members, Rank rank) {
  std::vector<Rank> others;
  std::copy_if(members.begin(), members.end(), std::back_inserter(others), [&](Rank r) { return r != rank; });
  return others;
}

std::int64_t received_by(const MessageSteps& way, std::size_t index) {
  std::int64_t bytes = 0;
  for (std::size_t j = 0; j < way.first.take.size(); ++j)
    if (j != index) bytes += static_cast<std::int64_t>(way.first.take[j].size() + way.second.take[j].size());
  return bytes;
}

[[noreturn]] void refuse_blocking() { throw ContractError("NCCL's communicator issues to queues"); }

}  // namespace

NcclCommunicator::NcclCommunicator(World& world, Rank rank, const NcclOptions& options)
    : world_(world), rank_(rank), options_(options), pending_(world.arrivals()) {
  world_.at_abort([left = std::weak_ptr(connections_)](const std::string& cause) {
    if (const auto connections = left.lock()) connections->abort(cause);
  });
}

NcclCommunicator::~NcclCommunicator() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ending_.notify_all();
}

TimePoint NcclCommunicator::run(const Collective&, const Participants&, const MemberBuffers&) { refuse_blocking(); }
TimePoint NcclCommunicator::send(const std::byte*, std::int64_t, Rank, const MessageName&) { refuse_blocking(); }
TimePoint NcclCommunicator::recv(std::byte*, std::int64_t, Rank, const MessageName&) { refuse_blocking(); }

// ---- connecting ----

void NcclCommunicator::prepare(const Lines& lines, const Mesh& mesh) {
  whole_ = connections_->join(world_.control(), rank_, static_cast<int>(mesh.world_size()));
  watcher_.start([this] { watch(); });
  warm(whole_, static_cast<int>(mesh.world_size()));
  for (const auto& [key, room] : lines.groups) connect_group(key, room, mesh);
  std::set<int> ways;
  for (const auto& [way, sender] : lines.messages) ways.insert(way);
  for (const int way : ways) connect_messages(way, lines, mesh);
}

void NcclCommunicator::connect_group(const std::pair<Group, int>& key, std::int64_t room, const Mesh& mesh) {
  if (mesh.group_size(key.first) == 1) return;
  if (options_.deterministic && room > 0 && mesh.group_size(key.first) > device::kMostMembers)
    throw InfeasibleError(Problem{"", "training.deterministic", "true",
                                  "a fold on the device has at most " + std::to_string(device::kMostMembers) + " parts, and group " +
                                      std::string(name(key.first)) + " has " + std::to_string(mesh.group_size(key.first)) + " ranks",
                                  "set it to false, and NCCL adds up, or use --comm staged"});
  const auto members = mesh.members(key.first, rank_);
  const bool joins = members.size() > 1;
  const int place = static_cast<int>(std::find(members.begin(), members.end(), rank_) - members.begin());
  Line& line = groups_[key];
  line.comm = connections_->split(whole_, joins ? members.front().value() : NCCL_SPLIT_NOCOLOR, place);
  if (!joins) return;
  if (room > 0) line.room = cuda::Buffer(static_cast<std::size_t>(room));
  warm(line.comm, static_cast<int>(members.size()));
}

void NcclCommunicator::connect_messages(int way, const Lines& lines, const Mesh& mesh) {
  const std::int64_t stages = mesh.size(Axis::pp), mine = mesh.coords(rank_)[Axis::pp];
  const std::int64_t before = sender_to(mine, way, stages);
  const auto sends = [&](std::int64_t stage, int c) {
    return pair_class(stage, stages) == c && lines.messages.contains({way, static_cast<int>(stage)});
  };
  for (int c = 0; c < kPairClasses; ++c) {
    const bool gives = sends(mine, c), takes = !gives && sends(before, c);
    const Rank sender = gives ? rank_ : mesh.stage_neighbour(rank_, -way);
    const ncclComm_t comm = connections_->split(whole_, gives || takes ? sender.value() : NCCL_SPLIT_NOCOLOR, takes ? 1 : 0);
    if (comm == nullptr) continue;
    messages_[{way, sender}] = comm;
    warm(comm, 2);
  }
}

void NcclCommunicator::warm(ncclComm_t comm, int members) {
  cuda::Buffer bytes(static_cast<std::size_t>(members) + 2 * sizeof(float));
  cuda::check(cudaMemsetAsync(bytes.data(), 0, bytes.size(), stream_), "clearing memory");
  std::byte* const sum = bytes.data();
  connections_->group(comm, [&](const Api& nccl) {
    connections_->require_well(nccl.AllReduce(sum, sum, 1, ncclFloat32, ncclSum, comm, stream_), comm);
  });
  connections_->group(comm, [&](const Api& nccl) {
    for (int j = 0; j < members; ++j) {
      connections_->require_well(nccl.Send(sum, 1, ncclUint8, j, comm, stream_), comm);
      connections_->require_well(nccl.Recv(sum + 2 * sizeof(float) + j, 1, ncclUint8, j, comm, stream_), comm);
    }
  });
  connections_->drain(stream_);
}

// ---- collectives ----

bool NcclCommunicator::by_library(const Collective& op) const {
  if (op.row > 0) return false;
  switch (op.kind) {
    case CollectiveKind::all_gather: case CollectiveKind::broadcast: return true;
    case CollectiveKind::all_reduce: case CollectiveKind::reduce_scatter: return !options_.deterministic || whole_numbers(op.dtype);
    case CollectiveKind::all_to_all: case CollectiveKind::shift: break;
  }
  return false;
}

void NcclCommunicator::issue(const Collective& op, const Participants& participants, const MemberBuffers& mine, Queue& queue) {
  require_exchangeable(op, participants.members.size());
  const std::vector<Rank>& members = participants.members;
  const auto index = static_cast<std::size_t>(std::find(members.begin(), members.end(), rank_) - members.begin());
  require(index < members.size(), "a rank entered a collective of a group that it is not in");
  std::vector<MemberBuffers> buffers(members.size());
  buffers[index] = mine;
  const Exchange exchange{op, buffers};
  require_placed(exchange, index);
  Line alone;
  Line& line = members.size() == 1 ? alone : groups_.at({op.group, participants.lane});
  const Call call{exchange, index, line, stream_of(queue)};
  by_library(op) && mine.owned.empty() && members.size() > 1 ? perform_by_library(call) : perform_by_messages(call);
  if (members.size() > 1)
    pending_.add(call.stream, {rank_, 0, others_of(members, rank_), describe(op) + " on group " + std::string(name(op.group))});
}

void NcclCommunicator::perform_by_library(const Call& call) {
  const Collective& op = call.exchange.op;
  const MemberBuffers& mine = call.exchange.members[call.index];
  const ncclComm_t comm = call.line.comm;
  const auto n = static_cast<std::int64_t>(call.exchange.members.size());
  const auto all = static_cast<std::size_t>(op.elements), bytes = all * static_cast<std::size_t>(element_bytes(op.dtype));
  const auto ranks = static_cast<std::size_t>(n);
  if (all == 0) return;
  const auto perform = [&](const Api& nccl) {
    switch (op.kind) {
      case CollectiveKind::all_reduce:
        return nccl.AllReduce(mine.in, mine.out, all, type_of(op.dtype), operation_of(op.reduce), comm, call.stream);
      case CollectiveKind::reduce_scatter:
        return nccl.ReduceScatter(mine.in, mine.out, all / ranks, type_of(op.dtype), operation_of(op.reduce), comm, call.stream);
      case CollectiveKind::all_gather:
        return nccl.AllGather(mine.in, mine.out, bytes / ranks, ncclUint8, comm, call.stream);
      default: return nccl.Broadcast(mine.in, mine.out, bytes, ncclUint8, 0, comm, call.stream);
    }
  };
  connections_->group(comm, [&](const Api& nccl) { connections_->require_well(perform(nccl), comm); });
  // Counted as a ring receives it. NCCL may use other algorithms but does not report which.
  const auto share = static_cast<std::int64_t>(bytes) * (n - 1) / n;
  const bool twice = op.kind == CollectiveKind::all_reduce, whole = op.kind == CollectiveKind::broadcast;
  count(op, twice ? 2 * share : whole ? static_cast<std::int64_t>(bytes) : share);
}

void NcclCommunicator::perform_by_messages(const Call& call) {
  const MessageSteps way = message_steps(call.exchange, call.index, [&](std::size_t bytes) {
    if (call.line.comm != nullptr) require(bytes <= call.line.room.size(), "a fold of more bytes than were foreseen");
    return call.line.room.data();
  });
  cuda::StreamEngine engine(call.stream);
  perform(way.pack, engine);
  move(way.first, call);
  copy_own(way, call.index, engine);
  if (way.folds) fold(way, call.exchange.op, call.index, engine);
  move(way.second, call);
  perform(way.unpack, engine);
  count(call.exchange.op, received_by(way, call.index));
}

void NcclCommunicator::move(const Routes& routes, const Call& call) {
  const auto moves = [&](std::size_t j) { return j != call.index && (!routes.give[j].empty() || !routes.take[j].empty()); };
  bool any = false;
  for (std::size_t j = 0; j < routes.give.size(); ++j) any = any || moves(j);
  if (!any) return;
  const ncclComm_t comm = call.line.comm;
  connections_->group(comm, [&](const Api& nccl) {
    for (std::size_t j = 0; j < routes.give.size(); ++j) {
      if (!moves(j)) continue;
      const auto give = routes.give[j];
      const auto take = routes.take[j];
      const int peer = static_cast<int>(j);
      if (!give.empty()) connections_->require_well(nccl.Send(give.data(), give.size(), ncclUint8, peer, comm, call.stream), comm);
      if (!take.empty()) connections_->require_well(nccl.Recv(take.data(), take.size(), ncclUint8, peer, comm, call.stream), comm);
    }
  });
}

// ---- messages ----

void NcclCommunicator::issue_send(std::span<const std::byte> sent, Rank to, const MessageName& name, Queue& queue) {
  const ncclComm_t comm = messages_.at({name.way, rank_});
  const cudaStream_t stream = stream_of(queue);
  if (!sent.empty())
    connections_->group(comm, [&](const Api& nccl) {
      connections_->require_well(nccl.Send(sent.data(), sent.size(), ncclUint8, 1, comm, stream), comm);
    });
  pending_.add(stream, {rank_, 0, {to}, "a send of " + std::to_string(sent.size()) + " bytes to " + rank_text(to)});
  const std::lock_guard lock(mutex_);
  ++counters_.sends;
  counters_.sent_bytes += static_cast<std::int64_t>(sent.size());
}

void NcclCommunicator::issue_recv(std::span<std::byte> received, Rank from, const MessageName& name, Queue& queue) {
  const ncclComm_t comm = messages_.at({name.way, from});
  const cudaStream_t stream = stream_of(queue);
  if (!received.empty())
    connections_->group(comm, [&](const Api& nccl) {
      connections_->require_well(nccl.Recv(received.data(), received.size(), ncclUint8, 0, comm, stream), comm);
    });
  pending_.add(stream, {rank_, 0, {from}, "a receive of " + std::to_string(received.size()) + " bytes from " + rank_text(from)});
}

// ---- watching ----

// NCCL's error counts only while a call waits. A peer that has ended its run also closes its connections.
void NcclCommunicator::watch() {
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_well = Clock::now();
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, kLook, [&] { return ends_; })) {
    lock.unlock();
    std::string error;
    try {
      if (pending_.look()) error = connections_->error();
    } catch (const std::exception& e) {  // after a fault of the device nothing can be asked of it; peers must not wait for this rank
      return connections_->abort(e.what());
    }
    if (error.empty()) last_well = Clock::now();
    else if (Clock::now() - last_well > kPatience) connections_->abort(error);
    lock.lock();
  }
}

void NcclCommunicator::count(const Collective& op, std::int64_t received) {
  const std::lock_guard lock(mutex_);
  auto& line = counters_.collectives[{op.kind, op.group}];
  ++line.calls;
  line.payload_bytes += op.elements * bits(op.dtype) / 8;
  line.received_bytes += received;
}

CommCounters NcclCommunicator::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace tandem::exec::nccl

namespace tandem::exec {

void require_nccl(const std::string& file) { const nccl::Api tried(file); }

std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(World& world, const NcclOptions& options) {
  const auto here = world.here();
  if (here.size() != 1)
    throw InfeasibleError(Problem{"", "--comm", "nccl", "this process has " + std::to_string(here.size()) +
                                  " ranks, and NCCL wants a device for each", "start a process for each rank, or use --comm staged"});
  std::vector<std::unique_ptr<Communicator>> all;
  all.push_back(std::make_unique<nccl::NcclCommunicator>(world, here.front(), options));
  return all;
}

}  // namespace tandem::exec
