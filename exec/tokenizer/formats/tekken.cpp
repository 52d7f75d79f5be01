#include "exec/tokenizer/formats/tekken.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "exec/tokenizer/base64.hpp"
#include "exec/tokenizer/formats/rank_vocabulary.hpp"

// mistralai/mistral-common: src/mistral_common/tokens/tokenizers/tekken.py
namespace tandem::exec {
namespace {

using nlohmann::json;

constexpr const char* kBegin = "<s>";
constexpr const char* kEnd = "</s>";

/// Those of files that list none.
constexpr std::array kFirst{"<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
                            "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]",
                            "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"};
/// Versions whose files may list none.
constexpr std::array kUnlisted{"v1", "v2", "v3", "v7"};

/// Most special tokens: published files have 1,000. A damaged number would take all memory for their names.
constexpr std::int64_t kMostSpecial = 1'000'000;

/// The sizes of a file. Of its ranks only the first count.
struct Sizes {
  std::int32_t special, ranks;
};

Sizes sizes_of(const Place& document) {
  const Place config = document.at("config"), all = config.at("default_vocab_size"), special = config.at("default_num_special_tokens");
  const auto listed = static_cast<std::int64_t>(document.at("vocab").list().size());
  if (special.whole() < 0 || special.whole() > all.whole()) special.refuse("is no share of default_vocab_size " + std::to_string(all.whole()));
  if (special.whole() > kMostSpecial) special.refuse("is more than the 1,000,000 that are read", "copy the file again");
  if (all.whole() - special.whole() > listed)
    all.refuse("needs " + std::to_string(all.whole() - special.whole()) + " ranks, and vocab has " + std::to_string(listed), "copy the file again");
  return {static_cast<std::int32_t>(special.whole()), static_cast<std::int32_t>(all.whole() - special.whole())};
}

/// Names of the special tokens by id.
std::vector<std::string> special_tokens(const Place& document, const Sizes& sizes) {
  std::vector<std::string> out;
  if (const auto listed = document.maybe("special_tokens")) {
    for (const Place& token : listed->list()) {
      if (token.at("rank").whole() != static_cast<std::int64_t>(out.size())) token.at("rank").refuse("is not its place in the list");
      out.push_back(token.at("token_str").text());
      if (std::find(out.begin(), out.end() - 1, out.back()) != out.end() - 1) token.at("token_str").refuse("is there twice");
    }
  } else {
    const Place version = document.at("config").at("version");
    if (std::find(kUnlisted.begin(), kUnlisted.end(), version.text()) == kUnlisted.end())
      version.refuse("has special tokens in its files, and this one has no special_tokens", "copy the file again");
    out.assign(kFirst.begin(), kFirst.end());
  }
  if (out.size() > static_cast<std::size_t>(sizes.special))
    document.at("config").at("default_num_special_tokens").refuse("is less than the " + std::to_string(out.size()) + " special tokens");
  while (out.size() < static_cast<std::size_t>(sizes.special)) out.push_back("<SPECIAL_" + std::to_string(out.size()) + ">");
  return out;
}

/// The tokens' bytes by rank.
std::vector<std::string> tokens_of(const Place& document, const Sizes& sizes) {
  std::vector<std::string> out;
  const std::vector<Place> all = document.at("vocab").list();
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(sizes.ranks); ++rank) {
    if (all[rank].at("rank").whole() != static_cast<std::int64_t>(rank)) all[rank].at("rank").refuse("is not its place in the list");
    const Place bytes = all[rank].at("token_bytes");
    const auto token = from_base64(bytes.text());
    if (!token || token->empty()) bytes.refuse("is no base64");
    out.push_back(*token);
  }
  return out;
}

}  // namespace

bool is_tekken(const json& document) {
  const auto has = [&](const char* key) { return document.is_object() && document.contains(key); };
  return has("config") && has("vocab") && document["config"].is_object() && document["config"].contains("default_num_special_tokens");
}

TokenizerParts read_tekken(const Place& document) {
  const Sizes sizes = sizes_of(document);
  const std::vector<std::string> names = special_tokens(document, sizes);
  for (const char* needed : {kBegin, kEnd})
    if (std::find(names.begin(), names.end(), needed) == names.end()) document.at("special_tokens").refuse(std::string("lacks ") + needed);
  const std::vector<std::string> tokens = tokens_of(document, sizes);
  Vocabulary vocabulary = vocabulary_of(document.file(), tokens, sizes.special);
  Merges merges = merges_of(tokens, vocabulary);
  const json cuts{{"pre_tokenizer", cuts_of(document.at("config").at("pattern").text())}};
  auto model = byte_pair_model(document.file(), std::move(vocabulary), std::move(merges));
  TokenizerParts parts = read_parts(Place(cuts, document.file(), ""), std::move(model));
  for (std::size_t id = 0; id < names.size(); ++id) parts.added.ids.emplace(names[id], static_cast<std::int32_t>(id));
  parts.around = {{parts.added.ids.at(kBegin)}, {}};
  parts.end = kEnd;
  return parts;
}

}  // namespace tandem::exec
