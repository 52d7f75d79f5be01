#include "exec/tokenizer/byte_level.hpp"

#include <array>

#include "exec/tokenizer/unicode/utf8.hpp"

namespace tandem::exec {
namespace {

/// Printable bytes of Latin-1 stand for themselves; the others follow each other from U+0100 on.
std::array<std::string, 256> make_characters() {
  std::array<std::string, 256> out;
  char32_t next = 0x100;
  for (char32_t b = 0; b < 256; ++b) {
    const bool itself = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    append_character(out[b], itself ? b : next++);
  }
  return out;
}

}  // namespace

void append_byte_level(std::string& out, std::string_view text) {
  static const std::array<std::string, 256> characters = make_characters();
  for (const char c : text) out += characters[static_cast<unsigned char>(c)];
}

}  // namespace tandem::exec
