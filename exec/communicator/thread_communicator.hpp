#pragma once
// Communicators of ranks that are threads of one process. They access each other's buffers directly.

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "exec/communicator/collective_share.hpp"
#include "exec/communicator/communicator.hpp"
#include "exec/communicator/rendezvous.hpp"

namespace tandem::exec {

/// State of a group's collectives on one lane. Member i of `size` owns entry i, and row i of `received`.
struct CollectiveState {
  explicit CollectiveState(std::size_t size) : place(size), calls(size), buffers(size), received(size * size) {}
  Rendezvous place;
  std::vector<Collective> calls;
  std::vector<MemberBuffers> buffers;
  std::vector<std::int64_t> received;  ///< [member that did the share][member that received]
};

/// A one-way connection between two ranks. Entry 0 is the sender's, entry 1 the receiver's.
struct Channel {
  struct End { std::byte* buffer = nullptr; std::int64_t bytes = 0, tag = 0; };
  Rendezvous place{2};
  End ends[2];
};

/// State shared by the ranks of one process.
class ThreadWorld {
 public:
  explicit ThreadWorld(int size, MemoryEngine& engine = host_engine()) : size_(size), engine_(engine) {}
  int size() const { return size_; }
  MemoryEngine& engine() const { return engine_; }
  /// Both throw CommError after an abort.
  CollectiveState& collective_state(Group group, const Participants& participants);
  Channel& channel(Rank from, Rank to, int way);
  void abort(Rank rank, const std::string& cause);
  [[noreturn]] void throw_aborted();

 private:
  void throw_if_aborted() const;

  const int size_;
  MemoryEngine& engine_;
  std::mutex mutex_;
  std::string cause_;  ///< empty: no rank failed
  std::map<std::tuple<Group, int, std::vector<Rank>>, CollectiveState> collective_states_;
  std::map<std::tuple<Rank, Rank, int>, Channel> channels_;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadWorld> world, Rank rank) : world_(std::move(world)), rank_(rank) {}
  using Communicator::run;
  TimePoint run(const Collective& op, const Participants& participants, const MemberBuffers& mine) override;
  TimePoint send(const std::byte* buffer, std::int64_t bytes, Rank to, const MessageName& name) override;
  TimePoint recv(std::byte* buffer, std::int64_t bytes, Rank from, const MessageName& name) override;
  void abort(const std::string& cause) override { world_->abort(rank_, cause); }
  CommCounters counters() const override;

 private:
  TimePoint meet_peer(Channel& channel, std::pair<Rank, Rank> ends, const Channel::End& mine);
  template <class WhenFull>
  TimePoint arrive(Rendezvous& place, WhenFull&& when_full);
  void count(const Collective& op, std::int64_t received);

  std::shared_ptr<ThreadWorld> world_;
  const Rank rank_;
  mutable std::mutex counters_mutex_;
  CommCounters counters_;
};

}  // namespace tandem::exec
