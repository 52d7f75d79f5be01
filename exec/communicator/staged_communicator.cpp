#include "exec/communicator/staged_communicator.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <tuple>
#include <utility>

#include "exec/communicator/slices.hpp"

namespace tandem::exec {
namespace {

/// Bytes of a member's input and output.
struct Extent {
  std::int64_t in, out;
};

Extent extent_of_rows(const Collective& op, const RowCounts& c, std::size_t members, std::size_t index) {
  const std::int64_t row = op.row * element_bytes(op.dtype);
  const std::int64_t all = rows_before(c.sent, c.each, members) * row;
  if (op.kind == CollectiveKind::all_to_all) return {all, rows_before(c.received, c.each, members) * row};
  const std::int64_t mine = rows_for(c.sent, c.each, index) * row;
  return op.kind == CollectiveKind::all_gather ? Extent{mine, all} : Extent{all, mine};
}

Extent extent_of(const Collective& op, const MemberBuffers& mine, std::size_t members, std::size_t index) {
  if (op.row > 0) return extent_of_rows(op, mine.rows, members, index);
  const std::int64_t all = op.elements * element_bytes(op.dtype);
  if (!mine.owned.empty()) return {all, all};
  if (op.kind == CollectiveKind::all_gather) return {share_bytes(op, members), all};
  if (op.kind == CollectiveKind::reduce_scatter) return {all, share_bytes(op, members)};
  return {all, all};
}

/// Host memory that grows to the size of the largest call.
struct StagingBuffer {
  std::shared_ptr<std::byte> bytes;
  std::int64_t size = 0;
};

class StagedCommunicator final : public Communicator {
 public:
  StagedCommunicator(std::unique_ptr<Communicator> inner, Rank rank, StagingArea& area)
      : inner_(std::move(inner)), rank_(rank), area_(area) {}
  using Communicator::run;

  TimePoint run(const Collective& op, const Participants& participants, const MemberBuffers& mine) override {
    const auto& members = participants.members;
    const auto index = static_cast<std::size_t>(std::find(members.begin(), members.end(), rank_) - members.begin());
    const Extent e = extent_of(op, mine, members.size(), index);
    const std::byte* first = std::min<const std::byte*>(mine.in, mine.out);
    const bool together = std::max<const std::byte*>(mine.in, mine.out) < first + (first == mine.in ? e.in : e.out);
    // If one buffer lies inside the other, it keeps its position there.
    const std::int64_t in_at = together ? mine.in - first : 0, out_at = together ? mine.out - first : e.in;
    const std::int64_t bytes = std::max(in_at + e.in, out_at + e.out);
    std::byte* const staged = staging_buffer({static_cast<int>(op.group), participants.lane, -1}, bytes);
    area_.to_host(staged + in_at, mine.in, e.in);
    const TimePoint at = inner_->run(op, participants, MemberBuffers{staged + in_at, staged + out_at, mine.rows, mine.owned});
    area_.to_device(mine.out, staged + out_at, e.out);
    return at;
  }

  TimePoint send(const std::byte* buffer, std::int64_t bytes, Rank to, const MessageName& name) override {
    std::byte* const staged = staging_buffer({to.value(), name.way, 0}, bytes);
    area_.to_host(staged, buffer, bytes);
    return inner_->send(staged, bytes, to, name);
  }

  TimePoint recv(std::byte* buffer, std::int64_t bytes, Rank from, const MessageName& name) override {
    std::byte* const staged = staging_buffer({from.value(), name.way, 1}, bytes);
    const TimePoint at = inner_->recv(staged, bytes, from, name);
    area_.to_device(buffer, staged, bytes);
    return at;
  }

  void abort(const std::string& cause) override { inner_->abort(cause); }
  CommCounters counters() const override { return inner_->counters(); }

 private:
  using Key = std::tuple<int, int, int>;  // group and lane, or peer, way, direction; one thread per key

  std::byte* staging_buffer(const Key& key, std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    StagingBuffer& staged = buffers_[key];
    if (staged.size < bytes) staged = {area_.allocate(static_cast<std::size_t>(bytes)), bytes};
    return staged.bytes.get();
  }

  const std::unique_ptr<Communicator> inner_;
  const Rank rank_;
  StagingArea& area_;
  std::mutex mutex_;
  std::map<Key, StagingBuffer> buffers_;
};

class HostArea final : public StagingArea {
 public:
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    return {new std::byte[bytes], std::default_delete<std::byte[]>()};
  }
  void to_host(std::byte* to, const std::byte* from, std::int64_t bytes) override { copy(to, from, bytes); }
  void to_device(std::byte* to, const std::byte* from, std::int64_t bytes) override { copy(to, from, bytes); }

 private:
  static void copy(std::byte* to, const std::byte* from, std::int64_t bytes) {
    if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
};

}  // namespace

StagingArea& host_staging_area() {
  static HostArea area;
  return area;
}

std::vector<std::unique_ptr<Communicator>> make_staged_communicators(std::vector<std::unique_ptr<Communicator>> inner,
                                                                     StagingArea& area, const std::vector<Rank>& ranks) {
  std::vector<std::unique_ptr<Communicator>> all;
  for (std::size_t i = 0; i < inner.size(); ++i)
    all.push_back(std::make_unique<StagedCommunicator>(std::move(inner[i]), ranks[i], area));
  return all;
}

}  // namespace tandem::exec
