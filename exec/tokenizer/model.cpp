#include "exec/tokenizer/model.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace tandem::exec {

void Vocabulary::add(std::string token, std::int32_t id) {
  largest_ = std::max<std::int64_t>(largest_, id);
  ids_.insert_or_assign(std::move(token), id);
}

std::optional<std::int32_t> Vocabulary::find(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::vector<std::int32_t>> Vocabulary::bytes(std::string_view text) const {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::vector<std::int32_t> out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const auto id = find(std::string("<0x") + digits[byte >> 4] + digits[byte & 15] + '>');
    if (!id) return std::nullopt;
    out.push_back(*id);
  }
  return out;
}

Vocabulary read_vocabulary(const Place& place) {
  if (!place.json().is_object()) place.refuse("is no object of tokens and ids");
  Vocabulary out;
  for (const auto& [token, id] : place.json().items()) {
    const bool fits = id.is_number_integer() && id.get<std::int64_t>() >= 0 && id.get<std::int64_t>() < 0x7FFFFFFF;
    if (!fits) place.at(token).refuse("is no id from 0 to 2,147,483,646");
    out.add(token, id.get<std::int32_t>());
  }
  return out;
}

std::unique_ptr<TokenModel> read_model(const Place& place) {
  if (!place.maybe("type")) place.refuse("does not say its type", "write the tokenizer again with a newer version of transformers");
  const std::string type = place.type();
  if (type == "BPE") return read_bpe(place);
  if (type == "WordPiece") return read_word_piece(place);
  if (type == "WordLevel") return read_word_level(place);
  if (type == "Unigram") return read_unigram(place);
  place.at("type").refuse("is a model that this version does not know: it knows BPE, Unigram, WordLevel and WordPiece");
}

}  // namespace tandem::exec
