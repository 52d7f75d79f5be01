#pragma once
// Kernels that move elements, and rotary embedding.

#include <cmath>

#include "exec/data/sequence_map.hpp"
#include "exec/device/chunk.hpp"
#include "exec/device/typed.hpp"
#include "models/ops/attention.hpp"

namespace tandem::exec::device {

/// Element (a, b, c) of [outer, middle, inner] lies at first + a outer_step + b middle_step + c.
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
    each_in_chunk(block, outer * middle * inner, [&](std::int64_t i) {
      const std::int64_t c = i % inner, b = i / inner % middle, a = i / inner / middle;
      copy(from.first + a * from.outer + b * from.middle + c, to.first + a * to.outer + b * to.middle + c);
    });
  }

 private:
  TANDEM_HD void copy(std::int64_t source, std::int64_t destination) const {
    switch (bits(x.type)) {
      case 16: as<std::uint16_t>(y)[destination] = as<const std::uint16_t>(x)[source]; break;
      case 64: as<std::uint64_t>(y)[destination] = as<const std::uint64_t>(x)[source]; break;
      default: as<std::uint32_t>(y)[destination] = as<const std::uint32_t>(x)[source];
    }
  }
};

inline constexpr std::int64_t kMostPairs = 128;  ///< halves of the longest head that is turned

/// A block for each token: turns its query and key heads, or does one of the passes that frameworks without a fused kernel do.
struct RotaryKernel {
  Form form;
  Typed x, turned, y;  ///< x: what is turned in place is y; `turned`: t of the passes, in or out
  std::int64_t tokens, width, groups, queries;      ///< queries of a group
  std::int64_t first_head, end_head, half;          ///< of a group's query heads and its key
  double frequencies[kMostPairs];                   ///< of each pair; angle = position / unit * frequency
  double unit, length;
  SequenceMap map{1, 1};
  std::int32_t context_rank;
  bool inverse;
  RotaryPart part;

  Grid grid() const { return {tokens, static_cast<std::size_t>(4 * kMostPairs) * sizeof(double)}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t token = block.index();
    A* cos = reinterpret_cast<A*>(block.shared());
    A* sin = cos + half;
    block.each(half, [&](std::int64_t i) {
      const double angle = static_cast<double>(map.position(context_rank, token % map.local_seq)) / unit * frequencies[i];
      cos[i] = static_cast<A>(length * std::cos(angle));
      sin[i] = static_cast<A>((inverse ? -1 : 1)) * static_cast<A>(length * std::sin(angle));
    });
    const std::int64_t heads = end_head - first_head;
    block.each(groups * heads * half, [&](std::int64_t at) {
      const std::int64_t i = at % half, h = at / half % heads, g = at / half / heads;
      const std::int64_t head = token * width + (g * (queries + 2) + first_head + h) * 2 * half + i;
      const std::int64_t packed = ((token * groups + g) * heads + h) * 2 * half + i;
      turn<S>(head, packed, cos[i], sin[i]);
    });
  }

 private:
  template <class S, class A>
  TANDEM_HD void turn(std::int64_t head, std::int64_t packed, A cos, A sin) const {
    const std::int64_t other = head + half, packed_other = packed + half;
    const A a = part == RotaryPart::sine ? S::get(turned, packed) : S::get(x, head);
    const A b = part == RotaryPart::sine ? S::get(turned, packed_other) : S::get(x, other);
    switch (part) {
      case RotaryPart::whole:
        S::put(y, head, a * cos - b * sin);
        S::put(y, other, b * cos + a * sin);
        break;
      case RotaryPart::swap:
        S::put(turned, packed, -b);
        S::put(turned, packed_other, a);
        break;
      case RotaryPart::cosine:
        S::put(y, head, a * cos);
        S::put(y, other, b * cos);
        break;
      case RotaryPart::sine:
        S::put(turned, packed, a * sin);
        S::put(turned, packed_other, b * sin);
        break;
      case RotaryPart::add:
        S::put(y, head, a + S::get(turned, packed));
        S::put(y, other, b + S::get(turned, packed_other));
        break;
    }
  }
};

}  // namespace tandem::exec::device
