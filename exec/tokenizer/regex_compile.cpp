#include <algorithm>
#include <limits>

#include "exec/tokenizer/character_class.hpp"
#include "exec/tokenizer/regex.hpp"

namespace tandem::exec {
namespace {

using Kind = RegexStep::Kind;
constexpr std::size_t kEndless = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kMostCopies = 1000;
constexpr std::size_t kMostSteps = 100'000;

/// Steps of a part of an expression; distances stay right wherever it is put.
struct Part {
  std::vector<RegexStep> steps;
  bool may_be_empty = true;

  std::ptrdiff_t size() const { return static_cast<std::ptrdiff_t>(steps.size()); }
  bool is_one() const { return steps.size() == 1 && steps[0].kind == Kind::one; }
  void add(const RegexStep& step) { steps.push_back(step); }
  void add(const Part& part) { steps.insert(steps.end(), part.steps.begin(), part.steps.end()); }
};

struct Times {
  std::size_t least, most;
  bool interval;
};

class Compiler {
 public:
  explicit Compiler(RegexText text) : text_(std::move(text)) {}

  RegexProgram whole() {
    Part all = alternatives();
    if (!text_.ended()) text_.refuse(text_.at, "closes no group");
    all.add({Kind::accept});
    return {std::move(all.steps), std::move(sets_)};
  }

 private:
  Part alternatives() {
    Part out = sequence();
    if (!text_.take("|")) return out;
    const Part rest = alternatives();
    Part both;
    both.add({.kind = Kind::split, .first = 1, .second = out.size() + 2});
    both.add(out);
    both.add({.kind = Kind::jump, .first = rest.size() + 1});
    both.add(rest);
    both.may_be_empty = out.may_be_empty || rest.may_be_empty;
    return both;
  }

  Part sequence() {
    Part out;
    before_ = 0;
    while (!text_.ended() && !text_.sees("|") && !text_.sees(")")) {
      const std::size_t from = text_.at;
      Part next = repeated(atom(), from);
      out.may_be_empty = out.may_be_empty && next.may_be_empty;
      out.add(next);
      if (out.steps.size() > kMostSteps) text_.refuse(from, "makes the expression too long");
    }
    return out;
  }

  Part atom() {
    const std::size_t from = text_.at;
    const char32_t before = std::exchange(before_, 0);
    if (text_.take("(")) return group(from);
    if (text_.take("[")) return one(read_class(text_, any_case_));
    if (text_.take("^")) return mark({Kind::line_begin});
    if (text_.take("$")) return mark({Kind::line_end});
    if (text_.take(".")) return one(~single('\n'));
    if (text_.sees("*") || text_.sees("+") || text_.sees("?")) text_.refuse(from, "repeats nothing");
    const Escape read = text_.take("\\") ? read_escape(text_) : Escape{std::nullopt, text_.character()};
    if (read.set) return one(*read.set);
    return any_case_ ? letter(from, before, read.character) : one(single(read.character));
  }

  /// A character under (?i). Pairs of letters that one character folds to are refused.
  Part letter(std::size_t from, char32_t before, char32_t c) {
    if (c >= 0x80) text_.refuse(from, "is not ASCII under (?i), which this version does not know");
    const char pair[] = {static_cast<char>(before | 0x20), static_cast<char>(c | 0x20), 0};
    for (const std::string_view folded : {"ss", "st", "ff", "fi", "fl"})
      if (before != 0 && folded == pair) text_.refuse(from - 1, "is a ligature under (?i), which this version does not know");
    before_ = c;
    CharacterSet set;
    add_any_case(set, c);
    return one(std::move(set));
  }

  Part group(std::size_t from) {
    if (text_.take("?=")) return look(false);
    if (text_.take("?!")) return look(true);
    if (text_.take("?<=")) return behind(from, false);
    if (text_.take("?<!")) return behind(from, true);
    const bool before = any_case_;
    if (text_.take("?i:")) any_case_ = true;
    else if (text_.sees("?") && !text_.take("?:")) text_.at += 2, text_.refuse(from, "is a group that this version does not know: it knows (?:...), (?i:...), (?=...), (?!...), (?<=.) and (?<!.)");
    Part inner = closed(from);
    any_case_ = before;
    return inner;
  }

  Part closed(std::size_t from) {
    Part inner = alternatives();
    if (!text_.take(")")) text_.refuse(from, "is not closed");
    before_ = 0;
    return inner;
  }

  Part look(bool negated) {
    const Part inner = closed(text_.at);
    Part out;
    out.add({.kind = Kind::ahead, .first = inner.size() + 2, .negated = negated});
    out.add(inner);
    out.add({Kind::accept});
    return out;
  }

