#include "exec/tokenizer/json_tokenizer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "exec/tokenizer/cached_model.hpp"

namespace tandem::exec {
namespace {

class JsonTokenizer final : public Tokenizer {
 public:
  explicit JsonTokenizer(TokenizerParts parts) : parts_(std::move(parts)), model_(*parts_.model) {}

  void encode(std::string_view text, bool special, std::vector<std::int32_t>& ids) override {
    require_encodable(text);
    for (const auto& part : parts_.around)
      if (part.empty()) encode_text(text, ids);
      else if (special) ids.insert(ids.end(), part.begin(), part.end());
  }

  std::optional<std::int32_t> id_of(std::string_view token) const override {
    const auto added = parts_.added.ids.find(token);
    return added != parts_.added.ids.end() ? std::optional(added->second) : parts_.model->vocabulary().find(token);
  }

  std::int64_t vocab_size() const override {
    std::int64_t largest = parts_.model->vocabulary().largest();
    for (const auto& [token, id] : parts_.added.ids) largest = std::max<std::int64_t>(largest, id);
    for (const auto& part : parts_.around)
      for (const std::int32_t id : part) largest = std::max<std::int64_t>(largest, id);
    return largest + 1;
  }

  std::vector<std::string> notes() const override { return parts_.notes; }
  std::string end() const override { return parts_.end; }

 private:
  void encode_text(std::string_view text, std::vector<std::int32_t>& ids) {
    parts_.added.plain.cut(text, [&](const Found& found) {
      if (found.id) return ids.push_back(*found.id);
      const std::string_view part = text.substr(found.begin, found.end - found.begin);
      if (parts_.normalizers.empty()) return encode_normalized(part, found.begin == 0, ids);
      std::string normal(part);
      normalize(parts_.normalizers, normal);
      encode_normalized(normal, found.begin == 0, ids);
    });
  }

  void encode_normalized(std::string_view text, bool first, std::vector<std::int32_t>& ids) {
    parts_.added.normalized.cut(text, [&](const Found& found) {
      if (found.id) return ids.push_back(*found.id);
      const Piece piece{text.substr(found.begin, found.end - found.begin), first && found.begin == 0};
      split_all(parts_.pre_tokenizers, 0, piece, [&](const Piece& part) { model_.tokenize(part.text, ids); });
    });
  }

  TokenizerParts parts_;
  CachedModel model_;
};

/// Refuses what would need to know which characters of the document a normalized piece comes from.
void require_first_known(const Place& place, const TokenizerParts& parts) {
  bool changed = !parts.normalizers.empty();
  const bool whole = parts.added.normalized.empty();
  for (std::size_t i = 0; i < parts.pre_tokenizers.size(); ++i) {
    if (parts.pre_tokenizers[i]->asks_for_first() && changed && !(i == 0 && whole))
      place.at("pre_tokenizer").refuse("has a Metaspace with prepend_scheme \"first\" behind steps that change the text, which this version does not know",
                                       "tokenize with the tokenizers library");
    changed = changed || !parts.pre_tokenizers[i]->keeps_text();
  }
}

}  // namespace

TokenizerParts read_parts(const Place& place, std::unique_ptr<TokenModel> model) {
  place.require_keys({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model"});
  if (const auto version = place.maybe("version"); version && version->text() != "1.0") version->refuse("is not 1.0, the only one there is");
  TokenizerParts out;
  for (const char* key : {"truncation", "padding"})
    if (place.maybe(key)) out.notes.push_back(place.file() + ": " + key + " is left out, as transformers does: documents keep their length");
  if (const auto normalizer = place.maybe("normalizer")) out.normalizers = read_normalizers(*normalizer);
  if (const auto steps = place.maybe("pre_tokenizer")) out.pre_tokenizers = read_pre_tokenizers(*steps);
  out.model = model ? std::move(model) : read_model(place.at("model"));
  if (const auto added = place.maybe("added_tokens")) out.added = read_added_tokens(*added, out.model->vocabulary(), out.normalizers);
  if (const auto processor = place.maybe("post_processor")) out.around = read_post_processor(*processor);
  require_first_known(place, out);
  return out;
}

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerParts parts) { return std::make_unique<JsonTokenizer>(std::move(parts)); }

}  // namespace tandem::exec
