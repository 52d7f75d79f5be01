#pragma once
// exp() without branches or calls, so that compilers vectorise loops that contain it.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "exec/shared/hd.hpp"

namespace tandem::exec {

template <class T>
struct ExpTraits;

// round_bias is 1.5 * 2^(mantissa bits): adding it rounds to an integer, which then stands in the low mantissa bits.
// ln2_high has enough trailing zeros that n * ln2_high is exact for every n in range (Cody and Waite, 1980).
template <>
struct ExpTraits<double> {
  using Bits = std::uint64_t;
  static constexpr int mantissa = 52, degree = 13;
  static constexpr double limit = 708, round_bias = 0x1.8p52, log2e = 0x1.71547652b82fep0;
  static constexpr double ln2_high = 0x1.62e42fee00000p-1, ln2_low = 0x1.a39ef35793c76p-33;
};
template <>
struct ExpTraits<float> {
  using Bits = std::uint32_t;
  static constexpr int mantissa = 23, degree = 7;
  static constexpr float limit = 87, round_bias = 0x1.8p23f, log2e = 0x1.715476p0f;
  static constexpr float ln2_high = 0x1.62ep-1f, ln2_low = 0x1.0bfbe8p-15f;
};

/// 1/k! for k = 0 .. degree: on |r| <= ln2/2 the remainder of the series is below half a unit in the last place.
template <class T>
constexpr auto exp_coefficients() {
  std::array<T, ExpTraits<T>::degree + 1> c{};
  double factorial = 1;
  for (std::size_t k = 0; k < c.size(); ++k) {
    factorial *= k == 0 ? 1.0 : static_cast<double>(k);
    c[k] = static_cast<T>(1 / factorial);
  }
  return c;
}

/// e^x within two units in the last place for |x| <= limit (708 or 87). Below: 0. Above: e^limit. NaN stays NaN.
template <class T>
TANDEM_HD inline T exp_saturating(T x) {
  using Traits = ExpTraits<T>;
  using Bits = typename Traits::Bits;
  constexpr auto c = exp_coefficients<T>();
  const T below = x < -Traits::limit ? -Traits::limit : x;
  const T y = below > Traits::limit ? Traits::limit : below;
  const T shifted = y * Traits::log2e + Traits::round_bias;
  const T n = shifted - Traits::round_bias;
  const T r = (y - n * Traits::ln2_high) - n * Traits::ln2_low;
  T p = c[Traits::degree];
  TANDEM_UNROLL
  for (int k = Traits::degree - 1; k >= 0; --k) p = p * r + c[static_cast<std::size_t>(k)];
  const Bits scaled = std::bit_cast<Bits>(p) + (std::bit_cast<Bits>(shifted) << Traits::mantissa);
  return x < -Traits::limit ? T{0} : std::bit_cast<T>(scaled);
}

/// e^x with an error of up to |x| units in the last place. For sums in which small powers are added to larger ones. A device needs
/// two instructions for it. The host uses exp_saturating.
template <class T>
TANDEM_HD inline T exp_short(T x) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == sizeof(float)) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * ExpTraits<float>::log2e));
    return power;
  }
#endif
  return exp_saturating(x);
}

/// 1 / x; on a device within one unit in the last place.
template <class T>
TANDEM_HD inline T reciprocal(T x) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == sizeof(float)) {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
  }
#endif
  return T{1} / x;
}

}  // namespace tandem::exec
