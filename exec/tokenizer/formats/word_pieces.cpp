#include "exec/tokenizer/formats/word_pieces.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "exec/tokenizer/formats/configuration.hpp"
#include "exec/tokenizer/formats/text_lines.hpp"
#include "exec/tokenizer/unicode/utf8.hpp"

namespace tandem::exec {
namespace {

using nlohmann::json;

constexpr std::size_t kMostBytes = std::size_t{512} << 20;

[[noreturn]] void refuse(const std::string& file, const std::string& reason, const std::string& remedy) {
  throw ConfigError(Problem{file, "--tokenizer", "", reason, remedy});
}

/// Ids by token: the number of a token's line, from 0 on; a later line replaces an equal one.
json read_lines(const std::string& file) {
  const std::string text = read_text(file, kMostBytes);
  if (text.starts_with("#version")) refuse(file, "holds merges, not a vocabulary", "name it merges.txt beside its vocab.json");
  json out = json::object();
  each_text_line(text, [&](std::string_view line, std::size_t number) {
    if (const std::size_t at = invalid_utf8(line); at != std::string_view::npos)
      refuse_line(file, number, "byte " + std::to_string(at), "is not UTF-8");
    out[std::string(line)] = number - 1;
  });
  return out;
}

/// A token that no text in lower case has; empty if there is none. Tokens in brackets are special.
std::string upper_token(const json& vocabulary) {
  for (const auto& [token, id] : vocabulary.items())
    if (!token.starts_with('[') && std::any_of(token.begin(), token.end(), [](char c) { return c >= 'A' && c <= 'Z'; })) return token;
  return "";
}

bool lower_case(const TokenizerConfiguration& configuration, const json& vocabulary, const std::string& file) {
  if (const auto said = configuration.flag("do_lower_case")) return *said;
  if (const std::string token = upper_token(vocabulary); !token.empty())
    refuse(file, "has tokens in upper case, such as " + token + ", and no file beside it says whether texts are made lower case",
           R"(write tokenizer_config.json beside it: {"do_lower_case": false}, or true)");
  return true;
}

/// The special token of a role. Throws ConfigError if the vocabulary lacks it.
std::string special(const TokenizerConfiguration& configuration, const json& vocabulary, const TokenizerFiles& files,
                    const std::pair<std::string, std::string>& role) {
  std::string token = configuration.token(role.first, role.second);
  if (!vocabulary.contains(token))
    refuse(files.file, "has no token " + token + " (" + role.first + "), so it is no vocabulary of BERT", "give BERT's vocab.txt, a token a line");
  return token;
}

json around(const json& vocabulary, const std::string& begin, const std::string& end) {
  return {{"type", "BertProcessing"}, {"cls", {begin, vocabulary.at(begin)}}, {"sep", {end, vocabulary.at(end)}}};
}

}  // namespace

TokenizerParts read_word_pieces(const TokenizerFiles& files) {
  const TokenizerConfiguration configuration(files.folder);
  configuration.require_class({"BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer"});
  const json vocabulary = read_lines(files.file);
  const std::string unknown = special(configuration, vocabulary, files, {"unk_token", "[UNK]"});
  const std::string begin = special(configuration, vocabulary, files, {"cls_token", "[CLS]"});
  const std::string end = special(configuration, vocabulary, files, {"sep_token", "[SEP]"});
  const auto accents = configuration.flag("strip_accents");
  json document;
  document["added_tokens"] = configuration.added_tokens(
      vocabulary, {{"unk_token", "[UNK]"}, {"sep_token", "[SEP]"}, {"pad_token", "[PAD]"}, {"cls_token", "[CLS]"}, {"mask_token", "[MASK]"}});
  document["normalizer"] = {{"type", "BertNormalizer"},
                            {"clean_text", true},
                            {"handle_chinese_chars", configuration.flag("tokenize_chinese_chars").value_or(true)},
                            {"strip_accents", accents ? json(*accents) : json()},
                            {"lowercase", lower_case(configuration, vocabulary, files.file)}};
  document["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  document["post_processor"] = around(vocabulary, begin, end);
  document["model"] = {{"type", "WordPiece"}, {"unk_token", unknown}, {"continuing_subword_prefix", "##"}, {"max_input_chars_per_word", 100},
                       {"vocab", vocabulary}};
  TokenizerParts parts = read_parts(Place(document, files.file, ""));
  parts.end = configuration.token("eos_token", "");
  return parts;
}

}  // namespace tandem::exec
