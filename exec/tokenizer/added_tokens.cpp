#include "exec/tokenizer/added_tokens.hpp"

#include <algorithm>
#include <utility>

#include "exec/tokenizer/unicode/unicode.hpp"
#include "exec/tokenizer/unicode/utf8.hpp"

namespace tandem::exec {
namespace {

std::size_t bytes_of(const std::vector<AddedTokenFinder::Sought>& all) {
  std::size_t bytes = 0;
  for (const auto& one : all) bytes += one.text.size();
  return bytes;
}

/// Where the white space that ends at `end` begins.
std::size_t space_before(std::string_view text, std::size_t end) {
  while (end > 0) {
    const std::size_t begin = character_before(text, end);
    std::size_t at = begin;
    if (!white_space().has(next_character(text, at))) break;
    end = begin;
  }
  return end;
}

std::size_t space_behind(std::string_view text, std::size_t begin) {
  for (std::size_t at = begin; at < text.size(); begin = at)
    if (!white_space().has(next_character(text, at))) break;
  return begin;
}

AddedToken read_token(const Place& place) {
  place.require_keys({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  AddedToken out;
  out.content = place.at("content").text(), out.id = static_cast<std::int32_t>(place.at("id").whole());
  out.single_word = place.at("single_word").flag(), out.lstrip = place.at("lstrip").flag(), out.rstrip = place.at("rstrip").flag();
  out.normalized = place.at("normalized").flag(), out.special = place.at("special").flag();
  return out;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<Sought> all) : sought_(std::move(all)), trie_(bytes_of(sought_)) {
  for (std::size_t i = 0; i < sought_.size(); ++i) {
    trie_.add(sought_[i].text, static_cast<std::int32_t>(i));
    begins_[static_cast<unsigned char>(sought_[i].text.front())] = true;
  }
  const bool alone = std::any_of(sought_.begin(), sought_.end(), [](const Sought& one) { return one.token.single_word; });
  if (alone) words_ = std::make_shared<const CharacterSet>(word_characters());
}

/// Length and number of the longest token that `text` begins with.
std::optional<std::pair<std::size_t, std::int32_t>> AddedTokenFinder::longest(std::string_view text) const {
  if (!begins_[static_cast<unsigned char>(text.front())]) return std::nullopt;
  std::optional<std::pair<std::size_t, std::int32_t>> found;
  trie_.prefixes(text, [&](std::size_t length, std::int32_t number) { found = {length, number}; });
  return found;
}

bool AddedTokenFinder::stands_alone(const AddedToken& token, std::string_view text, const Found& found) const {
  if (!token.single_word) return true;
  if (found.begin > 0) {
    std::size_t before = character_before(text, found.begin);
    if (words_->has(next_character(text, before))) return false;
  }
  std::size_t behind = found.end;
  return found.end == text.size() || !words_->has(next_character(text, behind));
}

void AddedTokenFinder::cut(std::string_view text, const std::function<void(const Found&)>& take) const {
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size() && !empty();) {
    const auto next = longest(text.substr(at));
    if (!next) {
      ++at;
      continue;
    }
    const AddedToken& token = sought_[static_cast<std::size_t>(next->second)].token;
    Found found{at, at + next->first, token.id};
    at = found.end;
    if (!stands_alone(token, text, found)) continue;
    if (token.lstrip) found.begin = std::max(space_before(text, found.begin), done);
    if (token.rstrip) found.end = space_behind(text, found.end);
    if (done < found.begin) take({done, found.begin, std::nullopt});
    take(found);
    done = found.end;
  }
  if (done < text.size()) take({done, text.size(), std::nullopt});
}

AddedTokens read_added_tokens(const Place& place, const Vocabulary& vocabulary, const Normalizers& normalizers) {
  AddedTokens out;
  std::vector<AddedTokenFinder::Sought> plain, normalized;
  auto next = static_cast<std::int32_t>(vocabulary.size());
  for (const Place& one : place.list()) {
    const AddedToken token = read_token(one);
    if (token.content.empty()) continue;
    if (out.ids.count(token.content) != 0) one.refuse("is there twice");
    const auto known = vocabulary.find(token.content);
    if (const std::int32_t id = known ? *known : next++; id != token.id)
      one.at("id").refuse("is not the id that the tokenizers library gives " + token.content + ": " + std::to_string(id), "write the tokenizer again with save_pretrained");
    out.ids.emplace(token.content, token.id);
    std::string text = token.content;
    if (token.normalized) normalize(normalizers, text);
    auto& all = token.normalized ? normalized : plain;
    if (text.empty()) one.refuse("is empty when it is normalized");
    for (const auto& other : all)
      if (other.text == text) one.refuse("is sought by the same text as " + other.token.content);
    all.push_back({text, token});
  }
  out.plain = AddedTokenFinder(std::move(plain)), out.normalized = AddedTokenFinder(std::move(normalized));
  return out;
}

}  // namespace tandem::exec
