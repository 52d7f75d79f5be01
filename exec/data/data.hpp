#pragma once
// Where tokens come from: deterministic, addressed by global sequence index, so every layout reads the same batch.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "exec/data/masked_example.hpp"

namespace tandem::exec {

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  /// Different tokens of the text; bert's mask is not among them.
  virtual std::int64_t vocab_size() const = 0;
  /// Fills `tokens` (seq_length + 1 of them: inputs are the first seq_length, targets the last; t5's two lengths add up) for global sequence
  /// `index`. The same index always gives the same tokens; consecutive indices are shuffled over the text. Thread-safe.
  virtual void sequence(std::int64_t index, std::span<std::int32_t> tokens) const = 0;
  /// Sequences 0 .. sequences() - 1 are what other sequences take strange second halves from.
  virtual std::int64_t sequences() const { return 1 << 16; }
  /// Names the tokens, so that a run that is resumed can tell whether they are the same; 0: unknown.
  virtual std::uint64_t fingerprint() const { return 0; }
  /// Global sequence `index` as bert reads it. A source of ready-made examples says so here; it must hide exactly
  /// masking.masked positions. Thread-safe.
  virtual Example masked_example(std::int64_t index, const Masking& masking) const {
    return mask_sequence(*this, index, masking);
  }
  /// Global sequence `index` as t5 reads it: `lengths.encoder` tokens, then `lengths.decoder` decoder tokens with as many
  /// targets. A source of ready-made examples says so here. Thread-safe.
  virtual Example prefix_example(std::int64_t index, const PrefixLengths& lengths) const {
    return prefix_sequence(*this, index, lengths);
  }
};

/// Fractions of a text between which it is read.
struct TextPart {
  double begin = 0, end = 1;
};

/// A text, read once for all that is made of it.
struct TextFile {
  std::string path;
  std::string bytes;
};

/// Throws ConfigError when the file cannot be read, is no plain file or is larger than half of the host's memory: before it is read.
std::shared_ptr<const TextFile> read_text_file(const std::string& path);

/// Byte tokens (vocabulary 256) of a text file, or of a part of it. Throws ConfigError when unreadable or shorter than
/// seq_length + 1.
std::unique_ptr<TokenSource> open_byte_text(const std::string& path, std::int64_t seq_length, std::uint64_t seed,
                                            const TextPart& part = {});

std::unique_ptr<TokenSource> open_byte_text(std::shared_ptr<const TextFile> file, std::int64_t seq_length, std::uint64_t seed,
                                            const TextPart& part = {});

/// Conditional entropy of a byte given the one before it, in nats: what a bigram table reaches on this text.
double bigram_entropy(const TextFile& file);

}  // namespace tandem::exec
