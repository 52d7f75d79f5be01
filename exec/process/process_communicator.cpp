#include "exec/process/process_communicator.hpp"

#include <algorithm>
#include <iterator>
#include <list>
#include <map>
#include <mutex>

#include "exec/communicator/call_text.hpp"
#include "exec/communicator/routes.hpp"
#include "exec/communicator/thread_communicator.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

// Channels: collectives by lane and group, then messages by way.
constexpr int kMostLanes = 6, kMostWay = 6;
constexpr std::uint32_t kGroupChannels = 1, kWayChannels = kGroupChannels + kMostLanes * kGroups;
static_assert(kWayChannels + 2 * kMostWay <= 127);
/// Added to the channel of a message when its receiver announces itself. Two ranks may send to each other in one way: the stages of
/// an interleaved pipeline of two.
constexpr std::uint32_t kReceivers = 128;

std::uint32_t channel_of(int lane, Group group) {
  require(0 <= lane && lane < kMostLanes, "a lane beyond those that messages between processes have");
  return kGroupChannels + static_cast<std::uint32_t>(static_cast<std::size_t>(lane) * kGroups + static_cast<std::size_t>(group));
}

std::uint32_t way_channel(int way) {
  require(-kMostWay < way && way < kMostWay, "a way beyond those that messages between processes have");
  return kWayChannels + static_cast<std::uint32_t>(way + kMostWay);
}

std::string call_text(const Collective& op) { return describe(op) + " on group " + std::string(name(op.group)); }

std::string send_text(std::int64_t bytes, Rank to) {
  return "a send of " + std::to_string(bytes) + " bytes to " + rank_text(to);
}
std::string receive_text(std::int64_t bytes, Rank from) {
  return "a receive of " + std::to_string(bytes) + " bytes from " + rank_text(from);
}

/// Most bytes of parts that a member receives at once for a reduction. It bounds a channel's memory.
constexpr std::size_t kRoomBytes = std::size_t{16} << 20;

std::size_t window_of_members(std::size_t members) {
  constexpr std::size_t kLeast = std::size_t{64} << 10;  // a multiple of every element size, and no tiny messages
  return std::max(kLeast, kRoomBytes / members / kLeast * kLeast);
}

/// The transfers of one call. wait() blocks until all of them are complete.
class Traffic {
 public:
  explicit Traffic(const Exchanges& e) : e_(e) {}
  ~Traffic() {
    for (const auto& t : told_) try {  // the carrier reads frames_ until then
        t->wait();
      } catch (const CommError&) {
      }
  }
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  void send(Rank from, Rank to, std::uint32_t channel, std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    const Tag tag = payload_tag(e_.places, from, to, channel);
    transfers_.push_back(here(to) ? e_.mail.send(tag, bytes) : e_.carrier.send(e_.places.process_of(to), tag, bytes));
  }
  void receive(Rank from, Rank to, std::uint32_t channel, std::span<std::byte> bytes) {
    if (bytes.empty()) return;
    const Tag tag = payload_tag(e_.places, from, to, channel);
    transfers_.push_back(here(from) ? e_.mail.receive(tag, bytes) : e_.carrier.receive(e_.places.process_of(from), tag, bytes));
  }
  void tell(const Frame& f) {
    if (here(Rank(f.to))) return e_.arrivals.deposit(Rank(f.from), Rank(f.to), f.channel, {f.at, f.call});
    frames_.push_back(f);
    const auto bytes = std::as_bytes(std::span(&frames_.back(), 1));
    told_.push_back(e_.carrier.send(e_.places.process_of(Rank(f.to)), kFrameTag, bytes));
  }
  void wait(const Waiting& waiting) {
    const Arrivals::Moving moving(e_.arrivals, waiting);
    for (auto* some : {&told_, &transfers_}) {
      for (const auto& t : *some) t->wait();
      some->clear();
    }
  }

 private:
  bool here(Rank r) const { return e_.places.process_of(r) == e_.carrier.process(); }

  const Exchanges& e_;
  std::list<Frame> frames_;
  std::vector<std::unique_ptr<Transfer>> told_, transfers_;
};

class ProcessCommunicator final : public Communicator {
 public:
  ProcessCommunicator(const Exchanges& exchanges, Rank rank, std::unique_ptr<Communicator> among_threads)
      : e_(exchanges), rank_(rank), threads_(std::move(among_threads)) {}
  using Communicator::run;

