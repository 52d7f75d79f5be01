#include "exec/tokenizer/base64.hpp"

#include <cstdint>

namespace tandem::exec {

std::optional<std::string> from_base64(std::string_view text) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  while (text.ends_with('=')) text.remove_suffix(1);
  for (const char c : text) {
    const std::size_t value = digits.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value), count += 6;
    if (count >= 8) count -= 8, out.push_back(static_cast<char>(static_cast<unsigned char>(bits >> count)));
  }
  return out;
}

}  // namespace tandem::exec
