#pragma once
// The front door: tokenizers of Hugging Face, read from tokenizer.json.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/json.hpp"

namespace tandem::exec {

/// A tokenizer. Keeps buffers between calls, so each thread needs its own.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Appends the ids of a text; `special` adds the tokens that the post-processor puts around it. Ids are those of
  /// the tokenizers library. Throws ConfigError if the text is not UTF-8 or holds what the vocabulary cannot say.
  virtual void encode(std::string_view text, bool special, std::vector<std::int32_t>& ids) = 0;
  /// The id of a token, added ones first; nothing if it is none.
  virtual std::optional<std::int32_t> id_of(std::string_view token) const = 0;
  /// One more than the largest id.
  virtual std::int64_t vocab_size() const = 0;
  /// What the file asks for and is not done, as sentences.
  virtual std::vector<std::string> notes() const = 0;
};

/// Reads a tokenizer.json, or that of a folder. Throws ConfigError that names file, field and value of anything that is not known.
std::unique_ptr<Tokenizer> read_tokenizer(const std::string& path);

/// The path of the tokenizer.json that `path` names. Throws ConfigError for files of other libraries, with what to do.
std::string tokenizer_file(const std::string& path);

/// Throws ConfigError if a document is a vocabulary alone, such as GPT-2's vocab.json, with what to do.
void require_tokenizer(const nlohmann::json& document, const std::string& file);

/// The token that ends a document: `eos_token` of the tokenizer_config.json or special_tokens_map.json beside tokenizer.json; nothing
/// if neither says one.
std::optional<std::string> known_end_of_document(const std::string& path);

/// The one `eos_token_id` of the model's generation_config.json or config.json there; nothing if neither names exactly one. Throws
/// ConfigError if it is no token of a vocabulary of `vocab_size`.
std::optional<std::int32_t> known_end_id(const std::string& path, std::int64_t vocab_size);

/// known_end_of_document(). Throws ConfigError if neither file says one.
std::string end_of_document(const std::string& path);

}  // namespace tandem::exec
