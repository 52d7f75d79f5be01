#include "exec/tokenizer/formats/read_tokenizer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exec/tokenizer/formats/byte_pairs.hpp"
#include "exec/tokenizer/formats/ranks.hpp"
#include "exec/tokenizer/formats/sentences.hpp"
#include "exec/tokenizer/formats/tekken.hpp"
#include "exec/tokenizer/formats/tokenizer_files.hpp"
#include "exec/tokenizer/formats/word_pieces.hpp"
#include "exec/tokenizer/json_tokenizer.hpp"

namespace tandem::exec {
namespace {

constexpr std::size_t kMostBytes = std::size_t{512} << 20;

/// Whether a document is a vocabulary alone, such as GPT-2's vocab.json: ids by token.
bool is_vocabulary(const nlohmann::json& document) {
  return document.is_object() && !document.contains("model") && !document.empty() &&
         std::all_of(document.begin(), document.end(), [](const nlohmann::json& id) { return id.is_number_integer(); });
}

TokenizerParts read_document(const std::string& file) {
  const nlohmann::json document = read_json(file, {.max_bytes = kMostBytes});
  if (is_vocabulary(document))
    throw ConfigError(Problem{file, "--tokenizer", "", "is a vocabulary without merges and rules", "name it vocab.json, and put its merges.txt beside it"});
  const Place whole(document, file, "");
  return is_tekken(document) ? read_tekken(whole) : read_parts(whole);
}

}  // namespace

std::unique_ptr<Tokenizer> read_tokenizer(const std::string& path) {
  const TokenizerFiles files = find_tokenizer(path);
  switch (files.format) {
    case TokenizerFormat::json: return make_tokenizer(read_document(files.file));
    case TokenizerFormat::merges: return make_tokenizer(read_byte_pairs(files));
    case TokenizerFormat::word_pieces: return make_tokenizer(read_word_pieces(files));
    case TokenizerFormat::ranks: return make_tokenizer(read_ranks(files));
    case TokenizerFormat::sentences: return read_sentences(files);
  }
  throw ContractError("a tokenizer of no format");
}

}  // namespace tandem::exec
