#pragma once
// Two 16-bit numbers in one word. A device converts them by its own instructions, the host by models/base/narrow. Both round alike;
// only the bits of a NaN may differ.

#include <cstdint>

#include "exec/shared/hd.hpp"
#include "models/base/narrow.hpp"

namespace tandem::exec {

struct Bf16Pairs {
  static TANDEM_HD float low(std::uint32_t pair) { return std::bit_cast<float>(pair << 16); }
  static TANDEM_HD float high(std::uint32_t pair) { return std::bit_cast<float>(pair & 0xFFFF0000U); }
  static TANDEM_HD std::uint32_t pair(float low, float high) {
#ifdef __CUDA_ARCH__
    std::uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
#else
    return static_cast<std::uint32_t>(to_bf16(high)) << 16 | to_bf16(low);
#endif
  }
};

struct Fp16Pairs {
  static TANDEM_HD float low(std::uint32_t pair) { return number(static_cast<std::uint16_t>(pair)); }
  static TANDEM_HD float high(std::uint32_t pair) { return number(static_cast<std::uint16_t>(pair >> 16)); }
  static TANDEM_HD std::uint32_t pair(float low, float high) {
#ifdef __CUDA_ARCH__
    std::uint32_t word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
#else
    return static_cast<std::uint32_t>(to_fp16(high)) << 16 | to_fp16(low);
#endif
  }

 private:
  static TANDEM_HD float number(std::uint16_t bits) {
#ifdef __CUDA_ARCH__
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(bits));
    return wide;
#else
    return from_fp16(bits);
#endif
  }
};

}  // namespace tandem::exec
