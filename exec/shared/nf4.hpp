#pragma once
// NormalFloat of 4 bits (QLoRA, arXiv 2305.14314 section 3): 16 numbers between -1 and 1, times the largest magnitude of 64 elements.
// The numbers are those of bitsandbytes (bitsandbytes/functional.py, get_4bit_type). A byte has two codes, the first one in its upper
// half (csrc/kernels.cu, kQuantizeBlockwise).

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "exec/shared/hd.hpp"

namespace tandem::exec {

struct Nf4Block {
  static constexpr int kElements = 64;
  std::uint8_t codes[kElements / 2];
  float scale;

  TANDEM_HD static float number(int code) {
    constexpr float numbers[16] = {-1.0f,
                                   -0.6961928009986877f,
                                   -0.5250730514526367f,
                                   -0.39491748809814453f,
                                   -0.28444138169288635f,
                                   -0.18477343022823334f,
                                   -0.09105003625154495f,
                                   0.0f,
                                   0.07958029955625534f,
                                   0.16093020141124725f,
                                   0.24611230194568634f,
                                   0.33791524171829224f,
                                   0.44070982933044434f,
                                   0.5626170039176941f,
                                   0.7229568362236023f,
                                   1.0f};
    return numbers[code];
  }
  TANDEM_HD int code(int i) const { return i % 2 == 0 ? codes[i / 2] >> 4 : codes[i / 2] & 15; }
  TANDEM_HD float value(int i) const { return number(code(i)) * scale; }
};
static_assert(sizeof(Nf4Block) == 36);

/// The code of the nearest number. Midway between two it is the lower one.
inline int nf4_code(float x) {
  int code = 0;
  while (code < 15 && x > (Nf4Block::number(code) + Nf4Block::number(code + 1)) / 2) ++code;
  return code;
}

/// The block of 64 numbers.
inline Nf4Block nf4_block(const float* from) {
  Nf4Block block{};
  for (int i = 0; i < Nf4Block::kElements; ++i) block.scale = std::max(block.scale, std::abs(from[i]));
  const float inverse = block.scale > 0 ? 1 / block.scale : 0;
  for (int i = 0; i < Nf4Block::kElements; i += 2)
    block.codes[i / 2] = static_cast<std::uint8_t>(nf4_code(from[i] * inverse) << 4 | nf4_code(from[i + 1] * inverse));
  return block;
}

}  // namespace tandem::exec
