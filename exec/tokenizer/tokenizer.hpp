#pragma once
// Tokenizers; formats/read_tokenizer.hpp reads one.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::exec {

/// A tokenizer. Keeps buffers between calls, so each thread needs its own.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Appends the ids of a text; `special` adds the tokens that the post-processor puts around it. Ids are those of
  /// the file's own library. Throws ConfigError if the text is not UTF-8 or holds what the vocabulary cannot say.
  virtual void encode(std::string_view text, bool special, std::vector<std::int32_t>& ids) = 0;
  /// The id of a token, added ones first; nothing if it is none.
  virtual std::optional<std::int32_t> id_of(std::string_view token) const = 0;
  /// One more than the largest id.
  virtual std::int64_t vocab_size() const = 0;
  /// What the file asks for and is not done, or does not say and is taken for granted, as sentences.
  virtual std::vector<std::string> notes() const = 0;
  /// The token that ends a document, if the file's format says one; else empty.
  virtual std::string end() const = 0;
};

/// Whether the tokenizer itself puts the token behind each text, as T5's does with </s>.
bool ends_each_text(Tokenizer& tokenizer, std::int32_t token);

/// Throws ConfigError if a text cannot be encoded: it is not UTF-8, or longer than 256 MiB.
void require_encodable(std::string_view text);

}  // namespace tandem::exec
