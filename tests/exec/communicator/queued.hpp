#pragma once
// Communicators that put what they do on asynchronous queues of the CPU, as NCCL puts it on streams.

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "exec/communicator/communicator.hpp"
#include "exec/cpu/async/async_queue.hpp"
#include "exec/process/world.hpp"
#include "models/base/error.hpp"

namespace tandem::exec::tests {

class QueuedCommunicator final : public Communicator {
 public:
  explicit QueuedCommunicator(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}

  bool blocks() const override { return false; }
  TimePoint run(const Collective&, const Participants&, const MemberBuffers&) override { throw ContractError("it does not block"); }
  TimePoint send(const std::byte*, std::int64_t, Rank, const MessageName&) override { throw ContractError("it does not block"); }
  TimePoint recv(std::byte*, std::int64_t, Rank, const MessageName&) override { throw ContractError("it does not block"); }

  void issue(const Collective& op, const Participants& participants, const MemberBuffers& mine, Queue& queue) override {
    const auto entries = static_cast<std::ptrdiff_t>(mine.rows.each) * static_cast<std::ptrdiff_t>(participants.members.size());
    const auto kept = [&](const std::int32_t* counts) {
      return std::vector<std::int32_t>(counts, counts ? counts + entries : counts);
    };
    push(queue, [this, op, members = participants.members, lane = participants.lane, mine, sent = kept(mine.rows.sent),
                 received = kept(mine.rows.received)] {
      MemberBuffers at = mine;
      if (!sent.empty()) at.rows.sent = sent.data();
      if (!received.empty()) at.rows.received = received.data();
      inner_->run(op, {members, lane}, at);
    });
  }
  void issue_send(std::span<const std::byte> sent, Rank to, const MessageName& name, Queue& queue) override {
    push(queue, [this, sent, to, name] { inner_->send(sent.data(), static_cast<std::int64_t>(sent.size()), to, name); });
  }
  void issue_recv(std::span<std::byte> received, Rank from, const MessageName& name, Queue& queue) override {
    const auto bytes = static_cast<std::int64_t>(received.size());
    push(queue, [this, received, bytes, from, name] { inner_->recv(received.data(), bytes, from, name); });
  }
  void abort(const std::string& cause) override { inner_->abort(cause); }
  CommCounters counters() const override { return inner_->counters(); }

 private:
  static void push(Queue& queue, std::function<void()> work) { static_cast<cpu::AsyncQueue&>(queue).push_work(std::move(work)); }

  std::unique_ptr<Communicator> inner_;
};

inline std::vector<std::unique_ptr<Communicator>> make_queued_communicators(World& world) {
  std::vector<std::unique_ptr<Communicator>> all;
  for (auto& inner : world.make_communicators()) all.push_back(std::make_unique<QueuedCommunicator>(std::move(inner)));
  return all;
}

}  // namespace tandem::exec::tests
