#pragma once
// What the files of transformers beside a tokenizer say.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/base/json.hpp"

namespace tandem::exec {

/// A role of a special token, such as eos_token, and the token that has it unless a file says another.
struct Role {
  std::string name, otherwise;
  bool takes_space = false;  ///< the token takes the space before it (lstrip), unless a file says its flags
};
using Roles = std::vector<Role>;

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
