#pragma once
// A tokenizer of the parts that tokenizer.json has.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/tokenizer/added_tokens.hpp"
#include "exec/tokenizer/model.hpp"
#include "exec/tokenizer/normalizer.hpp"
#include "exec/tokenizer/post_processor.hpp"
#include "exec/tokenizer/pre_tokenizer.hpp"
#include "exec/tokenizer/tokenizer.hpp"

namespace tandem::exec {

/// The parts of a tokenizer, in the order in which a text passes them.
struct TokenizerParts {
  Normalizers normalizers;
  PreTokenizers pre_tokenizers;
  std::unique_ptr<TokenModel> model;
  AddedTokens added;                ///< found before all else
  Template around{{}};              ///< what the post-processor adds
  std::vector<std::string> notes;   ///< Tokenizer::notes
  std::string end;                  ///< Tokenizer::end
};

/// Reads the document of a tokenizer.json. `model`: used in place of the document's, unless it is null. Throws ConfigError for what
/// is not known.
TokenizerParts read_parts(const Place& place, std::unique_ptr<TokenModel> model = nullptr);

/// A tokenizer of these parts.
std::unique_ptr<Tokenizer> make_tokenizer(TokenizerParts parts);

}  // namespace tandem::exec
