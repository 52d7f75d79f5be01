#pragma once
// The weights of tests/fixtures/formula_weights.py, and a safetensors file of them.

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "exec/checkpoint/safetensors.hpp"

namespace tandem::tests {

/// CRC-32 of zlib (RFC 1952, section 8).
inline std::uint32_t crc32(const std::string& text) {
  std::uint32_t crc = ~0U;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0U);
  }
  return ~crc;
}

/// Values of a tensor in row-major order.
inline std::vector<float> formula_values(const std::string& name, const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t n : shape) count *= n;
  std::uint32_t state = crc32(name) | 1U;
  std::vector<float> out(static_cast<std::size_t>(count));
  const float mean = shape.size() == 1 && name.ends_with("weight") ? 1 : 0;
  for (float& v : out) {
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;  // xorshift (Marsaglia, Journal of Statistical Software 8, 2003)
    v = mean + static_cast<float>(static_cast<int>((state >> 10) % 64) - 32) / 128;
  }
  return out;
}

/// The bytes of a file with these tensors in fp32.
inline std::string formula_file(const std::map<std::string, std::vector<std::int64_t>>& shapes) {
  exec::SafetensorsHeader header;
  std::string body;
  for (const auto& [name, shape] : shapes) {
    const std::vector<float> values = formula_values(name, shape);
    std::string text;
    for (const std::int64_t n : shape) text += (text.empty() ? "[" : ", ") + std::to_string(n);
    header.add(name, "F32", text + "]", values.size() * sizeof(float));
    body.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  return header.text() + body;
}

}  // namespace tandem::tests
