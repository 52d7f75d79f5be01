#include "exec/tokenizer/pre_tokenizer.hpp"

#include <utility>

#include "exec/tokenizer/byte_level.hpp"
#include "exec/tokenizer/metaspace.hpp"
#include "exec/tokenizer/split.hpp"
#include "exec/tokenizer/unicode/unicode.hpp"
#include "exec/tokenizer/unicode/utf8.hpp"

namespace tandem::exec {
namespace {

constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Splits at a pattern.
class PatternSplit final : public PreTokenizer {
 public:
  PatternSplit(std::unique_ptr<Pattern> pattern, SplitBehavior behavior, bool invert = false)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void split(const Piece& piece, const TakePiece& take) override {
    const SegmentJoiner::Take pass = [&](std::size_t begin, std::size_t end) {
      if (begin != end) take({piece.text.substr(begin, end - begin), piece.first && begin == 0});
    };
    SegmentJoiner joiner(behavior_, pass);
    pattern_->cut(piece.text, [&](const Segment& s) { joiner.add({s.begin, s.end, s.match != invert_}); });
    joiner.finish();
  }

 private:
  std::unique_ptr<Pattern> pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

/// Runs of word characters, and runs of what is neither a word nor white space.
class Words final : public PreTokenizer {
 public:
  void split(const Piece& piece, const TakePiece& take) override {
    std::size_t begin = 0;
    int kind = 0;
    const auto pass = [&](std::size_t end) {
      if (kind != 0 && begin != end) take({piece.text.substr(begin, end - begin), piece.first && begin == 0});
    };
    for (std::size_t at = 0; at < piece.text.size();) {
      const std::size_t here = at;
      const char32_t c = next_character(piece.text, at);
      const int now = words_.has(c) ? 1 : white_space().has(c) ? 0 : 2;
      if (now != kind) pass(here), begin = here, kind = now;
    }
    pass(piece.text.size());
  }

 private:
  CharacterSet words_ = word_characters();
};

/// Puts a space before what has none.
class PrefixSpace final : public PreTokenizer {
 public:
  void split(const Piece& piece, const TakePiece& take) override {
    if (piece.text.starts_with(' ')) return take(piece);
    text_ = ' ', text_ += piece.text;
    take({text_, piece.first});
  }
  bool keeps_text() const override { return false; }

 private:
  std::string text_;
};

/// Writes each byte as a character.
class ByteCharacters final : public PreTokenizer {
 public:
  void split(const Piece& piece, const TakePiece& take) override {
    text_.clear();
    append_byte_level(text_, piece.text);
    take({text_, piece.first});
  }
  bool keeps_text() const override { return false; }

 private:
  std::string text_;
};

CharacterSet punctuation() {
  CharacterSet out = category("P", UnicodeOf::bert);
  for (const auto& [first, last] : {std::pair('!', '/'), {':', '@'}, {'[', '`'}, {'{', '~'}})
    out.add(static_cast<char32_t>(first), static_cast<char32_t>(last));
  return out;
}

void add_set(PreTokenizers& steps, CharacterSet set, SplitBehavior behavior) {
  steps.push_back(std::make_unique<PatternSplit>(set_pattern(std::move(set)), behavior));
}

void add_byte_level(const Place& place, PreTokenizers& steps) {
  place.require_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  if (place.at("add_prefix_space").flag()) steps.push_back(std::make_unique<PrefixSpace>());
  if (place.flag_or("use_regex", true))
    steps.push_back(std::make_unique<PatternSplit>(regex_pattern(kGpt2, place.file(), "ByteLevel"), SplitBehavior::isolated));
  steps.push_back(std::make_unique<ByteCharacters>());
}

void add_split(const Place& place, PreTokenizers& steps) {
  place.require_keys({"type", "pattern", "behavior", "invert"});
  steps.push_back(std::make_unique<PatternSplit>(read_pattern(place.at("pattern")), read_behavior(place.at("behavior")), place.at("invert").flag()));
}

void add(const Place& place, PreTokenizers& steps);

void add_sequence(const Place& place, PreTokenizers& steps) {
  place.require_keys({"type", "pretokenizers"});
  for (const Place& inner : place.at("pretokenizers").list()) add(inner, steps);
}

void add(const Place& place, PreTokenizers& steps) {
  const std::string type = place.type();
  if (type == "Sequence") return add_sequence(place, steps);
  if (type == "ByteLevel") return add_byte_level(place, steps);
  if (type == "Split") return add_split(place, steps);
  if (type == "Metaspace") return steps.push_back(read_metaspace(place));
  if (type == "Digits") {
    place.require_keys({"type", "individual_digits"});
    const bool single = place.at("individual_digits").flag();
    return add_set(steps, category("N", UnicodeOf::number), single ? SplitBehavior::isolated : SplitBehavior::contiguous);
  }
  if (type == "Punctuation") {
    place.require_keys({"type", "behavior"});
    const auto behavior = place.maybe("behavior");
    return add_set(steps, punctuation(), behavior ? read_behavior(*behavior) : SplitBehavior::isolated);
  }
  if (type != "Whitespace" && type != "WhitespaceSplit" && type != "BertPreTokenizer")
    place.at("type").refuse("is a pre-tokenizer that this version does not know: it knows BertPreTokenizer, ByteLevel, Digits, Metaspace, "
                            "Punctuation, Sequence, Split, Whitespace and WhitespaceSplit");
  place.require_keys({"type"});
  if (type == "Whitespace") return steps.push_back(std::make_unique<Words>());
  add_set(steps, white_space(), SplitBehavior::removed);
  if (type == "BertPreTokenizer") add_set(steps, punctuation(), SplitBehavior::isolated);
}

}  // namespace

PreTokenizers read_pre_tokenizers(const Place& place) {
  PreTokenizers steps;
  add(place, steps);
  return steps;
}

void split_all(const PreTokenizers& steps, std::size_t step, const Piece& piece, const TakePiece& take) {
  if (step == steps.size()) return take(piece);
  steps[step]->split(piece, [&](const Piece& part) { split_all(steps, step + 1, part, take); });
}

}  // namespace tandem::exec
