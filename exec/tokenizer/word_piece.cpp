#include <utility>

#include "exec/tokenizer/model.hpp"
#include "exec/tokenizer/unicode/utf8.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

/// The token for what is unknown. Throws ConfigError if the vocabulary lacks it.
std::int32_t unknown_id(const Vocabulary& vocabulary, const std::string& file, const std::string& token, std::string_view piece) {
  if (const auto id = vocabulary.find(token)) return *id;
  throw ConfigError(Problem{file, "model.unk_token", token, "is not in the vocabulary, and the text has \"" + std::string(piece.substr(0, 100)) + "\", which is not either",
                            "add the token to the vocabulary"});
}

/// Takes the longest token that the rest of a piece begins with, again and again.
class WordPiece final : public TokenModel {
 public:
  WordPiece(Vocabulary vocabulary, const Place& place)
      : vocabulary_(std::move(vocabulary)), file_(place.file()), unknown_(place.at("unk_token").text()),
        prefix_(place.at("continuing_subword_prefix").text()),
        most_(static_cast<std::size_t>(place.at("max_input_chars_per_word").whole())) {}

  void tokenize(std::string_view piece, std::vector<std::int32_t>& ids) override {
    const std::size_t before = ids.size();
    if (length(piece) <= most_ && cut(piece, ids)) return;
    ids.resize(before);
    ids.push_back(unknown_id(vocabulary_, file_, unknown_, piece));
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  static std::size_t length(std::string_view piece) {
    std::size_t count = 0;
    for (std::size_t at = 0; at < piece.size(); ++count) next_character(piece, at);
    return count;
  }

  bool cut(std::string_view piece, std::vector<std::int32_t>& ids) {
    for (std::size_t begin = 0; begin < piece.size();) {
      std::size_t end = piece.size();
      std::optional<std::int32_t> found;
      for (; end > begin; end = character_before(piece, end)) {
        part_ = begin > 0 ? prefix_ : "";
        part_ += piece.substr(begin, end - begin);
        found = vocabulary_.find(part_);
        if (found) break;
      }
      if (!found) return false;
      ids.push_back(*found);
      begin = end;
    }
    return true;
  }

  Vocabulary vocabulary_;
  std::string file_, unknown_, prefix_, part_;
  std::size_t most_;
};

/// A piece is a token or unknown.
class WordLevel final : public TokenModel {
 public:
  WordLevel(Vocabulary vocabulary, const Place& place)
      : vocabulary_(std::move(vocabulary)), file_(place.file()), unknown_(place.at("unk_token").text()) {}

  void tokenize(std::string_view piece, std::vector<std::int32_t>& ids) override {
    const auto id = vocabulary_.find(piece);
    ids.push_back(id ? *id : unknown_id(vocabulary_, file_, unknown_, piece));
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  Vocabulary vocabulary_;
  std::string file_, unknown_;
};

}  // namespace

std::unique_ptr<TokenModel> read_word_piece(const Place& place) {
  place.require_keys({"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
  return std::make_unique<WordPiece>(read_vocabulary(place.at("vocab")), place);
}

std::unique_ptr<TokenModel> read_word_level(const Place& place) {
  place.require_keys({"type", "unk_token", "vocab"});
  return std::make_unique<WordLevel>(read_vocabulary(place.at("vocab")), place);
}

}  // namespace tandem::exec
