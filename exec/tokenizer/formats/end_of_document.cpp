#include <nlohmann/json.hpp>

#include "exec/tokenizer/formats/configuration.hpp"
#include "exec/tokenizer/formats/read_tokenizer.hpp"
#include "exec/tokenizer/formats/tokenizer_files.hpp"
#include "models/base/error.hpp"
#include "models/base/files.hpp"

namespace tandem::exec {

std::optional<std::string> known_end_of_document(const std::string& path, const Tokenizer& tokenizer) {
  const std::string token = TokenizerConfiguration(find_tokenizer(path).folder).token("eos_token", tokenizer.end());
  return token.empty() ? std::nullopt : std::optional(token);
}

std::optional<std::int32_t> known_end_id(const std::string& path, std::int64_t vocab_size) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    const std::string file = find_tokenizer(path).folder + name;
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

std::string end_of_document(const std::string& path, const Tokenizer& tokenizer) {
  if (const auto token = known_end_of_document(path, tokenizer)) return *token;
  throw ConfigError(Problem{find_tokenizer(path).folder + "tokenizer_config.json", "eos_token", "", "is not there, so the token that ends a document is not known",
                            "name it: --eod TOKEN"});
}

}  // namespace tandem::exec
