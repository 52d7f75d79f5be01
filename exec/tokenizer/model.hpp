#pragma once
// Models: they turn a piece of text into tokens.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "exec/tokenizer/place.hpp"

namespace tandem::exec {

/// Hashes strings and views alike, so that a view finds a string without a copy.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

/// Ids by token.
class Vocabulary {
 public:
  /// Adds a token; a later id replaces an earlier one.
  void add(std::string token, std::int32_t id);
  /// The id of a token; nothing if it is none.
  std::optional<std::int32_t> find(std::string_view token) const;
  /// The ids of <0x00> to <0xFF> for the bytes of `text`; nothing if one is missing.
  std::optional<std::vector<std::int32_t>> bytes(std::string_view text) const;
  std::size_t size() const { return ids_.size(); }
  std::int64_t largest() const { return largest_; }

 private:
  std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>> ids_;
  std::int64_t largest_ = -1;
};

/// Reads {"token": id, ...}.
Vocabulary read_vocabulary(const Place& place);

/// Turns pieces into ids. Keeps buffers between calls, so each thread needs its own.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  /// Appends the ids of a piece, which is not empty. Throws ConfigError if it has no token and none for what is unknown.
  virtual void tokenize(std::string_view piece, std::vector<std::int32_t>& ids) = 0;
  virtual const Vocabulary& vocabulary() const = 0;
};

/// Reads tokenizer.json's `model`. Throws ConfigError for what is not known.
std::unique_ptr<TokenModel> read_model(const Place& place);

class Merges;
/// A BPE model of characters of which each is in the vocabulary, such as bytes as characters. A piece that is a token stays whole.
std::unique_ptr<TokenModel> byte_pair_model(const std::string& file, Vocabulary vocabulary, Merges merges);

std::unique_ptr<TokenModel> read_bpe(const Place& place);
std::unique_ptr<TokenModel> read_word_piece(const Place& place);
std::unique_ptr<TokenModel> read_word_level(const Place& place);
std::unique_ptr<TokenModel> read_unigram(const Place& place);

}  // namespace tandem::exec
