#include "exec/collective_share.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

struct Slice {
  std::int64_t begin, end;  ///< elements
  std::int64_t count() const { return end - begin; }
};

Slice slice(const Exchange& x, std::size_t index) {
  const auto n = static_cast<std::int64_t>(x.buffers.size());
  const auto r = static_cast<std::int64_t>(index);
  return {x.op.elements * r / n, x.op.elements * (r + 1) / n};
}

std::int64_t element_bytes(DType t) { return bits(t) / 8; }

bool writes_all(CollectiveKind kind) { return kind == CollectiveKind::all_reduce; }

template <class T>
void combine(Reduce reduce, std::span<T> into, const T* from) {
  if (reduce == Reduce::sum)
    for (std::size_t i = 0; i < into.size(); ++i) into[i] += from[i];
  else
    for (std::size_t i = 0; i < into.size(); ++i) into[i] = into[i] < from[i] ? from[i] : into[i];
}

/// Left fold of one cache-sized piece, written to every buffer or to the member's own.
template <class T>
void fold_piece(const Exchange& x, std::size_t index, Slice piece) {
  std::array<T, 1024> room;
  const std::span<T> sum(room.data(), static_cast<std::size_t>(piece.count()));
  const auto at = [&](std::size_t j) { return reinterpret_cast<T*>(x.buffers[j]) + piece.begin; };
  std::copy_n(at(0), sum.size(), sum.data());
  for (std::size_t j = 1; j < x.buffers.size(); ++j) combine(x.op.reduce, sum, at(j));
  for (std::size_t j = 0; j < x.buffers.size(); ++j)
    if (j == index || writes_all(x.op.kind)) std::copy_n(sum.data(), sum.size(), at(j));
}

template <class T>
void fold_slice(const Exchange& x, std::size_t index) {
  const Slice mine = slice(x, index);
  for (auto at = mine.begin; at < mine.end; at += 1024)
    fold_piece<T>(x, index, {at, std::min(at + 1024, mine.end)});
}

void charge_others(std::span<std::int64_t> received, std::size_t index, std::int64_t bytes) {
  for (std::size_t j = 0; j < received.size(); ++j)
    if (j != index) received[j] += bytes;
}

void reduce_share(const Exchange& x, std::size_t index, std::span<std::int64_t> received) {
  switch (x.op.dtype) {
    case DType::fp64: fold_slice<double>(x, index); break;
    case DType::int32: fold_slice<std::int32_t>(x, index); break;
    default: fold_slice<float>(x, index);
  }
  const auto bytes = slice(x, index).count() * element_bytes(x.op.dtype);
  received[index] += bytes * static_cast<std::int64_t>(x.buffers.size() - 1);
  if (writes_all(x.op.kind)) charge_others(received, index, bytes);
}

/// Copies elements [s.begin, s.end) of member `index` to every other member.
void spread(const Exchange& x, std::size_t index, Slice s, std::span<std::int64_t> received) {
  const auto width = element_bytes(x.op.dtype);
  const auto bytes = s.count() * width;
  for (std::size_t j = 0; j < x.buffers.size(); ++j)
    if (j != index && bytes > 0)
      std::memcpy(x.buffers[j] + s.begin * width, x.buffers[index] + s.begin * width, static_cast<std::size_t>(bytes));
  charge_others(received, index, bytes);
}

/// One of two members swaps their pair of slices: odd sums fall to the lower, even ones to the higher index.
bool swaps(std::size_t index, std::size_t other) {
  return index != other && ((index + other) % 2 == 1) == (index < other);
}

void all_to_all_share(const Exchange& x, std::size_t index, std::span<std::int64_t> received) {
  const auto bytes = slice(x, 0).count() * element_bytes(x.op.dtype);
  for (std::size_t j = 0; j < x.buffers.size(); ++j) {
    if (!swaps(index, j)) continue;
    auto* mine = x.buffers[index] + static_cast<std::int64_t>(j) * bytes;
    std::swap_ranges(mine, mine + bytes, x.buffers[j] + static_cast<std::int64_t>(index) * bytes);
    received[index] += bytes;
    received[j] += bytes;
  }
}

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter;
}

bool reducible(DType t) { return t == DType::fp32 || t == DType::fp64 || t == DType::int32; }

}  // namespace

void require_exchangeable(const Collective& op, std::size_t members) {
  require(op.elements >= 0, "a collective of a negative number of elements");
  require(!reduces(op.kind) || reducible(op.dtype), "thread communicator: reductions are in fp32, fp64 and int32");
  require(bits(op.dtype) % 8 == 0, "thread communicator: elements of less than a byte cannot be split");
  require(op.kind != CollectiveKind::all_to_all || op.elements % static_cast<std::int64_t>(members) == 0,
          "all_to_all: the members must divide the elements");
}

void perform_share(const Exchange& x, std::size_t index, std::span<std::int64_t> received) {
  switch (x.op.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce_scatter: return reduce_share(x, index, received);
    case CollectiveKind::all_gather: return spread(x, index, slice(x, index), received);
    case CollectiveKind::broadcast:
      if (index == 0) spread(x, 0, {0, x.op.elements}, received);
      return;
    case CollectiveKind::all_to_all: return all_to_all_share(x, index, received);
  }
}

}  // namespace tandem::exec
