#pragma once
// What the files of transformers beside a tokenizer say.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/base/json.hpp"

namespace tandem::exec {

/// Roles of special tokens, such as eos_token, and the tokens that have them unless a file says others.
using Roles = std::vector<std::pair<std::string, std::string>>;

/// tokenizer_config.json, special_tokens_map.json and added_tokens.json of a folder, as far as they are there.
class TokenizerConfiguration {
 public:
  /// `folder` has its slash, or is empty. Throws ConfigError if a file is no JSON object.
  explicit TokenizerConfiguration(const std::string& folder);
  ~TokenizerConfiguration();
  TokenizerConfiguration(const TokenizerConfiguration&) = delete;
  TokenizerConfiguration& operator=(const TokenizerConfiguration&) = delete;

  /// The special token that has this role, such as eos_token; `otherwise` if no file has the key. Empty: there is none.
  std::string token(const std::string& role, const std::string& otherwise) const;
  /// A flag of tokenizer_config.json; nothing if it is missing or null.
  std::optional<bool> flag(const std::string& key) const;
  /// `tokenizer_class` without its end "Fast", else the first of `known`. Throws ConfigError if it is not one of these.
  std::string require_class(const std::vector<std::string>& known) const;
  /// tokenizer.json's `added_tokens` for a vocabulary of ids by token: what the files add, then the roles with their defaults, with the
  /// ids that transformers gives them.
  nlohmann::json added_tokens(const nlohmann::json& vocabulary, const Roles& roles) const;

 private:
  struct Files;
  std::unique_ptr<Files> files_;
};

}  // namespace tandem::exec
