#include "exec/communicator/routes.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "exec/communicator/slices.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

/// One member's view of a collective.
struct MemberView {
  const Collective& op;
  const MemberBuffers& mine;
  std::size_t members, index;
  std::size_t window;

  std::int64_t bytes() const { return op.elements * element_bytes(op.dtype); }
  std::int64_t share() const { return share_bytes(op, members); }
  Slice cut(std::size_t j) const { return slice(op, members, j); }
  std::int64_t row_bytes() const { return op.row * element_bytes(op.dtype); }
};

using ConstBytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

ConstBytes part(const std::byte* at, std::int64_t first, std::int64_t bytes) {
  return {at + first, static_cast<std::size_t>(bytes)};
}
MutableBytes part(std::byte* at, std::int64_t first, std::int64_t bytes) {
  return {at + first, static_cast<std::size_t>(bytes)};
}

Routes none(const MemberView& s) { return {std::vector<ConstBytes>(s.members), std::vector<MutableBytes>(s.members)}; }

/// Makes `way` receive `bytes` bytes from each other member, to reduce them: at most one window of each, into memory of `buffer_of`.
void take_into(const BufferOf& buffer_of, const MemberView& s, std::int64_t bytes, MessageSteps& way) {
  const std::size_t each = std::min(static_cast<std::size_t>(bytes), s.window);
  std::byte* const at = buffer_of(each * s.members);
  for (std::size_t j = 0; j < s.members; ++j)
    if (j != s.index) way.first.take[j] = {at + j * each, each};
  way.folds = true;
}

/// Bytes [first, first + most) of a span, or as many of them as exist.
template <class Span>
Span cut(Span whole, std::size_t first, std::size_t most) {
  return first < whole.size() ? whole.subspan(first, std::min(most, whole.size() - first)) : Span();
}

ConstBytes cut_of(const std::byte* whole, const MemberView& s, const Slice& cut) {
  const auto each = element_bytes(s.op.dtype);
  return part(whole, cut.begin * each, cut.count() * each);
}

MutableBytes cut_of(std::byte* whole, const MemberView& s, const Slice& cut) {
  const auto each = element_bytes(s.op.dtype);
  return part(whole, cut.begin * each, cut.count() * each);
}

/// Sends slice j of the input to member j. Each member reduces its own slice of everybody's input.
template <class Cut>
MessageSteps scatter_fold(const MemberView& s, const BufferOf& buffer_of, Cut cut) {
  MessageSteps way{none(s), false, cut_of(s.mine.in, s, cut(s.index)), {}, none(s)};
  take_into(buffer_of, s, static_cast<std::int64_t>(way.own.size()), way);
  for (std::size_t j = 0; j < s.members; ++j)
    if (j != s.index) way.first.give[j] = cut_of(s.mine.in, s, cut(j));
  return way;
}

MessageSteps all_reduce(const MemberView& s, const BufferOf& buffer_of) {
  if (s.bytes() * static_cast<std::int64_t>(s.members) <= kWholeBytes) {
    MessageSteps way{none(s), false, part(s.mine.in, 0, s.bytes()), part(s.mine.out, 0, s.bytes()), none(s)};
    take_into(buffer_of, s, s.bytes(), way);
    for (std::size_t j = 0; j < s.members; ++j)
      if (j != s.index) way.first.give[j] = way.own;
    return way;
  }
  MessageSteps way = scatter_fold(s, buffer_of, [&](std::size_t j) { return s.cut(j); });
  way.result = cut_of(s.mine.out, s, s.cut(s.index));
  for (std::size_t j = 0; j < s.members; ++j)
    if (j != s.index) way.second.give[j] = way.result, way.second.take[j] = cut_of(s.mine.out, s, s.cut(j));
  return way;
}

MessageSteps reduce_scatter(const MemberView& s, const BufferOf& buffer_of) {
  MessageSteps way = scatter_fold(s, buffer_of, [&](std::size_t j) { return s.cut(j); });
  way.result = part(s.mine.out, 0, static_cast<std::int64_t>(way.own.size()));
  return way;
}

