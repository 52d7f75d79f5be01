#include "exec/communicator/thread_communicator.hpp"

#include <algorithm>
#include <exception>

#include "exec/communicator/call_text.hpp"
#include "exec/communicator/collective_share.hpp"
#include "exec/communicator/row_capacities.hpp"
#include "models/base/error.hpp"
#include "models/ops/collective.hpp"

namespace tandem::exec {
namespace {

/// Up to this many bytes over all members, the last rank to arrive does every share. That saves one of two wake-ups. The threshold
/// is about the number of bytes copied in the time of a wake-up.
constexpr std::int64_t kOneThreadBytes = 64 * 1024;

// Worked out from the call, not by the graph's visitors, because these counters check the graph's totals.
std::int64_t vector_bytes(const Collective& op) { return op.elements * bits(op.dtype) / 8; }

bool small(const Collective& op, std::size_t members) {
  return vector_bytes(op) * static_cast<std::int64_t>(members) <= kOneThreadBytes;
}

void require_alike(const CollectiveState& m, const std::vector<Rank>& members) {
  for (std::size_t i = 1; i < m.calls.size(); ++i)
    if (!alike(m.calls[0], m.calls[i]))
      throw CommError(mismatch(m.calls[0], members[0], m.calls[i], members[i]));
}

void hand_over(const Channel& c, Rank from, Rank to, MemoryEngine& engine) {
  const auto& [out, in] = c.ends;
  const MessageEnd sent{out.bytes, out.tag}, wanted{in.bytes, in.tag};
  if (sent != wanted) throw CommError(mismatch(sent, from, wanted, to));
  engine.copy(in.buffer, out.buffer, in.bytes);
  engine.finish();
}

std::span<std::int64_t> row(CollectiveState& m, std::size_t index) {
  return std::span(m.received).subspan(index * m.buffers.size(), m.buffers.size());
}

void share(CollectiveState& m, std::size_t index, MemoryEngine& engine) {
  const auto received = row(m, index);
  std::fill(received.begin(), received.end(), 0);
  perform_share({m.calls[index], m.buffers, engine}, index, received);
}

std::int64_t received_by(CollectiveState& m, std::size_t index) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < m.buffers.size(); ++i) sum += row(m, i)[index];
  return sum;
}

std::size_t index_of(Rank rank, const std::vector<Rank>& members) {
  const auto at = std::find(members.begin(), members.end(), rank);
  require(at != members.end(), "a rank entered a collective of a group that it is not in");
  return static_cast<std::size_t>(at - members.begin());
}

}  // namespace

CollectiveState& ThreadWorld::collective_state(Group group, const Participants& participants) {
  std::lock_guard lock(mutex_);
  throw_if_aborted();
  const std::vector<Rank>& members = participants.members;
  return collective_states_.try_emplace({group, participants.lane, members}, members.size()).first->second;
}

Channel& ThreadWorld::channel(Rank from, Rank to, int way) {
  require(to.value() >= 0 && to.value() < size_ && from.value() >= 0 && from.value() < size_ && from != to,
          "a message needs two different ranks of the world");
  std::lock_guard lock(mutex_);
  throw_if_aborted();
  return channels_[{from, to, way}];
}

void ThreadWorld::abort(Rank rank, const std::string& cause) {
  std::lock_guard lock(mutex_);
  if (!cause_.empty()) return;
  cause_ = rank_text(rank) + " failed: " + cause;
  for (auto& [key, state] : collective_states_) state.place.abort();
  for (auto& [key, channel] : channels_) channel.place.abort();
}

void ThreadWorld::throw_if_aborted() const {
  if (!cause_.empty()) throw CommError(cause_);
}

void ThreadWorld::throw_aborted() {
  std::lock_guard lock(mutex_);
  throw CommError(cause_);
}

// The last rank to arrive detects a mismatch and aborts. So all ranks throw the same cause.
template <class WhenFull>
TimePoint ThreadCommunicator::arrive(Rendezvous& place, WhenFull&& when_full) {
  try {
    if (const auto full = place.arrive(when_full)) return *full;
  } catch (const CommError& mismatch) {
    world_->abort(rank_, mismatch.what());
  }
  world_->throw_aborted();
}

TimePoint ThreadCommunicator::run(const Collective& op, const Participants& participants, const MemberBuffers& mine) {
  const auto& members = participants.members;
  require_exchangeable(op, members.size());
  const auto index = index_of(rank_, members);
  auto& state = world_->collective_state(op.group, participants);
  state.calls[index] = op;
  state.buffers[index] = mine;
  require_placed({op, state.buffers}, index);
  const auto full = arrive(state.place, [&] {
    require_alike(state, members);
    if (op.row > 0) require_capacities({op, state.buffers, world_->engine()}, members);
    if (small(op, members.size()))
      for (std::size_t i = 0; i < members.size(); ++i) share(state, i, world_->engine());
  });
  if (!small(op, members.size())) {
    std::exception_ptr failed;  // thrown after the last meeting, which the others cannot leave without this rank
    try {
      share(state, index, world_->engine());
    } catch (...) {
      failed = std::current_exception();
    }
    state.place.meet();
    if (failed) std::rethrow_exception(failed);
  }
  count(op, received_by(state, index));
  return full;
}

void ThreadCommunicator::count(const Collective& op, std::int64_t received) {
  std::lock_guard lock(counters_mutex_);
  auto& line = counters_.collectives[{op.kind, op.group}];
  ++line.calls;
  line.payload_bytes += vector_bytes(op);
  line.received_bytes += received;
}

TimePoint ThreadCommunicator::meet_peer(Channel& channel, std::pair<Rank, Rank> ends, const Channel::End& mine) {
  channel.ends[rank_ == ends.first ? 0 : 1] = mine;
  return arrive(channel.place, [&] { hand_over(channel, ends.first, ends.second, world_->engine()); });
}

TimePoint ThreadCommunicator::send(const std::byte* buffer, std::int64_t bytes, Rank to, const MessageName& name) {
  // Only the receiver's end is written through. const is dropped because both ends share one type.
  const auto full = meet_peer(world_->channel(rank_, to, name.way), {rank_, to},
                              {const_cast<std::byte*>(buffer), bytes, name.tag});
  std::lock_guard lock(counters_mutex_);
  ++counters_.sends;
  counters_.sent_bytes += bytes;
  return full;
}

TimePoint ThreadCommunicator::recv(std::byte* buffer, std::int64_t bytes, Rank from, const MessageName& name) {
  return meet_peer(world_->channel(from, rank_, name.way), {from, rank_}, {buffer, bytes, name.tag});
}

CommCounters ThreadCommunicator::counters() const {
  std::lock_guard lock(counters_mutex_);
  return counters_;
}

std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int world, MemoryEngine& engine) {
  const auto shared = std::make_shared<ThreadWorld>(world, engine);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int r = 0; r < world; ++r) ranks.push_back(std::make_unique<ThreadCommunicator>(shared, Rank(r)));
  return ranks;
}

}  // namespace tandem::exec
