#include <algorithm>
#include <nlohmann/json.hpp>

#include "exec/tokenizer/place.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "models/base/error.hpp"
#include "models/base/files.hpp"

namespace tandem::exec {
namespace {

constexpr const char* kSave = "transformers writes one: AutoTokenizer.from_pretrained(NAME).save_pretrained(DIR)";

std::string in_folder(const std::string& folder) {
  const std::string file = folder + "/tokenizer.json";
  if (is_regular_file(file)) return file;
  std::string others;
  for (const char* name : {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "vocab.txt", "vocab.json", "tiktoken.model"})
    if (is_regular_file(folder + "/" + name)) others += std::string(others.empty() ? "" : ", ") + name;
  throw ConfigError(Problem{folder, "--tokenizer", "", "has no tokenizer.json" + (others.empty() ? "" : ", but " + others + ", which this version does not read"), kSave});
}

/// The content of a token in a configuration: a string, or an object that has it.
std::optional<std::string> token_of(const std::string& file) {
  if (!is_regular_file(file)) return std::nullopt;
  const nlohmann::json document = read_json(file);
  const auto token = Place(document, file, "").maybe("eos_token");
  if (!token) return std::nullopt;
  return token->json().is_object() ? token->at("content").text() : token->text();
}

/// The folder of the tokenizer.json that `path` names, with its slash; empty for the current one.
std::string folder_of(const std::string& path) {
  const std::string file = tokenizer_file(path);
  const std::size_t slash = file.rfind('/');
  return slash == std::string::npos ? "" : file.substr(0, slash + 1);
}

/// Whether a document is a vocabulary alone, such as GPT-2's vocab.json: ids by token.
bool is_vocabulary(const nlohmann::json& document) {
  return document.is_object() && !document.contains("model") && !document.empty() &&
         std::all_of(document.begin(), document.end(), [](const nlohmann::json& id) { return id.is_number_integer(); });
}

}  // namespace

void require_tokenizer(const nlohmann::json& document, const std::string& file) {
  if (is_vocabulary(document))
    throw ConfigError(Problem{file, "--tokenizer", "", "is a vocabulary without its merges and rules (vocab.json): only tokenizer.json is read", kSave});
}

std::string tokenizer_file(const std::string& path) {
  if (is_folder(path)) return in_folder(path);
  for (const char* end : {".model", ".tiktoken", ".txt", ".vocab", ".bpe"})
    if (path.ends_with(end)) throw ConfigError(Problem{path, "--tokenizer", "", "is a file of another library (sentencepiece, tiktoken): only tokenizer.json is read", kSave});
  return path;
}

std::optional<std::string> known_end_of_document(const std::string& path) {
  const std::string folder = folder_of(path);
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"})
    if (const auto token = token_of(folder + name)) return token;
  return std::nullopt;
}

std::optional<std::int32_t> known_end_id(const std::string& path, std::int64_t vocab_size) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    const std::string file = folder_of(path) + name;
    if (!is_regular_file(file)) continue;
    const nlohmann::json document = read_json(file);
    nlohmann::json id = document.is_object() ? document.value("eos_token_id", nlohmann::json()) : nlohmann::json();
    if (id.is_array() && id.size() == 1) id = nlohmann::json(id[0]);
    if (!id.is_number_integer()) continue;
    const double value = id.get<double>();
    if (value < 0 || value >= static_cast<double>(vocab_size))
      throw ConfigError(Problem{file, "eos_token_id", id.dump(), "is no token of the tokenizer's vocabulary of " + std::to_string(vocab_size),
                                "name one that is, or eos_token in tokenizer_config.json"});
    return id.get<std::int32_t>();
  }
  return std::nullopt;
}

std::string end_of_document(const std::string& path) {
  if (const auto token = known_end_of_document(path)) return *token;
  throw ConfigError(Problem{folder_of(path) + "tokenizer_config.json", "eos_token", "", "is not there, so the token that ends a document is not known", "name it: --eod TOKEN"});
}

}  // namespace tandem::exec