  Part behind(std::size_t from, bool negated) {
    const Part inner = closed(from);
    if (!inner.is_one()) text_.refuse(from, "looks behind at more than one character, which this version does not know");
    return mark({.kind = Kind::behind, .set = inner.steps[0].set, .negated = negated});
  }

  Part mark(const RegexStep& step) {
    Part out;
    out.add(step);
    return out;
  }

  static CharacterSet single(char32_t c) {
    CharacterSet set;
    set.add(c);
    return set;
  }

  Part one(CharacterSet set) {
    sets_.push_back(std::make_unique<CharacterSet>(std::move(set)));
    Part out{{{.kind = Kind::one, .set = sets_.back().get()}}, false};
    return out;
  }

  std::size_t digits() {
    std::size_t value = 0;
    const std::size_t from = text_.at;
    while (!text_.ended() && text_.pattern[text_.at] >= '0' && text_.pattern[text_.at] <= '9') {
      value = value * 10 + static_cast<std::size_t>(text_.pattern[text_.at++] - '0');
      if (value > kMostCopies) text_.refuse(from, "is too many repetitions");
    }
    return value;
  }

  std::optional<Times> times() {
    if (text_.take("*")) return Times{0, kEndless, false};
    if (text_.take("+")) return Times{1, kEndless, false};
    if (text_.take("?")) return Times{0, 1, false};
    const std::size_t from = text_.at;
    if (!text_.take("{")) return std::nullopt;
    Times out{digits(), 0, true};
    out.most = out.least;
    const bool none = text_.at == from + 1;
    if (text_.take(",")) out.most = text_.sees("}") && !none ? kEndless : digits();
    if (!text_.take("}") || out.most < out.least || out.most == 0) text_.refuse(from, "is no number of repetitions");
    if (out.least == out.most && text_.sees("?")) text_.refuse(from, "is repeated reluctantly, which this version does not know");
    return out;
  }

  Part repeated(Part part, std::size_t from) {
    auto wanted = times();
    if (!wanted) return part;
    before_ = 0;
    const bool few = text_.take("?"), possessive = !few && !wanted->interval && text_.take("+");
    if (possessive && !part.is_one()) text_.refuse(from, "keeps what a group took, which this version does not know");
    Part out = copies(part, *wanted, {few, possessive}, from);
    if (!few && wanted->interval && text_.take("+")) out = copies(out, {1, kEndless, false}, {false, false}, from);  // as Oniguruma reads it
    if (text_.sees("*") || text_.sees("+") || text_.sees("?") || text_.sees("{")) text_.refuse(from, "is repeated twice");
    return out;
  }

  struct Greediness {
    bool few, possessive;
  };

  Part copies(const Part& part, const Times& times, Greediness greediness, std::size_t from) {
    if (part.is_one()) {
      RegexStep step = part.steps[0];
      step.kind = greediness.few ? Kind::few : Kind::many, step.possessive = greediness.possessive;
      step.least = times.least, step.most = times.most;
      return {{step}, times.least == 0};
    }
    if (part.may_be_empty) text_.refuse(from, "repeats what may be empty, which this version does not know");
    Part out;
    for (std::size_t i = 0; i < times.least; ++i) out.add(part);
    if (times.most == kEndless) out.add(optional(part, greediness, true));
    else out.add(nested(part, times.most - times.least, greediness));
    out.may_be_empty = times.least == 0;
    return out;
  }

  /// Up to `count` copies: each only behind the one before.
  static Part nested(const Part& part, std::size_t count, Greediness greediness) {
    Part out;
    for (std::size_t i = 0; i < count; ++i) {
      Part inner = part;
      inner.add(out);
      out = optional(inner, greediness, false);
    }
    return out;
  }

  static Part optional(const Part& part, Greediness greediness, bool again) {
    RegexStep split{.kind = Kind::split, .first = 1, .second = part.size() + (again ? 2 : 1)};
    if (greediness.few) std::swap(split.first, split.second);
    Part out;
    out.add(split);
    out.add(part);
    if (again) out.add({.kind = Kind::jump, .first = -part.size() - 1});
    return out;
  }

  RegexText text_;
  std::vector<std::unique_ptr<CharacterSet>> sets_;
  bool any_case_ = false;
  char32_t before_ = 0;  ///< the letter before, under (?i)
};

}  // namespace

RegexProgram compile_regex(const std::string& pattern, const std::string& file, const std::string& field) {
  return Compiler({pattern, file, field}).whole();
}

}  // namespace tandem::exec
