#pragma once
// Sources of tokens. They are deterministic and indexed by global sequence, so every layout reads the same batch.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "exec/data/masked_example.hpp"
#include "exec/data/token_file.hpp"

namespace tandem::exec {

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  /// Number of different tokens in the text, without BERT's mask token.
  virtual std::int64_t vocab_size() const = 0;
  /// Writes seq_length + 1 `tokens` of sequence `index`: the first seq_length are inputs, the last are targets (T5: both lengths
  /// added). Equal indices give equal tokens; consecutive indices are shuffled over the text. Thread-safe.
  virtual void sequence(std::int64_t index, std::span<std::int32_t> tokens) const = 0;
  /// Global sequence `index` as an example of `seq_length` positions that predict their next tokens. Sources that mask targets or
  /// know documents override it. Thread-safe.
  virtual Example next_example(std::int64_t index, std::int64_t seq_length) const {
    return next_sequence(*this, index, seq_length);
  }
  /// Number of targets of next_example(). Thread-safe.
  virtual std::int64_t targets(std::int64_t index, std::int64_t seq_length) const { return static_cast<void>(index), seq_length; }
  /// Number of sequences from which others take a foreign second half (BERT's next-sentence task).
  virtual std::int64_t sequences() const { return 1 << 16; }
  /// How often the first `samples` sequences read the text; of a blend, the text that they read most often.
  virtual double epochs(double samples) const { return samples / static_cast<double>(sequences()); }
  /// A hash that identifies the tokens, so that a resumed run can check them; 0: unknown.
  virtual std::uint64_t fingerprint() const { return 0; }
  /// Global sequence `index` as a BERT example. Sources with ready-made examples override it; they must hide exactly masking.masked
  /// positions. Thread-safe.
  virtual Example masked_example(std::int64_t index, const Masking& masking) const {
    return mask_sequence(*this, index, masking);
  }
  /// Global sequence `index` as a T5 example: `lengths.encoder` tokens, `lengths.decoder` decoder tokens and as many targets.
  /// Sources with ready-made examples override it. Thread-safe.
  virtual Example prefix_example(std::int64_t index, const PrefixLengths& lengths) const {
    return prefix_sequence(*this, index, lengths);
  }
};

/// The part of a text that is read, as fractions of its length.
struct TextPart {
  double begin = 0, end = 1;
};

/// Tokens of a file, or of a part of it. Throws ConfigError if it has fewer than seq_length + 1 tokens.
std::unique_ptr<TokenSource> open_tokens(std::shared_ptr<const TokenFile> file, std::int64_t seq_length, std::uint64_t seed,
                                         const TextPart& part = {});

/// The same of the file at a path (read_token_file).
std::unique_ptr<TokenSource> open_tokens(const std::string& path, std::int64_t seq_length, std::uint64_t seed,
                                         const TextPart& part = {});

/// Conditional entropy in nats of a byte given the previous one: the loss of a bigram model on this text. Nothing for token ids.
std::optional<double> bigram_entropy(const TokenFile& file);

}  // namespace tandem::exec
