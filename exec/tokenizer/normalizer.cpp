#include "exec/tokenizer/normalizer.hpp"

#include <optional>
#include <utility>

#include "exec/tokenizer/bert_normalizer.hpp"
#include "exec/tokenizer/byte_level.hpp"
#include "exec/tokenizer/pattern.hpp"
#include "exec/tokenizer/precompiled.hpp"
#include "exec/tokenizer/unicode/unicode.hpp"
#include "exec/tokenizer/unicode/utf8.hpp"

namespace tandem::exec {
namespace {

class Unicode final : public Normalizer {
 public:
  explicit Unicode(Form form) : form_(form) {}
  void normalize(std::string& text) override {
    if (!is_ascii(text)) text = normalized(text, form_);
  }

 private:
  Form form_;
};

class Lowercase final : public Normalizer {
 public:
  void normalize(std::string& text) override { text = lower_case(text); }
};

class StripAccents final : public Normalizer {
 public:
  void normalize(std::string& text) override { remove_characters(text, marks_); }

 private:
  CharacterSet marks_ = category("M", UnicodeOf::normalization);
};

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void normalize(std::string& text) override {
    std::size_t begin = 0, end = text.size();
    for (std::size_t at = 0; left_ && at < end && white_space().has(next_character(text, at));) begin = at;
    while (right_ && end > begin) {
      const std::size_t before = character_before(text, end);
      std::size_t at = before;
      if (!white_space().has(next_character(text, at))) break;
      end = before;
    }
    text = text.substr(begin, end - begin);
  }

 private:
  bool left_, right_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string text) : text_(std::move(text)) {}
  void normalize(std::string& text) override {
    if (!text.empty()) text.insert(0, text_);
  }

 private:
  std::string text_;
};

class Replace final : public Normalizer {
 public:
  Replace(std::unique_ptr<Pattern> pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void normalize(std::string& text) override {
    out_.clear();
    pattern_->cut(text, [&](const Segment& s) {
      if (s.match) out_ += content_;
      else out_.append(text, s.begin, s.end - s.begin);
    });
    std::swap(text, out_);
  }

 private:
  std::unique_ptr<Pattern> pattern_;
  std::string content_, out_;
};

/// Removes control characters and makes odd spaces plain, as sentencepiece's rule "nmt".
class Nmt final : public Normalizer {
 public:
  Nmt() {
    removed_.add(0x01, 0x08), removed_.add(0x0E, 0x1F);
    for (const char32_t c : {0x0B, 0x7F, 0x8F, 0x9F}) removed_.add(c);
    for (const char32_t c : {0x09, 0x0A, 0x0C, 0x0D, 0x1680, 0x2028, 0x2029, 0x2581, 0xFEFF, 0xFFFD}) spaces_.add(c);
    spaces_.add(0x200B, 0x200F);
  }
  void normalize(std::string& text) override { remove_characters(text, removed_), make_spaces(text, spaces_); }

 private:
  CharacterSet removed_, spaces_;
};

class ByteCharacters final : public Normalizer {
 public:
  void normalize(std::string& text) override {
    std::string out;
    append_byte_level(out, text);
    text = std::move(out);
  }
};

void add(const Place& place, Normalizers& steps);

void add_sequence(const Place& place, Normalizers& steps) {
  place.require_keys({"type", "normalizers"});
  for (const Place& inner : place.at("normalizers").list()) add(inner, steps);
}

std::optional<Form> form_of(const std::string& type) {
  if (type == "NFC") return Form::nfc;
  if (type == "NFD") return Form::nfd;
  if (type == "NFKC") return Form::nfkc;
  if (type == "NFKD") return Form::nfkd;
  return std::nullopt;
}

std::unique_ptr<Normalizer> read_replace(const Place& place) {
  place.require_keys({"type", "pattern", "content"});
  return std::make_unique<Replace>(read_pattern(place.at("pattern")), place.at("content").text());
}

std::unique_ptr<Normalizer> read_strip(const Place& place) {
  place.require_keys({"type", "strip_left", "strip_right"});
  return std::make_unique<Strip>(place.at("strip_left").flag(), place.at("strip_right").flag());
}

/// A normalizer without fields; null for other types.
std::unique_ptr<Normalizer> plain(const std::string& type) {
  if (const auto form = form_of(type)) return std::make_unique<Unicode>(*form);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "Nmt") return std::make_unique<Nmt>();
  if (type == "ByteLevel") return std::make_unique<ByteCharacters>();
  return nullptr;
}

void add(const Place& place, Normalizers& steps) {
  const std::string type = place.type();
  if (type == "Sequence") return add_sequence(place, steps);
  if (type == "BertNormalizer") return steps.push_back(read_bert_normalizer(place));
  if (type == "Precompiled") return steps.push_back(read_precompiled(place));
  if (type == "Replace") return steps.push_back(read_replace(place));
  if (type == "Strip") return steps.push_back(read_strip(place));
  if (type == "Prepend") {
    place.require_keys({"type", "prepend"});
    return steps.push_back(std::make_unique<Prepend>(place.at("prepend").text()));
  }
  auto made = plain(type);
  if (!made)
    place.at("type").refuse("is a normalizer that this version does not know: it knows BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, "
                            "NFKD, Nmt, Precompiled, Prepend, Replace, Sequence, Strip and StripAccents");
  place.require_keys({"type"});
  steps.push_back(std::move(made));
}

}  // namespace

Normalizers read_normalizers(const Place& place) {
  Normalizers steps;
  add(place, steps);
  return steps;
}

void normalize(const Normalizers& steps, std::string& text) {
  for (const auto& step : steps)
    if (!text.empty()) step->normalize(text);
}

}  // namespace tandem::exec
