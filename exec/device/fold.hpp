#pragma once
// A member's slice of a reduction over ranks that share a device.

#include "exec/device/chunk.hpp"
#include "exec/device/typed.hpp"
#include "models/ops/communication.hpp"

namespace tandem::exec::device {

inline constexpr int kMostMembers = 64;

/// Left fold of elements [begin, begin + count) over the members in ascending order, in fp32 where they have 16 bits, rounded once. To
/// every output at its place, or to one, whose first element is that of `begin`.
struct FoldKernel {
  Form form;
  const std::byte* in[kMostMembers];
  std::byte* out[kMostMembers];
  int members, outputs;
  std::int64_t begin, count, to;  ///< to: element of an output where the first result goes
  DType type;
  Reduce reduce;

  Grid grid() const { return chunks(count); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    switch (type) {
      case DType::fp64: return fold<double, double>(block);
      case DType::int32: return fold<std::int32_t, std::int32_t>(block);
      case DType::int64: return fold<std::int64_t, std::int64_t>(block);
      case DType::bf16:
      case DType::fp16: return fold<float, std::uint16_t>(block);
      default: return fold<float, float>(block);
    }
  }

 private:
  template <class Sum, class Stored, class Block>
  TANDEM_HD void fold(Block& block) const {
    each_in_chunk(block, count, [&](std::int64_t i) {
      Sum sum = get<Sum, Stored>(0, i);
      for (int m = 1; m < members; ++m) {
        const Sum next = get<Sum, Stored>(m, i);
        sum = reduce == Reduce::sum ? sum + next : sum < next ? next : sum;
      }
      for (int o = 0; o < outputs; ++o) put<Sum, Stored>(o, i, sum);
    });
  }
  template <class Sum, class Stored>
  TANDEM_HD Sum get(int member, std::int64_t i) const {
    const Stored value = reinterpret_cast<const Stored*>(in[member])[begin + i];
    if constexpr (sizeof(Stored) == 2)
      return type == DType::bf16 ? from_bf16(value) : from_fp16(value);
    else
      return value;
  }
  template <class Sum, class Stored>
  TANDEM_HD void put(int output, std::int64_t i, Sum value) const {
    auto* at = reinterpret_cast<Stored*>(out[output]) + to + i;
    if constexpr (sizeof(Stored) == 2)
      *at = type == DType::bf16 ? to_bf16(value) : to_fp16(value);
    else
      *at = value;
  }
};

}  // namespace tandem::exec::device
