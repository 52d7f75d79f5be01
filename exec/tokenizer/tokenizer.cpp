#include "exec/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "exec/tokenizer/added_tokens.hpp"
#include "exec/tokenizer/cached_model.hpp"
#include "exec/tokenizer/post_processor.hpp"
#include "exec/tokenizer/pre_tokenizer.hpp"
#include "exec/tokenizer/unicode/utf8.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr std::size_t kMostBytes = std::size_t{512} << 20;

/// The parts of tokenizer.json.
struct Parts {
  std::string file;
  Normalizers normalizers;
  PreTokenizers pre_tokenizers;
  std::unique_ptr<TokenModel> model;
  AddedTokens added;
  Template around{{}};
  std::vector<std::string> notes;
};

/// Bytes of a document. ICU counts bytes in 32 bits, and a normalizer may lengthen a text up to eighteen times, by fewer in practice.
constexpr std::size_t kLongest = std::size_t{256} << 20;

class JsonTokenizer final : public Tokenizer {
 public:
  explicit JsonTokenizer(Parts parts) : parts_(std::move(parts)), model_(*parts_.model) {}

  void encode(std::string_view text, bool special, std::vector<std::int32_t>& ids) override {
    if (text.size() > kLongest)
      throw ConfigError(Problem{"", "text", std::to_string(text.size()) + " bytes", "is longer than a document may be, 256 MiB",
                                "cut it into documents: tokenize --split-lines, or a .jsonl file"});
    if (const std::size_t at = invalid_utf8(text); at != std::string_view::npos)
      throw ConfigError(Problem{"", "text", "byte " + std::to_string(at), "is not UTF-8", "convert the text to UTF-8"});
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

  Parts parts_;
  CachedModel model_;
};

/// Refuses what would need to know which characters of the document a normalized piece comes from.
void require_first_known(const Place& place, const Parts& parts) {
  bool changed = !parts.normalizers.empty();
  const bool whole = parts.added.normalized.empty();
  for (std::size_t i = 0; i < parts.pre_tokenizers.size(); ++i) {
    if (parts.pre_tokenizers[i]->asks_for_first() && changed && !(i == 0 && whole))
      place.at("pre_tokenizer").refuse("has a Metaspace with prepend_scheme \"first\" behind steps that change the text, which this version does not know",
                                       "tokenize with the tokenizers library");
    changed = changed || !parts.pre_tokenizers[i]->keeps_text();
  }
}

Parts read_parts(const Place& place) {
  place.require_keys({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model"});
  if (const auto version = place.maybe("version"); version && version->text() != "1.0") version->refuse("is not 1.0, the only one there is");
  Parts out;
  out.file = place.file();
  for (const char* key : {"truncation", "padding"})
    if (place.maybe(key)) out.notes.push_back(place.file() + ": " + key + " is left out, as transformers does: documents keep their length");
  if (const auto normalizer = place.maybe("normalizer")) out.normalizers = read_normalizers(*normalizer);
  if (const auto steps = place.maybe("pre_tokenizer")) out.pre_tokenizers = read_pre_tokenizers(*steps);
  out.model = read_model(place.at("model"));
  if (const auto added = place.maybe("added_tokens")) out.added = read_added_tokens(*added, out.model->vocabulary(), out.normalizers);
  if (const auto processor = place.maybe("post_processor")) out.around = read_post_processor(*processor);
  require_first_known(place, out);
  return out;
}

}  // namespace

std::unique_ptr<Tokenizer> read_tokenizer(const std::string& path) {
  const std::string file = tokenizer_file(path);
  const nlohmann::json document = read_json(file, {.max_bytes = kMostBytes});
  require_tokenizer(document, file);
  return std::make_unique<JsonTokenizer>(read_parts(Place(document, file, "")));
}

}  // namespace tandem::exec
