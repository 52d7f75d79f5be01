#include "exec/tokenizer/regex.hpp"

#include "exec/tokenizer/unicode/utf8.hpp"

namespace tandem::exec {

using Kind = RegexStep::Kind;

std::optional<std::pair<std::size_t, std::size_t>> Regex::find(std::string_view text, std::size_t from) {
  for (std::size_t at = from; at <= text.size();) {
    if (const auto found = end(text, at, 0)) return std::pair(at, *found);
    if (at == text.size()) break;
    next_character(text, at);
  }
  return std::nullopt;
}

/// Where a match from `at` and `step` on ends.
std::optional<std::size_t> Regex::end(std::string_view text, std::size_t at, std::ptrdiff_t step) {
  const std::size_t bottom = choices_.size();
  for (;;) {
    if (program_.steps[static_cast<std::size_t>(step)].kind == Kind::accept) return choices_.resize(bottom), at;
    if (!advance(text, at, step) && !back(text, bottom, at, step)) return std::nullopt;
  }
}

/// Performs a step; false if it does not match.
bool Regex::advance(std::string_view text, std::size_t& at, std::ptrdiff_t& step) {
  const std::ptrdiff_t here = step;
  const RegexStep& now = program_.steps[static_cast<std::size_t>(here)];
  step = here + now.first;
  switch (now.kind) {
    case Kind::one: return at < text.size() && now.set->has(next_character(text, at));
    case Kind::many:
    case Kind::few: return repeat(text, at, here);
    case Kind::split: return choices_.push_back({Retry::elsewhere, here + now.second, at, at}), true;
    case Kind::ahead: return end(text, at, here + 1).has_value() != now.negated;
    case Kind::behind: {
      std::size_t before = at == 0 ? 0 : character_before(text, at);
      return (at > 0 && now.set->has(next_character(text, before))) != now.negated;
    }
    case Kind::line_begin: return at == 0 || (text[at - 1] == '\n' && at < text.size());
    case Kind::line_end: return at == text.size() || text[at] == '\n';
    case Kind::jump:
    case Kind::accept: break;
  }
  return true;
}

bool Regex::repeat(std::string_view text, std::size_t& at, std::ptrdiff_t step) {
  const RegexStep& now = program_.steps[static_cast<std::size_t>(step)];
  const std::size_t most = now.kind == Kind::few ? now.least : now.most;
  std::size_t count = 0, least = at;
  while (count < most && at < text.size()) {
    std::size_t behind = at;
    if (!now.set->has(next_character(text, behind))) break;
    at = behind;
    if (++count == now.least) least = at;
  }
  if (count < now.least) return false;
  if (now.kind == Kind::few && now.most > now.least) choices_.push_back({Retry::longer, step, at, now.most - now.least});
  if (now.kind == Kind::many && !now.possessive && count > now.least) choices_.push_back({Retry::shorter, step + 1, at, least});
  return true;
}

/// Takes a character more for a reluctant repetition.
bool Regex::longer(std::string_view text, Choice& choice) const {
  return choice.bound-- > 0 && choice.at < text.size() &&
         program_.steps[static_cast<std::size_t>(choice.step)].set->has(next_character(text, choice.at));
}

/// Takes up the latest choice above `bottom`; false if none is left.
bool Regex::back(std::string_view text, std::size_t bottom, std::size_t& at, std::ptrdiff_t& step) {
  while (choices_.size() > bottom) {
    Choice& top = choices_.back();
    if (top.how == Retry::elsewhere) return at = top.at, step = top.step, choices_.pop_back(), true;
    if (top.how == Retry::shorter && top.at > top.bound) return at = top.at = character_before(text, top.at), step = top.step, true;
    if (top.how == Retry::longer && longer(text, top)) return at = top.at, step = top.step + 1, true;
    choices_.pop_back();
  }
  return false;
}

}  // namespace tandem::exec
