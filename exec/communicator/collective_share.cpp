#include "exec/communicator/collective_share.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "exec/communicator/slices.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

Slice slice(const Exchange& x, std::size_t index) { return exec::slice(x.op, x.members.size(), index); }

std::int64_t share_bytes(const Exchange& x) { return exec::share_bytes(x.op, x.members.size()); }

// ---- reductions ----

bool writes_all(CollectiveKind kind) { return kind == CollectiveKind::all_reduce; }

void fold(const Exchange& x, std::size_t index, const Slice& mine) {
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  for (const MemberBuffers& m : x.members) in.push_back(m.in);
  const bool all = writes_all(x.op.kind);
  if (all)
    for (const MemberBuffers& m : x.members) out.push_back(m.out);
  else
    out.push_back(x.members[index].out);
  x.engine.fold({in, out, mine.begin, mine.end, all ? mine.begin : 0, x.op.dtype, x.op.reduce});
}

void charge_others(std::span<std::int64_t> received, std::size_t index, std::int64_t bytes) {
  for (std::size_t j = 0; j < received.size(); ++j)
    if (j != index) received[j] += bytes;
}

void reduce_share(const Exchange& x, std::size_t index, std::span<std::int64_t> received) {
  fold(x, index, slice(x, index));
  const auto bytes = slice(x, index).count() * element_bytes(x.op.dtype);
  received[index] += bytes * static_cast<std::int64_t>(x.members.size() - 1);
  if (writes_all(x.op.kind)) charge_others(received, index, bytes);
}

// ---- copies ----

/// Copies `bytes` bytes of member `index`'s input to every member's output, at byte `offset`.
void spread(const Exchange& x, std::size_t index, std::int64_t offset, std::int64_t bytes) {
  for (const auto& m : x.members) x.engine.copy(m.out + offset, x.members[index].in, bytes);
}

/// Copies what member `index` owns to every other member's buffer.
void gather_owned_share(const Exchange& x, std::size_t index, std::span<std::int64_t> received) {
  const std::byte* const mine = x.members[index].in;
  for (const OwnedRange& r : x.members[index].owned) {
    if (r.member != index) continue;
    const std::int64_t at = r.first * element_bytes(x.op.dtype), bytes = r.elements * element_bytes(x.op.dtype);
    for (const auto& m : x.members)
      if (m.out != mine) x.engine.copy(m.out + at, mine + at, bytes);
    charge_others(received, index, bytes);
  }
}

void all_gather_share(const Exchange& x, std::size_t index, std::span<std::int64_t> received) {
  if (!x.members[index].owned.empty()) return gather_owned_share(x, index, received);
  const auto bytes = share_bytes(x);
  spread(x, index, static_cast<std::int64_t>(index) * bytes, bytes);
  charge_others(received, index, bytes);
}

void broadcast_share(const Exchange& x, std::size_t index, std::span<std::int64_t> received) {
  if (index != 0) return;
  const auto bytes = x.op.elements * element_bytes(x.op.dtype);
  spread(x, 0, 0, bytes);
  charge_others(received, 0, bytes);
}

// ---- rows of unequal numbers ----

/// Member `index` copies its rows from every member, in ascending order of the senders.
void rows_share(const Exchange& x, std::size_t index, std::span<std::int64_t> received) {
  const auto bytes = x.op.row * element_bytes(x.op.dtype);
  const MemberBuffers& mine = x.members[index];
  std::int64_t at = 0;
  for (std::size_t j = 0; j < x.members.size(); ++j) {
    const MemberBuffers& from = x.members[j];
    const std::int64_t first = rows_before(from.rows.sent, from.rows.each, index);
    const std::int64_t rows = rows_for(from.rows.sent, from.rows.each, index);
    require(rows == rows_for(mine.rows.received, mine.rows.each, j), "an exchange of rows whose counts differ at both ends");
    require_capacity(at + rows, mine.rows.capacity);
    x.engine.copy(mine.out + at * bytes, from.in + first * bytes, rows * bytes);
    if (j != index) received[index] += rows * bytes;
    at += rows;
  }
}

/// Member `index`'s rows within the rows of all members, in elements.
Slice rows_of(const Exchange& x, std::size_t index) {
  const RowCounts &mine = x.members[index].rows, &first = x.members.front().rows;
  const auto all = mine.each * static_cast<std::int64_t>(x.members.size());
  require(std::equal(mine.sent, mine.sent + all, first.sent), "rows are gathered or scattered with counts that differ");
  const std::int64_t before = rows_before(mine.sent, mine.each, index);
  return {before * x.op.row, (before + rows_for(mine.sent, mine.each, index)) * x.op.row};
}

void gather_rows_share(const Exchange& x, std::size_t index, std::span<std::int64_t> received) {
  const RowCounts& counts = x.members[index].rows;
  const auto all = counts.each * static_cast<std::int64_t>(x.members.size());
  require_capacity(std::accumulate(counts.sent, counts.sent + all, std::int64_t{0}), counts.capacity);
  const Slice mine = rows_of(x, index);
  const auto bytes = element_bytes(x.op.dtype);
  spread(x, index, mine.begin * bytes, mine.count() * bytes);
  charge_others(received, index, mine.count() * bytes);
}

