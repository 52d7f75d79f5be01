#pragma once
// The texts that `train` reads: one or a blend of several, with a part held out for evaluations.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/data/data.hpp"
#include "models/plan/plan.hpp"

namespace tandem::program {

struct DataOptions {
  std::vector<std::string> data;  ///< PATH, or WEIGHT:PATH of a blend
  std::string evaluation;         ///< a text of its own to evaluate on; empty: the part of `data` that is held out
  std::string tokenizer;          ///< empty: texts are read as bytes
  std::string chat_template;      ///< of conversations; empty: none
  std::string loss_on;            ///< all or completion; empty: completion where texts have one
  bool evaluates = false;
  std::int64_t mask_token = -1;   ///< that hides tokens from BERT; -1: the tokenizer's [MASK], else the vocabulary's last
  bool last_word = false;         ///< of lines with text: the last word is what a model shall say
};

/// The texts as a message names them.
std::string data_name(const DataOptions& options);

/// "46 sequences of 64 tokens": how many a source has.
std::string sequences_text(const exec::TokenSource& source, std::int64_t length);

/// How texts are cut into sequences.
struct SequenceOptions {
  std::int64_t tokens = 0;  ///< of a sequence, without its last target
  std::uint64_t seed = 0;   ///< of their order
  bool separate = false;    ///< tokens see only their own document
  bool next_tokens = true;  ///< a model predicts next tokens: not BERT, not T5
  bool modules = false;     ///< MTP modules predict further tokens
};

/// Texts with their weights; sequences of any part of them.
class Texts {
 public:
  struct Weighted {
    std::shared_ptr<const exec::TokenFile> file;
    double weight;
  };
  Texts() = default;
  Texts(std::vector<Weighted> texts, const SequenceOptions& sequences, std::int64_t tokenizer_tokens)
      : texts_(std::move(texts)), sequences_(sequences), tokenizer_tokens_(tokenizer_tokens) {}

  const std::vector<Weighted>& all() const { return texts_; }
  /// Tokens of the vocabulary of the tokenizer that read the texts; 0: none did.
  std::int64_t tokenizer_tokens() const { return tokenizer_tokens_; }
  /// The same texts in sequences of `tokens` tokens; `separate`: tokens see only their own document.
  Texts cut(std::int64_t tokens, bool separate) const {
    SequenceOptions other = sequences_;
    other.tokens = tokens, other.separate = separate;
    return {texts_, other, tokenizer_tokens_};
  }
  /// Whether some text has completions, which alone are targets.
  bool have_answers() const;
  /// Sequences of a part of every text.
  std::unique_ptr<exec::TokenSource> part(const exec::TextPart& part) const;

 private:
  std::vector<Weighted> texts_;
  SequenceOptions sequences_;
  std::int64_t tokenizer_tokens_ = 0;
};

struct Data {
  Texts texts;
  std::unique_ptr<exec::TokenSource> training, evaluation;  ///< the latter nullptr without evaluations
  std::optional<std::int32_t> mask;                         ///< the tokenizer's [MASK]
  std::optional<double> bigram_entropy;                     ///< of one text of bytes, the whole file, in nats per byte
};

/// Reads the texts, as open_data() does.
Texts open_texts(const DataOptions& options, const SequenceOptions& sequences);

/// Reads the texts. `held_out`: the fraction at the end of each that is not trained on. Throws ConfigError if a file cannot be read, a
/// weight is none, some texts have weights and others none, texts of bytes stand beside token ids, or no completion can be trained.
Data open_data(const DataOptions& options, const SequenceOptions& sequences, double held_out);

/// Says which tokens of the model's vocabulary cannot occur, as a missing or a wrong tokenizer shows only in the loss: the texts are read
/// as bytes, which fill less than half of it, or the tokenizer has less than nine tenths of its tokens. Published models pad less.
void tell_unused_tokens(const Texts& texts, const std::string& tokenizer, std::int64_t vocabulary);

/// Hides tokens behind `mask_token`, or behind the tokenizer's [MASK] if it is -1 and the plan's family hides any. Throws ConfigError if the plan's family hides none, or has no such token.
void name_mask(std::int64_t mask_token, const Plan& plan, Data& data);

}  // namespace tandem::program
