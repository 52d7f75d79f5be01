#include "exec/tokenizer/formats/byte_pairs.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "exec/tokenizer/formats/configuration.hpp"
#include "exec/tokenizer/formats/text_lines.hpp"

namespace tandem::exec {
namespace {

using nlohmann::json;

constexpr std::size_t kMostBytes = std::size_t{512} << 20;
constexpr const char* kEnd = "<|endoftext|>";
// huggingface/transformers: models/qwen2/tokenization_qwen2.py
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

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
  const json split{{"type", "Split"}, {"pattern", {{"Regex", kQwen2}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {split, byte_level(prefix, false)}}};
}

/// The tokens that add_bos_token and add_eos_token ask for.
json around(const TokenizerConfiguration& configuration, const json& added) {
  json single = json::array(), tokens = json::object();
  const auto add = [&](const char* flag, const char* role) {
    const std::string token = configuration.token(role, kEnd);
    if (!configuration.flag(flag).value_or(false) || token.empty()) return;
    single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
    for (const json& one : added)
      if (one.at("content") == token) tokens[token] = {{"id", token}, {"ids", {one.at("id")}}, {"tokens", {token}}};
  };
  add("add_bos_token", "bos_token");
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add("add_eos_token", "eos_token");
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", json::array()}, {"special_tokens", tokens}};
}

json model(json vocabulary, json merges) {
  return {{"type", "BPE"}, {"vocab", std::move(vocabulary)}, {"merges", std::move(merges)}};
}

}  // namespace

TokenizerParts read_byte_pairs(const TokenizerFiles& files) {
  const TokenizerConfiguration configuration(files.folder);
  const bool qwen2 = configuration.require_class({"GPT2Tokenizer", "Qwen2Tokenizer"}) == "Qwen2Tokenizer";
  const json vocabulary = read_json(files.file, {.max_bytes = kMostBytes});
  read_vocabulary(Place(vocabulary, files.file, ""));
  const bool prefix = configuration.flag("add_prefix_space").value_or(false);
  json document;
  document["added_tokens"] = configuration.added_tokens(
      vocabulary, {{"bos_token", qwen2 ? "" : kEnd}, {"eos_token", kEnd}, {"unk_token", kEnd}, {"pad_token", qwen2 ? kEnd : ""}});
  document["normalizer"] = qwen2 ? json{{"type", "NFC"}} : json();
  document["pre_tokenizer"] = qwen2 ? qwen2_cuts(prefix) : byte_level(prefix, true);
  document["post_processor"] = around(configuration, document["added_tokens"]);
  document["model"] = model(vocabulary, read_merges(files.merges, vocabulary));
  TokenizerParts parts = read_parts(Place(document, files.file, ""));
  parts.end = configuration.token("eos_token", kEnd);
  return parts;
}

}  // namespace tandem::exec
