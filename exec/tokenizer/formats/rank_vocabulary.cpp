#include "exec/tokenizer/formats/rank_vocabulary.hpp"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "exec/tokenizer/byte_level.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

using nlohmann::json;

std::string written(std::string_view bytes) {
  std::string out;
  append_byte_level(out, bytes);
  return out;
}

}  // namespace

Vocabulary vocabulary_of(const std::string& file, const std::vector<std::string>& tokens, std::int32_t first) {
  Vocabulary out;
  for (std::size_t rank = 0; rank < tokens.size(); ++rank) {
    std::string token = written(tokens[rank]);
    if (out.find(token)) throw ConfigError(Problem{file, "rank", std::to_string(rank), "has the token of a smaller rank", "copy the file again"});
    out.add(std::move(token), first + static_cast<std::int32_t>(rank));
  }
  for (int byte = 0; byte < 256; ++byte)
    if (const char c = static_cast<char>(byte); !out.find(written({&c, 1})))
      throw ConfigError(Problem{file, "byte", std::to_string(byte), "is no token, so some texts have no tokens", "copy the file again"});
  return out;
}

Merges merges_of(const std::vector<std::string>& tokens, const Vocabulary& vocabulary) {
  struct Pair {
    std::int32_t left, right, both;
  };
  std::vector<Pair> all;
  for (const std::string_view token : tokens) {
    const std::int32_t both = vocabulary.find(written(token)).value();
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      const auto left = vocabulary.find(written(token.substr(0, cut))), right = vocabulary.find(written(token.substr(cut)));
      if (left && right) all.push_back({*left, *right, both});
    }
  }
  Merges out(all.size());
  for (const Pair& pair : all) out.add(pair.left, pair.right, {pair.both, pair.both});
  return out;
}

json cuts_of(const std::string& pattern) {
  const json split{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  const json bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}};
}

}  // namespace tandem::exec
