#pragma once
// Kernels that move elements, and rotary position embedding.

#include <cmath>

#include "exec/data/sequence_map.hpp"
#include "exec/device/chunk.hpp"
#include "exec/device/documents.hpp"
#include "exec/device/typed.hpp"
#include "exec/shared/nf4.hpp"
#include "models/ops/attention.hpp"

namespace tandem::exec::device {

/// Offset of element (a, b, c) of [outer, middle, inner]: first + a * outer + b * middle + c.
struct Steps {
  std::int64_t first = 0, outer = 0, middle = 0;
};

/// Copies elements of 2, 4 or 8 bytes.
struct CopyKernel {
  Form form;
  Typed x, y;
  std::int64_t outer, middle, inner;
  Steps from, to;

  Grid grid() const { return chunks(outer * middle * inner); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    switch (bits(x.type)) {
      case 16: return copy<std::uint16_t>(block);
      case 64: return copy<std::uint64_t>(block);
      default: return copy<std::uint32_t>(block);
    }
  }

 private:
  template <class T, class Block>
  TANDEM_HD void copy(Block& block) const {
    constexpr int kWidth = 16 / sizeof(T);
    const bool whole = outer == 1 && middle == 1;
    const std::int64_t steps = from.first | from.outer | from.middle | to.first | to.outer | to.middle;
    const bool may = are_aligned(kWidth, x, y) && (whole ? (from.first | to.first) % kWidth == 0 : (steps | inner) % kWidth == 0);
    each_wide<kWidth>(block, outer * middle * inner, may, [&](auto lanes, std::int64_t i) {
      Cell column{0, i}, row{0, 0};
      if (!whole) column = cell_of(i, inner), row = cell_of(column.row, middle);
      const auto cells =
          load_cells<T, decltype(lanes)::n>(x, from.first + row.row * from.outer + row.col * from.middle + column.col);
      store_cells(y, to.first + row.row * to.outer + row.col * to.middle + column.col, cells);
    });
  }
};

/// Numbers of blocks of 4 bits.
struct DequantizeKernel {
  Form form;
  Typed x, y;
  std::int64_t elements;

  Grid grid() const { return chunks(elements); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    constexpr std::int64_t n = Nf4Block::kElements;
    each_in_chunk(block, elements, [&](std::int64_t i) {
      S::put(y, i, static_cast<typename S::Number>(as<const Nf4Block>(x)[i / n].value(static_cast<int>(i % n))));
    });
  }
};

/// Packs columns, some of which go to several peers.
struct CommonColumnsKernel {
  Form form;
  Typed x, y;
  ColumnParts of;

  Grid grid() const { return chunks(of.parted()); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    each_in_chunk(block, of.parted(), [&](std::int64_t i) {
      const Cell column = cell_of(i, of.part_cols()), row = cell_of(column.row, of.rows);
      const std::int64_t own = column.col - of.own_place();
      const std::int64_t from = own >= 0 && own < of.own() ? of.own_column(row.row) + own
                                                          : of.common_column(row.row) + column.col - of.common_place();
      S::put(y, i, S::get(x, row.col * of.cols + from));
    });
  }
};

/// The inverse. It sums a column's values from several peers.
struct CommonColumnsGradKernel {
  Form form;
  Typed y, x;
  ColumnParts of;

  Grid grid() const { return chunks(of.whole()); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    each_in_chunk(block, of.whole(), [&](std::int64_t i) {
      const Cell row = cell_of(i, of.cols), group = cell_of(row.col, of.group_cols());
      const std::int64_t first = group.row * of.repeat, own = group.col - of.own_place();
      const auto at = [&](std::int64_t peer, std::int64_t column) {
        return S::get(y, ((first + peer) * of.rows + row.row) * of.part_cols() + column);
      };
      if (own >= 0 && own < of.repeat * of.own()) {
        const Cell peer = cell_of(own, of.own());
        return S::put(x, i, at(peer.row, of.own_place() + peer.col));
      }
      const std::int64_t common = group.col - of.common_column(0) + of.common_place();
      A sum = 0;
      for (std::int64_t peer = 0; peer < of.repeat; ++peer) sum += at(peer, common);
      S::put(x, i, sum);
    });
  }
};

/// Cosine and sine of an angle. Whole turns are removed in fp64, so large angles stay accurate in fp32.
template <class A>
struct Rotation {
  A cos, sin;

