#pragma once
// One member's slice of a reduction over ranks that share a device.

#include "exec/device/chunk.hpp"
#include "exec/device/typed.hpp"
#include "models/ops/communication.hpp"

namespace tandem::exec::device {

inline constexpr int kMostMembers = 64;

/// Left fold of elements [begin, begin + count) over the members in ascending order. 16-bit types are summed in fp32 and rounded
/// once. Results go to every output from element `to` on.
struct FoldKernel {
  Form form;
  const std::byte* in[kMostMembers];
  std::byte* out[kMostMembers];
  int members, outputs;
  std::int64_t begin, count, to;  ///< to: element of an output that receives the first result
  DType type;
  Reduce reduce;

  template <class Variant>
  static constexpr int kResident = 4;
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
    constexpr int kWidth = 16 / sizeof(Stored);
    each_wide<kWidth>(block, count, may(kWidth), [&](auto lanes, std::int64_t i) {
      constexpr int n = decltype(lanes)::n;
      Wide<Sum, n> sum = get<Sum, Stored, n>(0, i);
      for (int m = 1; m < members; ++m) {
        const Wide<Sum, n> next = get<Sum, Stored, n>(m, i);
        TANDEM_UNROLL
        for (int l = 0; l < n; ++l) sum[l] = reduce == Reduce::sum ? sum[l] + next[l] : sum[l] < next[l] ? next[l] : sum[l];
      }
      for (int o = 0; o < outputs; ++o) put<Sum, Stored, n>(o, i, sum);
    });
  }
  /// True if every operand's elements can be read `lanes` at a time.
  TANDEM_HD bool may(int lanes) const {
    bool all = ((begin | to) & (lanes - 1)) == 0;
    for (int m = 0; m < members; ++m) all = all && is_aligned({const_cast<std::byte*>(in[m]), type}, lanes);
    for (int o = 0; o < outputs; ++o) all = all && is_aligned({out[o], type}, lanes);
    return all;
  }
  template <class Sum, class Stored, int n>
  TANDEM_HD Wide<Sum, n> get(int member, std::int64_t i) const {
    const auto cells = load_cells<Stored, n>({const_cast<std::byte*>(in[member]), type}, begin + i);
    if constexpr (sizeof(Stored) == 2)
      return type == DType::bf16 ? numbers_of_pairs<Bf16Pairs, Sum, n>(cells) : numbers_of_pairs<Fp16Pairs, Sum, n>(cells);
    else
      return numbers_of<Sum>(cells);
  }
  template <class Sum, class Stored, int n>
  TANDEM_HD void put(int output, std::int64_t i, const Wide<Sum, n>& sum) const {
    const Typed at{out[output], type};
    if constexpr (sizeof(Stored) == 2)
      store_cells(at, to + i, type == DType::bf16 ? pairs_of<Bf16Pairs>(sum) : pairs_of<Fp16Pairs>(sum));
    else
      store_cells(at, to + i, cells_of<Stored>(sum));
  }
};

}  // namespace tandem::exec::device
