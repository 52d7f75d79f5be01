#include "exec/tokenizer/formats/byte_pairs.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "exec/tokenizer/formats/configuration.hpp"
#include "exec/tokenizer/formats/encodings.hpp"
#include "exec/tokenizer/formats/text_lines.hpp"

namespace tandem::exec {
namespace {

using nlohmann::json;

constexpr std::size_t kMostBytes = std::size_t{512} << 20;
constexpr const char* kEnd = "<|endoftext|>";

/// The rules that vocab.json and merges.txt do not say.
enum class Rules : std::uint8_t { gpt2, qwen2, roberta };

/// Those of the class that tokenizer_config.json names; else RoBERTa's, where the vocabulary has its tokens and lacks GPT-2's.
Rules rules_of(const TokenizerConfiguration& configuration, const json& vocabulary) {
  const std::string kind = configuration.require_class({"GPT2Tokenizer", "Qwen2Tokenizer", "RobertaTokenizer", "BartTokenizer"});
  if (kind == "Qwen2Tokenizer") return Rules::qwen2;
  if (kind == "RobertaTokenizer" || kind == "BartTokenizer") return Rules::roberta;
  const bool named = !configuration.token("tokenizer_class", "").empty();
  const auto has = [&](const char* token) { return vocabulary.contains(token); };
  return !named && has("<s>") && has("</s>") && has("<mask>") && !has(kEnd) ? Rules::roberta : Rules::gpt2;
}

/// Special tokens of each role, unless a file says others, in transformers' order, which gives new ones their ids.
Roles roles_of(Rules rules) {
  // huggingface/transformers: models/roberta/tokenization_roberta.py; the mask is a word with the space before it
  if (rules == Rules::roberta)
    return {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"sep_token", "</s>"}, {"pad_token", "<pad>"},
            {"cls_token", "<s>"}, {"mask_token", "<mask>", true}};
  const bool qwen2 = rules == Rules::qwen2;
  return {{"bos_token", qwen2 ? "" : kEnd}, {"eos_token", kEnd}, {"unk_token", kEnd}, {"sep_token", ""},
          {"pad_token", qwen2 ? kEnd : ""}, {"cls_token", ""}, {"mask_token", ""}};
}

/// Two tokens a line, joined by a space, in the order of their ranks.
json read_merges(const std::string& file, const json& vocabulary) {
  const std::string text = read_text(file, kMostBytes);
  json out = json::array();
  each_text_line(text, [&](std::string_view line, std::size_t number) {
    if (line.starts_with("#version")) return;
    const std::size_t space = line.find(' ');
    const bool pair = space != std::string_view::npos && line.find(' ', space + 1) == std::string_view::npos;
    if (!pair) refuse_line(file, number, line, "is no pair of tokens with a space between them");
    const std::string left(line.substr(0, space)), right(line.substr(space + 1));
    for (const std::string& token : {left, right, left + right})
      if (!vocabulary.contains(token)) refuse_line(file, number, line, "needs the token " + token + ", which the vocabulary beside it lacks");
    out.push_back({left, right});
  });
  return out;
}

json byte_level(bool prefix, bool cuts) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", prefix}, {"trim_offsets", true}, {"use_regex", cuts}};
}

json qwen2_cuts(bool prefix) {
  const json split{{"type", "Split"}, {"pattern", {{"Regex", kQwenPattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {split, byte_level(prefix, false)}}};
}

/// The template of a text with a token before and one behind it; empty: none.
json around(const std::string& before, const std::string& behind, const json& added) {
  json single = json::array(), tokens = json::object();
  const auto add = [&](const std::string& token) {
    if (token.empty()) return;
    single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
    for (const json& one : added)
      if (one.at("content") == token) tokens[token] = {{"id", token}, {"ids", {one.at("id")}}, {"tokens", {token}}};
  };
  add(before);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add(behind);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", json::array()}, {"special_tokens", tokens}};
}

/// RoBERTa's pair, or the tokens that add_bos_token and add_eos_token ask for.
json around(Rules rules, const TokenizerConfiguration& configuration, const json& added) {
  if (rules == Rules::roberta) return around(configuration.token("cls_token", "<s>"), configuration.token("sep_token", "</s>"), added);
  const auto asked = [&](const char* flag, const char* role) {
    return configuration.flag(flag).value_or(false) ? configuration.token(role, kEnd) : "";
  };
  return around(asked("add_bos_token", "bos_token"), asked("add_eos_token", "eos_token"), added);
}

json model(json vocabulary, json merges) {
  return {{"type", "BPE"}, {"vocab", std::move(vocabulary)}, {"merges", std::move(merges)}};
}

}  // namespace

TokenizerParts read_byte_pairs(const TokenizerFiles& files) {
  const TokenizerConfiguration configuration(files.folder);
  const json vocabulary = read_json(files.file, {.max_bytes = kMostBytes});
  read_vocabulary(Place(vocabulary, files.file, ""));
  const Rules rules = rules_of(configuration, vocabulary);
  const bool prefix = configuration.flag("add_prefix_space").value_or(false);
  json document;
  document["added_tokens"] = configuration.added_tokens(vocabulary, roles_of(rules));
  document["normalizer"] = rules == Rules::qwen2 ? json{{"type", "NFC"}} : json();
  document["pre_tokenizer"] = rules == Rules::qwen2 ? qwen2_cuts(prefix) : byte_level(prefix, true);
  document["post_processor"] = around(rules, configuration, document["added_tokens"]);
  document["model"] = model(vocabulary, read_merges(files.merges, vocabulary));
  TokenizerParts parts = read_parts(Place(document, files.file, ""));
  parts.end = configuration.token("eos_token", rules == Rules::roberta ? "</s>" : kEnd);
  return parts;
}

}  // namespace tandem::exec