/// An exchange without reduction. The member's own entry is a local copy.
template <class Give, class Take>
MessageSteps exchange(const MemberView& s, Give give, Take take) {
  MessageSteps way{none(s), false, {}, {}, none(s)};
  for (std::size_t j = 0; j < s.members; ++j) way.first.give[j] = give(j), way.first.take[j] = take(j);
  return way;
}

/// Each member packs what it owns, in one message to all others. Parts lie in the buffer in order of the members.
MessageSteps gather_owned(const MemberView& s, const BufferOf& buffer_of) {
  const auto each = element_bytes(s.op.dtype);
  std::vector<std::int64_t> bytes(s.members), at(s.members);
  for (const OwnedRange& r : s.mine.owned) bytes[r.member] += r.elements * each;
  std::exclusive_scan(bytes.begin(), bytes.end(), at.begin(), std::int64_t{0});
  std::byte* const packed = buffer_of(static_cast<std::size_t>(at.back() + bytes.back()));
  const ConstBytes mine = part(static_cast<const std::byte*>(packed), at[s.index], bytes[s.index]);
  MessageSteps way = exchange(s, [&](std::size_t) { return mine; }, [&](std::size_t j) { return part(packed, at[j], bytes[j]); });
  for (const OwnedRange& r : s.mine.owned) {
    std::byte* const there = packed + std::exchange(at[r.member], at[r.member] + r.elements * each);
    if (r.member == s.index) way.pack.push_back({s.mine.in + r.first * each, there, r.elements * each});
    else way.unpack.push_back({there, s.mine.out + r.first * each, r.elements * each});
  }
  return way;
}

MessageSteps all_gather(const MemberView& s, const BufferOf& buffer_of) {
  if (!s.mine.owned.empty()) return gather_owned(s, buffer_of);
  return exchange(s, [&](std::size_t) { return part(s.mine.in, 0, s.share()); },
                  [&](std::size_t j) { return part(s.mine.out, static_cast<std::int64_t>(j) * s.share(), s.share()); });
}

MessageSteps all_to_all(const MemberView& s) {
  const auto at = [&](std::size_t j) { return static_cast<std::int64_t>(j) * s.share(); };
  return exchange(s, [&](std::size_t j) { return part(s.mine.in, at(j), s.share()); },
                  [&](std::size_t j) { return part(s.mine.out, at(j), s.share()); });
}

MessageSteps broadcast(const MemberView& s) {
  return exchange(s, [&](std::size_t j) { return s.index == 0 && j != 0 ? part(s.mine.in, 0, s.bytes()) : ConstBytes(); },
                  [&](std::size_t j) { return s.index != 0 && j == 0 ? part(s.mine.out, 0, s.bytes()) : MutableBytes(); });
}

MessageSteps shift(const MemberView& s) {
  const std::size_t after = (s.index + 1) % s.members, before = (s.index + s.members - 1) % s.members;
  return exchange(s, [&](std::size_t j) { return j == after ? part(s.mine.in, 0, s.bytes()) : ConstBytes(); },
                  [&](std::size_t j) { return j == before ? part(s.mine.out, 0, s.bytes()) : MutableBytes(); });
}

// ---- rows of unequal numbers ----

/// Member `j`'s rows within the rows of all members, in elements.
Slice rows_cut(const MemberView& s, std::size_t j) {
  const RowCounts& c = s.mine.rows;
  const std::int64_t first = rows_before(c.sent, c.each, j);
  return {first * s.op.row, (first + rows_for(c.sent, c.each, j)) * s.op.row};
}

MessageSteps rows_to_all(const MemberView& s) {
  const RowCounts& c = s.mine.rows;
  require_capacity(rows_before(c.received, c.each, s.members), c.capacity);
  const auto at = [&](const std::int32_t* counts, std::size_t j) { return rows_before(counts, c.each, j) * s.row_bytes(); };
  const auto bytes = [&](const std::int32_t* counts, std::size_t j) { return rows_for(counts, c.each, j) * s.row_bytes(); };
  return exchange(s, [&](std::size_t j) { return part(s.mine.in, at(c.sent, j), bytes(c.sent, j)); },
                  [&](std::size_t j) { return part(s.mine.out, at(c.received, j), bytes(c.received, j)); });
}

