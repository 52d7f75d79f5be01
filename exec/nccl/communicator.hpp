#pragma once
// A communicator of one rank over NCCL. It enqueues its calls on the streams of the rank's CUDA backend.

#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "exec/communicator/routes.hpp"
#include "exec/cuda/device_queue.hpp"
#include "exec/nccl/connections.hpp"
#include "exec/nccl/nccl.hpp"
#include "exec/nccl/pending.hpp"
#include "models/base/threads.hpp"

namespace tandem::exec::nccl {

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(World& world, Rank rank, const NcclOptions& options);
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  void prepare(const Lines& lines, const Mesh& mesh) override;
  bool blocks() const override { return false; }
  TimePoint run(const Collective& op, const Participants& participants, const MemberBuffers& mine) override;
  TimePoint send(const std::byte* buffer, std::int64_t bytes, Rank to, const MessageName& name) override;
  TimePoint recv(std::byte* buffer, std::int64_t bytes, Rank from, const MessageName& name) override;
  void issue(const Collective& op, const Participants& participants, const MemberBuffers& mine, Queue& queue) override;
  void issue_send(std::span<const std::byte> sent, Rank to, const MessageName& name, Queue& queue) override;
  void issue_recv(std::span<std::byte> received, Rank from, const MessageName& name, Queue& queue) override;
  void require_whole() const override { connections_->require_whole(); }
  void abort(const std::string& cause) override { connections_->abort(cause); }
  CommCounters counters() const override;

 private:
  /// For one group and lane: the NCCL communicator, and memory for the parts of a reduction.
  struct Line {
    ncclComm_t comm = nullptr;
    cuda::Buffer room;
  };
  struct Call {
    const Exchange& exchange;
    std::size_t index;
    Line& line;
    cudaStream_t stream;
  };

  void connect_group(const std::pair<Group, int>& key, std::int64_t room, const Mesh& mesh);
  void connect_messages(int way, const Lines& lines, const Mesh& mesh);
  /// The first message between two ranks connects them, which blocks. So this sends one between all of them in advance.
  void warm(ncclComm_t comm, int members);
  /// True if NCCL's own collective may be used: its bits equal those of threads, or different bits are allowed.
  bool by_library(const Collective& op) const;
  void perform_by_library(const Call& call);
  void perform_by_messages(const Call& call);
  void move(const Routes& routes, const Call& call);
  void watch();
  void count(const Collective& op, std::int64_t received);

  World& world_;
  const Rank rank_;
  const NcclOptions options_;
  const std::shared_ptr<Connections> connections_ = std::make_shared<Connections>();
  Pending pending_;
  ncclComm_t whole_ = nullptr;
  std::map<std::pair<Group, int>, Line> groups_;             ///< by group and lane
  std::map<std::pair<int, Rank>, ncclComm_t> messages_;      ///< by way and sender; sender is rank 0, receiver rank 1
  cuda::Stream stream_;                                      ///< for setting up connections
  mutable std::mutex mutex_;
  CommCounters counters_;
  std::condition_variable ending_;
  bool ends_ = false;
  ThreadGroup watcher_;
};

}  // namespace tandem::exec::nccl
