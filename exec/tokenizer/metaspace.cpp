#include "exec/tokenizer/metaspace.hpp"

#include <string>
#include <utility>

#include "exec/tokenizer/split.hpp"
#include "exec/tokenizer/unicode/utf8.hpp"

namespace tandem::exec {
namespace {

enum class Scheme { first, never, always };

class Metaspace final : public PreTokenizer {
 public:
  Metaspace(std::string mark, Scheme scheme, bool split)
      : mark_(std::move(mark)), scheme_(scheme), split_(split), pattern_(string_pattern(mark_)) {}

  void split(const Piece& piece, const TakePiece& take) override {
    write(piece);
    if (!split_) return take({text_, piece.first});
    const std::string_view text = text_;
    const SegmentJoiner::Take pass = [&](std::size_t begin, std::size_t end) {
      take({text.substr(begin, end - begin), piece.first && begin == 0});
    };
    SegmentJoiner joiner(SplitBehavior::merged_with_next, pass);
    pattern_->cut(text, [&](const Segment& segment) { joiner.add(segment); });
    joiner.finish();
  }
  bool asks_for_first() const override { return scheme_ == Scheme::first; }
  bool keeps_text() const override { return false; }

 private:
  /// Writes the piece with marks for spaces into text_.
  void write(const Piece& piece) {
    const bool marked = piece.text.starts_with(' ') || piece.text.starts_with(mark_);
    text_.clear();
    if (!marked && (scheme_ == Scheme::always || (scheme_ == Scheme::first && piece.first))) text_ += mark_;
    for (const char c : piece.text)
      if (c == ' ') text_ += mark_;
      else text_ += c;
  }

  std::string mark_;
  Scheme scheme_;
  bool split_;
  std::unique_ptr<Pattern> pattern_;
  std::string text_;
};

Scheme read_scheme(const Place& place) {
  const auto named = place.maybe("prepend_scheme");
  const std::string name = named ? named->text() : "always";
  const bool known = name == "first" || name == "never" || name == "always";
  if (!known) named->refuse("is no scheme: there are first, never and always");
  if (!place.flag_or("add_prefix_space", true)) {
    if (name != "never") place.at("add_prefix_space").refuse("contradicts prepend_scheme " + name, "set prepend_scheme to never");
    return Scheme::never;
  }
  return name == "first" ? Scheme::first : name == "never" ? Scheme::never : Scheme::always;
}

}  // namespace

std::unique_ptr<PreTokenizer> read_metaspace(const Place& place) {
  place.require_keys({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  const std::string mark = place.at("replacement").text();
  std::size_t end = 0;
  if (!mark.empty()) next_character(mark, end);
  if (mark.empty() || end != mark.size()) place.at("replacement").refuse("is not one character");
  return std::make_unique<Metaspace>(mark, read_scheme(place), place.flag_or("split", true));
}

}  // namespace tandem::exec