MessageSteps gather_rows(const MemberView& s) {
  require_capacity(rows_before(s.mine.rows.sent, s.mine.rows.each, s.members), s.mine.rows.capacity);
  const Slice mine = rows_cut(s, s.index);
  return exchange(s, [&](std::size_t) { return part(s.mine.in, 0, mine.count() * element_bytes(s.op.dtype)); },
                  [&](std::size_t j) { return cut_of(s.mine.out, s, rows_cut(s, j)); });
}

MessageSteps scatter_rows(const MemberView& s, const BufferOf& buffer_of) {
  require_capacity(rows_cut(s, s.index).count() / s.op.row, s.mine.rows.capacity);
  MessageSteps way = scatter_fold(s, buffer_of, [&](std::size_t j) { return rows_cut(s, j); });
  way.result = part(s.mine.out, 0, static_cast<std::int64_t>(way.own.size()));
  return way;
}

MessageSteps of_rows(const MemberView& s, const BufferOf& buffer_of) {
  switch (s.op.kind) {
    case CollectiveKind::all_to_all: return rows_to_all(s);
    case CollectiveKind::all_gather: return gather_rows(s);
    case CollectiveKind::reduce_scatter: return scatter_rows(s, buffer_of);
    case CollectiveKind::all_reduce: case CollectiveKind::broadcast: case CollectiveKind::shift: break;
  }
  throw ContractError("no collective of rows of unequal numbers of this kind");
}

MessageSteps of(const MemberView& s, const BufferOf& buffer_of) {
  switch (s.op.kind) {
    case CollectiveKind::all_reduce: return all_reduce(s, buffer_of);
    case CollectiveKind::reduce_scatter: return reduce_scatter(s, buffer_of);
    case CollectiveKind::all_gather: return all_gather(s, buffer_of);
    case CollectiveKind::all_to_all: return all_to_all(s);
    case CollectiveKind::broadcast: return broadcast(s);
    case CollectiveKind::shift: return shift(s);
  }
  throw ContractError("no such collective");
}

}  // namespace

MessageSteps message_steps(const Exchange& x, std::size_t index, const BufferOf& buffer_of, std::size_t window) {
  const MemberView view{x.op, x.members[index], x.members.size(), index, window};
  return x.op.row > 0 ? of_rows(view, buffer_of) : of(view, buffer_of);
}

MessageSteps window_of(const MessageSteps& way, std::size_t first, std::size_t window) {
  MessageSteps part{way.first, way.folds, cut(way.own, first, window), cut(way.result, first, window), {}};
  for (auto& give : part.first.give) give = cut(give, first, window);
  for (auto& take : part.first.take) take = way.folds ? cut(take, 0, part.own.size()) : cut(take, first, window);
  return part;
}

void perform(std::span<const MessageSteps::Copy> copies, MemoryEngine& engine) {
  for (const MessageSteps::Copy& c : copies) engine.copy(c.to, c.from, c.bytes);
  if (!copies.empty()) engine.finish();
}

void copy_own(const MessageSteps& way, std::size_t index, MemoryEngine& engine) {
  const ConstBytes from = way.first.give[index];
  const MutableBytes to = way.first.take[index];
  require(from.size() == to.size(), "a member gives itself another number of bytes than it takes");
  if (!from.empty() && from.data() != to.data()) engine.copy(to.data(), from.data(), static_cast<std::int64_t>(from.size()));
}

void fold(const MessageSteps& way, const Collective& op, std::size_t index, MemoryEngine& engine) {
  std::vector<MemberBuffers> parts(way.first.take.size());
  for (std::size_t j = 0; j < parts.size(); ++j) parts[j].in = j == index ? way.own.data() : way.first.take[j].data();
  parts.front().out = way.result.data();
  fold_parts(op, parts, static_cast<std::int64_t>(way.result.size()) / element_bytes(op.dtype), engine);
}

}  // namespace tandem::exec