  TANDEM_HD explicit Rotation(double angle) {
    if constexpr (sizeof(A) == sizeof(double)) {
      cos = std::cos(angle);
      sin = std::sin(angle);
    } else {
      constexpr double kTurns = 0.15915494309189533577;  // 1 / (2 pi)
      const double turns = angle * kTurns, rest = 2 * (turns - std::rint(turns));
#ifdef __CUDA_ARCH__
      sincospif(static_cast<float>(rest), &sin, &cos);
#else
      constexpr double kPi = 3.14159265358979323846;
      cos = std::cos(static_cast<float>(rest * kPi));
      sin = std::sin(static_cast<float>(rest * kPi));
#endif
    }
  }
};

inline constexpr std::int64_t kMostPairs = 256;  ///< pairs (half the dimensions) of the longest rotary head

/// One block per token. Rotates its query and key heads, or performs one pass of frameworks without a fused kernel.
struct RotaryKernel {
  Form form;
  Typed x, turned, y;                           ///< y is x if in place; `turned`: operand t of a pass, in or out
  std::int64_t tokens, width, groups;           ///< width: columns per token; separate queries are one group
  std::int64_t first_head, end_head;            ///< range of heads in a group: its query heads and its key
  std::int64_t head, half, group;               ///< head size; half the rotary dimensions; columns per group
  double frequencies[kMostPairs];               ///< per pair; angle = position / unit * frequency
  double unit, length;
  SequenceMap map{1, 1};
  std::int32_t context_rank;
  bool inverse;
  RotaryPart part;
  Documents documents;

  Grid grid() const { return {tokens, static_cast<std::size_t>(2 * half) * sizeof(double)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t token = block.index();
    A* cos = reinterpret_cast<A*>(block.shared());
    A* sin = cos + half;
    const std::int64_t at_sequence = map.position(context_rank, token % map.local_seq);
    const std::int64_t position = at_sequence - documents.start(token / map.local_seq, at_sequence);
    block.each(half, [&](std::int64_t i) {
      const double angle = static_cast<double>(position) / unit * frequencies[i];
      const Rotation<A> rotation(angle);
      cos[i] = static_cast<A>(length) * rotation.cos;
      sin[i] = static_cast<A>(inverse ? -length : length) * rotation.sin;
    });
    const std::int64_t heads = end_head - first_head;
    const bool wide = (half | head | group) % kLanes<S> == 0 && are_aligned(kLanes<S>, y);
    if (part == RotaryPart::whole && wide) return turn_wide<S>(block, cos, sin);
    block.each(groups * heads * half, [&](std::int64_t at) {
      const std::int64_t i = at % half, h = at / half % heads, g = at / half / heads;
      const std::int64_t in_head = token * width + g * group + (first_head + h) * head + i;
      const std::int64_t packed = ((token * groups + g) * heads + h) * 2 * half + i;
      turn<S>(in_head, packed, cos[i], sin[i]);
    });
  }

 private:
  /// Handles 16 bytes of a head's first half and 16 of its second half at a time.
  template <class S, class Block, class A>
  TANDEM_HD void turn_wide(Block& block, const A* cos, const A* sin) const {
    constexpr int n = kLanes<S>;
    const std::int64_t token = block.index(), heads = end_head - first_head, pieces = half / n;
    block.each(groups * heads * pieces, [&](std::int64_t at) {
      const Cell piece = cell_of(at, pieces), place = cell_of(piece.row, heads);
      const std::int64_t i = piece.col * n,
                         first = token * width + place.row * group + (first_head + place.col) * head + i;
      Wide<A, n> a = get<S, n>(y, first), b = get<S, n>(y, first + half);
      const auto c = *reinterpret_cast<const Cells<A, n>*>(cos + i), s = *reinterpret_cast<const Cells<A, n>*>(sin + i);
      TANDEM_UNROLL
      for (int l = 0; l < n; ++l) {
        const A x0 = a[l], x1 = b[l];
        a[l] = x0 * c.v[l] - x1 * s.v[l];
        b[l] = x1 * c.v[l] + x0 * s.v[l];
      }
      put<S>(y, first, a);
      put<S>(y, first + half, b);
    });
  }
  template <class S, class A>
  TANDEM_HD void turn(std::int64_t at, std::int64_t packed, A cos, A sin) const {
    const std::int64_t other = at + half, packed_other = packed + half;
    const A a = part == RotaryPart::sine ? S::get(turned, packed) : S::get(x, at);
    const A b = part == RotaryPart::sine ? S::get(turned, packed_other) : S::get(x, other);
    switch (part) {
      case RotaryPart::whole:
        S::put(y, at, a * cos - b * sin);
        S::put(y, other, b * cos + a * sin);
        break;
      case RotaryPart::swap:
        S::put(turned, packed, -b);
        S::put(turned, packed_other, a);
        break;
      case RotaryPart::cosine:
        S::put(y, at, a * cos);
        S::put(y, other, b * cos);
        break;
      case RotaryPart::sine:
        S::put(turned, packed, a * sin);
        S::put(turned, packed_other, b * sin);
        break;
      case RotaryPart::add:
        S::put(y, at, a + S::get(turned, packed));
        S::put(y, other, b + S::get(turned, packed_other));
        break;
    }
  }
};

}  // namespace tandem::exec::device
