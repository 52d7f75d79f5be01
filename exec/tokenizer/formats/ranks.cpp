#include "exec/tokenizer/formats/ranks.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "exec/tokenizer/base64.hpp"
#include "exec/tokenizer/formats/configuration.hpp"
#include "exec/tokenizer/formats/encodings.hpp"
#include "exec/tokenizer/formats/rank_vocabulary.hpp"
#include "exec/tokenizer/formats/text_lines.hpp"

namespace tandem::exec {
namespace {

using nlohmann::json;

constexpr std::size_t kMostBytes = std::size_t{512} << 20;
constexpr std::int64_t kMostRanks = std::int64_t{1} << 24;

std::int64_t read_rank(const std::string& file, std::size_t number, std::string_view line) {
  const std::size_t space = line.find(' ');
  const std::string_view digits = space == std::string_view::npos ? "" : line.substr(space + 1);
  std::int64_t rank = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (error != std::errc() || end != digits.data() + digits.size() || rank < 0 || rank >= kMostRanks)
    refuse_line(file, number, line, "is no token in base64, a space and a rank");
  return rank;
}

/// The tokens' bytes by rank. Throws ConfigError if a rank is missing or there twice.
std::vector<std::string> read_tokens(const std::string& file) {
  const std::string text = read_text(file, kMostBytes);
  std::vector<std::string> out;
  each_text_line(text, [&](std::string_view line, std::size_t number) {
    if (line.empty()) return;
    const auto rank = static_cast<std::size_t>(read_rank(file, number, line));
    const auto token = from_base64(line.substr(0, line.find(' ')));
    if (!token || token->empty()) refuse_line(file, number, line, "is no token in base64, a space and a rank");
    if (rank >= out.size()) out.resize(rank + 1);
    if (!out[rank].empty()) refuse_line(file, number, line, "has a rank that an earlier line has");
    out[rank] = *token;
  });
  for (std::size_t rank = 0; rank < out.size(); ++rank)
    if (out[rank].empty())
      throw ConfigError(Problem{file, "rank", std::to_string(rank), "is missing, and larger ones are there", "copy the file again"});
  return out;
}

json added_tokens(const Encoding& encoding) {
  json out = json::array();
  for (const auto& [token, id] : encoding.special) {
    json one{{"id", id}, {"content", token}, {"special", true}};
    for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"}) one[flag] = false;
    out.push_back(std::move(one));
  }
  return out;
}

/// Says what the file leaves open.
std::string note(const std::string& file, const Encoding& encoding) {
  const auto& [first, id] = encoding.special.front();
  return file + ": ranks of tiktoken come without a pattern and special tokens; those of " + encoding.name + " are used (" + first + " is " +
         std::to_string(id) + ")";
}

/// Refuses ranks that are not Llama 3's, as far as they or files beside them say so.
void require_llama3(const TokenizerFiles& files, std::size_t ranks, const Encoding& encoding) {
  constexpr std::size_t kRanks = 128'000;
  const auto refuse = [&](const std::string& value, const std::string& reason) {
    throw ConfigError(Problem{files.file, "--tokenizer", value, reason + "; of tiktoken's .model files only Llama 3's are read",
                              "give a tokenizer.json: transformers writes one (save_pretrained)"});
  };
  if (ranks > kRanks) refuse(std::to_string(ranks), "are more ranks than Llama 3 has");
  const TokenizerConfiguration configuration(files.folder);
  configuration.require_class({"tiktoken", "PreTrainedTokenizer"});
  for (const json& token : configuration.added_tokens(json::object(), {})) {
    const std::pair<std::string, std::int64_t> said{token["content"], token["id"]};
    const auto has_id = [&](const auto& special) { return special.second == said.second; };
    const bool known = std::any_of(encoding.special.begin(), encoding.special.end(), has_id);
    if (!known) refuse(said.first, "is an added token of another encoding");
  }
}

}  // namespace

TokenizerParts read_ranks(const TokenizerFiles& files) {
  const std::vector<std::string> tokens = read_tokens(files.file);
  Vocabulary vocabulary = vocabulary_of(files.file, tokens, 0);
  const bool named = files.file.ends_with(".tiktoken");
  const Encoding encoding = named ? named_encoding(files.file) : llama3_encoding(static_cast<std::int64_t>(tokens.size()));
  if (!named) require_llama3(files, tokens.size(), encoding);
  Merges merges = merges_of(tokens, vocabulary);
  for (const auto& [token, id] : encoding.special) vocabulary.add(token, static_cast<std::int32_t>(id));
  json document{{"added_tokens", added_tokens(encoding)}, {"pre_tokenizer", cuts_of(encoding.pattern)}};
  if (encoding.nfc) document["normalizer"] = {{"type", "NFC"}};
  const auto begin = vocabulary.find(encoding.begin);
  auto model = byte_pair_model(files.file, std::move(vocabulary), std::move(merges));
  TokenizerParts parts = read_parts(Place(document, files.file, ""), std::move(model));
  if (begin) parts.around = {{*begin}, {}};
  parts.notes.push_back(note(files.file, encoding));
  parts.end = encoding.end;
  return parts;
}

}  // namespace tandem::exec
