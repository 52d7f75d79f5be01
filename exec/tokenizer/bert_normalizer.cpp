#include "exec/tokenizer/bert_normalizer.hpp"

#include "exec/tokenizer/unicode/unicode.hpp"
#include "exec/tokenizer/unicode/utf8.hpp"

namespace tandem::exec {
namespace {

struct Options {
  bool clean, spread_chinese, strip_accents, lower;
};

/// Blocks of Chinese characters, as BERT's tokenization.py lists them.
CharacterSet chinese() {
  CharacterSet out;
  out.add(0x4E00, 0x9FFF), out.add(0x3400, 0x4DBF), out.add(0x20000, 0x2A6DF), out.add(0x2A700, 0x2B73F);
  out.add(0x2B740, 0x2B81F), out.add(0x2B920, 0x2CEAF), out.add(0xF900, 0xFAFF), out.add(0x2F800, 0x2FA1F);
  return out;
}

CharacterSet control() {
  CharacterSet out = category("Cc", UnicodeOf::control);
  out |= category("Cf", UnicodeOf::control);
  out |= category("Co", UnicodeOf::pattern);
  for (const char32_t kept : {'\t', '\n', '\r'}) out.remove(kept);
  out.add(0xFFFD);
  return out;
}

class BertNormalizer final : public Normalizer {
 public:
  explicit BertNormalizer(const Options& options) : options_(options) {}

  void normalize(std::string& text) override {
    if (options_.clean) remove_characters(text, control_), make_spaces(text, white_space());
    if (options_.spread_chinese && !is_ascii(text)) spread(text);
    if (options_.strip_accents && !is_ascii(text)) text = normalized(text, Form::nfd), remove_characters(text, marks_);
    if (options_.lower) text = lower_case(text);
  }

 private:
  void spread(std::string& text) const {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      const bool apart = chinese_.has(next_character(text, at));
      if (apart) out += ' ';
      out.append(text, begin, at - begin);
      if (apart) out += ' ';
    }
    text = std::move(out);
  }

  Options options_;
  CharacterSet control_ = control(), chinese_ = chinese(), marks_ = category("Mn", UnicodeOf::bert);
};

}  // namespace

void remove_characters(std::string& text, const CharacterSet& set) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (!set.has(next_character(text, at))) out.append(text, begin, at - begin);
  }
  text = std::move(out);
}

void make_spaces(std::string& text, const CharacterSet& set) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (set.has(next_character(text, at))) out += ' ';
    else out.append(text, begin, at - begin);
  }
  text = std::move(out);
}

std::string lower_case(const std::string& text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (c < 0x80) out += static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
    else append_lower(out, c);
  }
  return out;
}

std::unique_ptr<Normalizer> read_bert_normalizer(const Place& place) {
  place.require_keys({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  const bool lower = place.at("lowercase").flag();
  return std::make_unique<BertNormalizer>(
      Options{place.at("clean_text").flag(), place.at("handle_chinese_chars").flag(), place.flag_or("strip_accents", lower), lower});
}

}  // namespace tandem::exec
