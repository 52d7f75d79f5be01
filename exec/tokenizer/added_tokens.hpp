#pragma once
// Tokens that are found in the text before anything else is done, such as <|endoftext|>.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/tokenizer/byte_trie.hpp"
#include "exec/tokenizer/unicode/character_set.hpp"
#include "exec/tokenizer/model.hpp"
#include "exec/tokenizer/normalizer.hpp"

namespace tandem::exec {

/// A part of a text: the id of an added token, or bytes `begin` to `end` - 1 that hold none.
struct Found {
  std::size_t begin, end;
  std::optional<std::int32_t> id;
};

/// One added token.
struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool single_word = false, lstrip = false, rstrip = false, normalized = true, special = false;
};

/// Added tokens that are sought in the same text.
class AddedTokenFinder {
 public:
  struct Sought {
    std::string text;
    AddedToken token;
  };
  /// Two equal texts are refused where they are read.
  explicit AddedTokenFinder(std::vector<Sought> all);
  bool empty() const { return sought_.empty(); }
  /// Cuts a text that is not empty at the tokens in it: the leftmost first, and the longest that begins there.
  void cut(std::string_view text, const std::function<void(const Found&)>& take) const;

 private:
  std::optional<std::pair<std::size_t, std::int32_t>> longest(std::string_view text) const;
  bool stands_alone(const AddedToken& token, std::string_view text, const Found& found) const;

  std::vector<Sought> sought_;
  ByteTrie trie_;
  std::vector<bool> begins_ = std::vector<bool>(256);
  std::shared_ptr<const CharacterSet> words_;
};

/// The added tokens of tokenizer.json.
struct AddedTokens {
  std::map<std::string, std::int32_t, std::less<>> ids;
  AddedTokenFinder plain{{}};       ///< sought in the text as it is
  AddedTokenFinder normalized{{}};  ///< sought in the normalized text
};

/// Reads `added_tokens`. A token of the model's vocabulary keeps its id, others get the next ones, as in the library. Throws
/// ConfigError if the file says other ids.
AddedTokens read_added_tokens(const Place& place, const Vocabulary& vocabulary, const Normalizers& normalizers);

}  // namespace tandem::exec
