#include "exec/tokenizer/precompiled.hpp"

#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "exec/tokenizer/base64.hpp"
#include "exec/tokenizer/unicode/unicode.hpp"
#include "exec/tokenizer/unicode/utf8.hpp"

namespace tandem::exec {
namespace {

/// A trie as darts-clone stores it: each unit has a label, whether a value follows, and the distance to its children.
class Trie {
 public:
  explicit Trie(std::vector<std::uint32_t> units) : units_(std::move(units)) {}

  /// The value of the shortest key that `text` begins with.
  std::optional<std::size_t> shortest_prefix(std::string_view text) const {
    std::size_t node = offset(0);
    for (const char c : text) {
      const auto label = static_cast<unsigned char>(c);
      if (label == 0) break;
      node ^= label;
      if (node >= units_.size() || (units_[node] & 0x800000FFU) != label) break;
      const bool value = (units_[node] >> 8 & 1) != 0;
      node ^= offset(node);
      if (value && node < units_.size()) return units_[node] & 0x7FFFFFFFU;
    }
    return std::nullopt;
  }

 private:
  std::size_t offset(std::size_t node) const { return std::size_t{units_[node] >> 10} << ((units_[node] & 0x200U) >> 6); }

  std::vector<std::uint32_t> units_;
};

class Precompiled final : public Normalizer {
 public:
  Precompiled(Trie trie, std::string replacements) : trie_(std::move(trie)), replacements_(std::move(replacements)) {}

  void normalize(std::string& text) override {
    out_.clear();
    if (is_ascii(text) && text.find('\r') == std::string::npos) add_characters(text);
    else add_graphemes(text);
    std::swap(text, out_);
  }

 private:
  /// The replacement of a string that begins with a key; nothing if there is none.
  std::optional<std::string_view> replacement(std::string_view text) const {
    const auto at = trie_.shortest_prefix(text);
    if (!at || *at >= replacements_.size()) return std::nullopt;
    return std::string_view(replacements_.data() + *at);
  }

  void add_characters(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      next_character(text, at);
      const std::string_view character = text.substr(begin, at - begin);
      out_ += replacement(character).value_or(character);
    }
  }

  /// Looks up short graphemes as a whole, as the library does.
  void add_graphemes(const std::string& text) {
    GraphemeEnds ends(text);
    std::size_t begin = 0;
    for (std::size_t end = ends.next(); end != std::string::npos; begin = end, end = ends.next()) {
      const std::string_view grapheme = std::string_view(text).substr(begin, end - begin);
      const auto whole = grapheme.size() < kShort ? replacement(grapheme) : std::nullopt;
      if (whole) out_ += *whole;
      else add_characters(grapheme);
    }
  }

  static constexpr std::size_t kShort = 6;

  Trie trie_;
  std::string replacements_, out_;
};

}  // namespace

std::unique_ptr<Normalizer> read_precompiled(const Place& place) {
  place.require_keys({"type", "precompiled_charsmap"});
  const Place map = place.at("precompiled_charsmap");
  const auto bytes = from_base64(map.text());
  std::uint32_t size = 0;
  if (!bytes || bytes->size() < sizeof size) map.refuse("is no base64 text of a table of replacements");
  std::memcpy(&size, bytes->data(), sizeof size);
  if (size == 0 || size % 4 != 0 || size > bytes->size() - sizeof size) map.refuse("is damaged: its trie takes " + std::to_string(size) + " bytes");
  std::vector<std::uint32_t> units(size / 4);
  std::memcpy(units.data(), bytes->data() + sizeof size, size);
  return std::make_unique<Precompiled>(Trie(std::move(units)), bytes->substr(sizeof size + size));
}

}  // namespace tandem::exec