void scatter_rows_share(const Exchange& x, std::size_t index, std::span<std::int64_t> received) {
  const Slice mine = rows_of(x, index);
  require_capacity(mine.count() / x.op.row, x.members[index].rows.capacity);
  fold(x, index, mine);
  received[index] += mine.count() * element_bytes(x.op.dtype) * static_cast<std::int64_t>(x.members.size() - 1);
}

// ---- equal shares ----

void all_to_all_share(const Exchange& x, std::size_t index, std::span<std::int64_t> received) {
  const auto bytes = share_bytes(x);
  for (std::size_t j = 0; j < x.members.size(); ++j)
    x.engine.copy(x.members[index].out + static_cast<std::int64_t>(j) * bytes,
         x.members[j].in + static_cast<std::int64_t>(index) * bytes, bytes);
  received[index] += bytes * static_cast<std::int64_t>(x.members.size() - 1);
}

void shift_share(const Exchange& x, std::size_t index, std::span<std::int64_t> received) {
  const auto n = x.members.size(), before = (index + n - 1) % n;
  const auto bytes = x.op.elements * element_bytes(x.op.dtype);
  x.engine.copy(x.members[index].out, x.members[before].in, bytes);
  if (before != index) received[index] += bytes;
}

void perform_rows_share(const Exchange& x, std::size_t index, std::span<std::int64_t> received) {
  switch (x.op.kind) {
    case CollectiveKind::all_to_all: return rows_share(x, index, received);
    case CollectiveKind::all_gather: return gather_rows_share(x, index, received);
    case CollectiveKind::reduce_scatter: return scatter_rows_share(x, index, received);
    case CollectiveKind::all_reduce: case CollectiveKind::broadcast: case CollectiveKind::shift: break;
  }
  throw ContractError("no collective of rows of unequal numbers of this kind");
}

void issue_share(const Exchange& x, std::size_t index, std::span<std::int64_t> received) {
  if (x.op.row > 0) return perform_rows_share(x, index, received);
  switch (x.op.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce_scatter: return reduce_share(x, index, received);
    case CollectiveKind::all_gather: return all_gather_share(x, index, received);
    case CollectiveKind::broadcast: return broadcast_share(x, index, received);
    case CollectiveKind::all_to_all: return all_to_all_share(x, index, received);
    case CollectiveKind::shift: return shift_share(x, index, received);
  }
}

// ---- what is allowed ----

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter;
}

bool reducible(DType t) {
  return t == DType::fp32 || t == DType::fp64 || t == DType::bf16 || t == DType::fp16 || t == DType::int32 || t == DType::int64;
}

bool shares(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_to_all;
}

struct Range {
  const std::byte* begin;
  std::int64_t bytes;
};

bool overlap(const Range& a, const Range& b) {
  const auto from = [](const Range& r) { return reinterpret_cast<std::uintptr_t>(r.begin); };
  const auto to = [&](const Range& r) { return from(r) + static_cast<std::uintptr_t>(r.bytes); };
  return a.bytes > 0 && b.bytes > 0 && from(a) < to(b) && from(b) < to(a);
}

/// True if member `index`'s share lies at its place in the whole buffer, or outside of it.
bool share_placed(const Exchange& x, std::size_t index, const std::byte* share, const std::byte* whole) {
  const auto bytes = share_bytes(x), all = bytes * static_cast<std::int64_t>(x.members.size());
  if (!overlap({share, bytes}, {whole, all})) return true;
  return share == whole + static_cast<std::int64_t>(index) * bytes;
}

}  // namespace

void require_exchangeable(const Collective& op, std::size_t members) {
  require(op.elements >= 0, "a collective of a negative number of elements");
  require(!reduces(op.kind) || reducible(op.dtype), "thread communicator: reductions are in fp64, fp32, bf16, fp16, int32 and int64");
  require(bits(op.dtype) % 8 == 0, "thread communicator: elements of less than a byte cannot be split");
  require(!shares(op.kind) || op.elements % static_cast<std::int64_t>(members) == 0,
          "all-gather, reduce-scatter and all-to-all: the members must divide the elements");
}

void require_placed(const Exchange& x, std::size_t index) {
  const auto& m = x.members[index];
  const auto all = x.op.elements * element_bytes(x.op.dtype);
  if (x.op.row > 0)
    return require(m.in != m.out && m.rows.sent && m.rows.received, "an exchange of rows needs counts and another buffer");
  switch (x.op.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::broadcast: return require(m.in == m.out, "all-reduce and broadcast work in place");
    case CollectiveKind::all_gather:
      if (!m.owned.empty()) return require(m.in == m.out, "an all-gather of what members own works in place");
      return require(share_placed(x, index, m.in, m.out), "all-gather: a share inside the whole but not at its place");
    case CollectiveKind::reduce_scatter:
      return require(share_placed(x, index, m.out, m.in), "reduce-scatter: a share inside the whole but not at its place");
    case CollectiveKind::all_to_all:
    case CollectiveKind::shift:
      return require(!overlap({m.in, all}, {m.out, all}), "all-to-all and shift need another buffer for what arrives");
  }
}

void perform_share(const Exchange& x, std::size_t index, std::span<std::int64_t> received) {
  issue_share(x, index, received);
  x.engine.finish();
}

void fold_parts(const Collective& op, std::span<const MemberBuffers> parts, std::int64_t elements,
                MemoryEngine& engine) {
  Collective part = op;
  part.kind = CollectiveKind::reduce_scatter;  // into one buffer alone
  fold({part, parts, engine}, 0, {0, elements});
}

}  // namespace tandem::exec