  TimePoint run(const Collective& op, const Participants& participants, const MemberBuffers& mine) override {
    const auto& members = participants.members;
    if (std::all_of(members.begin(), members.end(), [&](Rank r) { return here(r); })) return threads_->run(op, participants, mine);
    require_exchangeable(op, members.size());
    const auto index = static_cast<std::size_t>(std::find(members.begin(), members.end(), rank_) - members.begin());
    require(index < members.size(), "a rank entered a collective of a group that it is not in");
    std::vector<MemberBuffers> buffers(members.size());
    buffers[index] = mine;
    require_placed({op, buffers}, index);
    return exchange({op, buffers}, participants, index);
  }

  TimePoint send(const std::byte* buffer, std::int64_t bytes, Rank to, const MessageName& name) override {
    if (here(to)) return threads_->send(buffer, bytes, to, name);
    Traffic traffic(e_);
    const std::int64_t here_at = announce(traffic, to, way_channel(name.way), message(bytes, name));
    traffic.send(rank_, to, way_channel(name.way), {buffer, static_cast<std::size_t>(bytes)});
    const Arrival peer = meet(to, way_channel(name.way) + kReceivers, send_text(bytes, to));
    require_same({bytes, name.tag}, rank_, end_of(peer), to);
    traffic.wait({rank_, 0, {to}, send_text(bytes, to)});
    const std::lock_guard lock(mutex_);
    ++counters_.sends;
    counters_.sent_bytes += bytes;
    return e_.clock.here(std::max(here_at, peer.at));
  }

  TimePoint recv(std::byte* buffer, std::int64_t bytes, Rank from, const MessageName& name) override {
    if (here(from)) return threads_->recv(buffer, bytes, from, name);
    Traffic traffic(e_);
    const std::int64_t here_at = announce(traffic, from, way_channel(name.way) + kReceivers, message(bytes, name));
    const Arrival peer = meet(from, way_channel(name.way), receive_text(bytes, from));
    require_same(end_of(peer), from, {bytes, name.tag}, rank_);
    traffic.receive(from, rank_, way_channel(name.way), {buffer, static_cast<std::size_t>(bytes)});
    traffic.wait({rank_, 0, {from}, receive_text(bytes, from)});
    return e_.clock.here(std::max(here_at, peer.at));
  }

  void abort(const std::string& cause) override {
    if (!e_.arrivals.stopping()) {  // else calls for which all ranks have come still end
      e_.mail.abort(cause);
      e_.arrivals.abort(cause);
    }
    threads_->abort(cause);
  }

  CommCounters counters() const override {
    CommCounters all = threads_->counters();
    const std::lock_guard lock(mutex_);
    for (const auto& [key, line] : counters_.collectives) {
      auto& sum = all.collectives[key];
      sum.calls += line.calls, sum.payload_bytes += line.payload_bytes, sum.received_bytes += line.received_bytes;
    }
    all.sends += counters_.sends;
    all.sent_bytes += counters_.sent_bytes;
    return all;
  }

 private:
  bool here(Rank r) const { return e_.places.process_of(r) == e_.carrier.process(); }

  static CallName message(std::int64_t bytes, const MessageName& name) {
    CallName call;
    call.op.elements = bytes;
    call.tag = name.tag;
    call.message = true;
    return call;
  }
  static MessageEnd end_of(const Arrival& a) { return {a.call.op.elements, a.call.tag}; }
  static void require_same(const MessageEnd& sent, Rank from, const MessageEnd& wanted, Rank to) {
    if (sent != wanted) throw CommError(mismatch(sent, from, wanted, to));
  }

  std::int64_t tell(Traffic& traffic, Rank to, std::uint32_t channel, const CallName& call) const {
    Frame f(Frame::Kind::arrival);
    f.from = rank_.value(), f.to = to.value(), f.channel = channel;
    f.at = e_.clock.now(), f.call = call;
    traffic.tell(f);
    return f.at;
  }

  std::int64_t announce(Traffic& traffic, Rank to, std::uint32_t channel, const CallName& call) const {
    std::int64_t at = 0;
    e_.arrivals.announce([&] { at = tell(traffic, to, channel, call); });
    return at;
  }

  Arrival meet(Rank other, std::uint32_t channel, const std::string& text) const {
    return e_.arrivals.wait({rank_, channel, {other}, text}).front();
  }

  TimePoint exchange(const Exchange& x, const Participants& participants, std::size_t index) {
    const std::uint32_t channel = channel_of(participants.lane, x.op.group);
    std::vector<std::byte>& room = room_of(channel);
    const auto grown = [&](std::size_t bytes) {
      if (room.size() < bytes) room.resize(bytes);
      return room.data();
    };
    const std::size_t window = window_of_members(participants.members.size());
    const MessageSteps way = message_steps(x, index, grown, window);
    perform(way.pack);
    Traffic traffic(e_);
    const std::int64_t last = gather_members(traffic, x, participants, way);
    const Waiting waiting{rank_, channel, others_of(participants), call_text(x.op)};
    if (way.folds) {
      for (std::size_t first = 0; first < longest(way); first += window) {
        const MessageSteps part = window_of(way, first, window);
        move(traffic, part.first, participants, channel);
        traffic.wait(waiting);
        if (!part.own.empty()) fold(part, x.op, index);
      }
    } else {
      move(traffic, way.first, participants, channel);
      copy_own(way, index);
      traffic.wait(waiting);
    }
    move(traffic, way.second, participants, channel);
    traffic.wait(waiting);
    perform(way.unpack);
    count(x.op, way, index);
    return e_.clock.here(last);
  }

  /// Length in bytes of the longest part that the member sends or reduces.
  static std::size_t longest(const MessageSteps& way) {
    std::size_t most = way.own.size();
    for (const auto& give : way.first.give) most = std::max(most, give.size());
    return most;
  }

  std::vector<Rank> others_of(const Participants& participants) const {
    std::vector<Rank> others;
    std::copy_if(participants.members.begin(), participants.members.end(), std::back_inserter(others),
                 [&](Rank r) { return r != rank_; });
    return others;
  }

  /// Blocks until all members have arrived. Returns the time of the last arrival.
  std::int64_t gather_members(Traffic& traffic, const Exchange& x, const Participants& participants,
                              const MessageSteps& way) const {
    const std::uint32_t channel = channel_of(participants.lane, x.op.group);
    const std::vector<Rank> others = others_of(participants);
    std::int64_t last = 0;
    e_.arrivals.announce([&] {
      for (std::size_t j = 0; j < participants.members.size(); ++j) {
        if (participants.members[j] == rank_) continue;
        // The tag carries the number of bytes for the peer. With row counts both ends know it, so they can be compared.
        last = tell(traffic, participants.members[j], channel, {x.op, static_cast<std::int64_t>(way.first.give[j].size()), false});
      }
    });
    const auto arrivals = e_.arrivals.wait({rank_, channel, others, call_text(x.op)});
    for (std::size_t i = 0; i < others.size(); ++i) {
      require_alike(x.op, arrivals[i], others[i]);
      last = std::max(last, arrivals[i].at);
    }
    require_counts(way, participants, arrivals);
    return last;
  }

  void require_alike(const Collective& op, const Arrival& other, Rank who) const {
    if (other.call.message || !alike(op, other.call.op) || op.group != other.call.op.group)
      throw CommError(rank_ < who ? mismatch(op, rank_, other.call.op, who) : mismatch(other.call.op, who, op, rank_));
  }

  void require_counts(const MessageSteps& way, const Participants& participants, const std::vector<Arrival>& arrivals) const {
    for (std::size_t j = 0, i = 0; j < participants.members.size(); ++j)
      if (participants.members[j] != rank_)
        require(static_cast<std::int64_t>(way.taken(j)) == arrivals[i++].call.tag,
                "an exchange of rows whose counts differ at both ends");
  }

  void move(Traffic& traffic, const Routes& routes, const Participants& participants, std::uint32_t channel) const {
    for (std::size_t j = 0; j < participants.members.size(); ++j) {
      if (participants.members[j] == rank_) continue;
      traffic.receive(participants.members[j], rank_, channel, routes.take[j]);
      traffic.send(rank_, participants.members[j], channel, routes.give[j]);
    }
  }

  std::vector<std::byte>& room_of(std::uint32_t channel) {
    const std::lock_guard lock(mutex_);
    return rooms_[channel];
  }

  void count(const Collective& op, const MessageSteps& way, std::size_t index) {
    std::int64_t received = 0;
    for (std::size_t j = 0; j < way.first.take.size(); ++j)
      if (j != index) received += static_cast<std::int64_t>(way.taken(j) + way.second.take[j].size());
    const std::lock_guard lock(mutex_);
    auto& line = counters_.collectives[{op.kind, op.group}];
    ++line.calls;
    line.payload_bytes += op.elements * bits(op.dtype) / 8;
    line.received_bytes += received;
  }

  const Exchanges e_;
  const Rank rank_;
  const std::unique_ptr<Communicator> threads_;
  mutable std::mutex mutex_;
  CommCounters counters_;
  std::map<std::uint32_t, std::vector<std::byte>> rooms_;  ///< by channel; a channel is used by one thread at a time
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_process_communicators(const Exchanges& e) {
  auto threads = make_thread_communicators(static_cast<int>(e.places.ranks()));
  std::vector<std::unique_ptr<Communicator>> here;
  for (const Rank r : e.places.ranks_of(e.carrier.process()))
    here.push_back(std::make_unique<ProcessCommunicator>(e, r, std::move(threads[r.index()])));
  return here;
}

}  // namespace tandem::exec
