#pragma once
// What `evaluate` says of a model and a text.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/run/run_result.hpp"

namespace tandem::program {

/// What is evaluated on.
struct EvaluatedText {
  std::string name;
  std::int64_t sequences = 0, sequence_tokens = 0, batches = 0;
  std::int64_t batch = 0;              ///< sequences of a global batch
  bool documents = false;              ///< each sequence is a document with answers
  std::optional<std::int64_t> words{};   ///< of the original text
  std::optional<std::int64_t> bytes{};   ///< of the text
};

/// Sums over the sequences of an evaluation, in their order.
class EvaluationSum {
 public:
  using Clock = std::chrono::steady_clock;
  void add(const std::vector<exec::SequenceScore>& batch, Clock::time_point now = Clock::now());

  std::int64_t batches() const { return batches_; }
  std::int64_t targets() const { return all_.targets; }
  /// Mean loss per target, in nats.
  double loss() const { return all_.loss / static_cast<double>(all_.targets); }
  double hits() const { return static_cast<double>(all_.hits) / static_cast<double>(all_.targets); }
  const exec::SequenceScore& all() const { return all_; }
  std::int64_t answered() const { return answered_; }   ///< sequences with targets
  std::int64_t right() const { return right_; }         ///< of these, those whose targets are all most probable
  /// Seconds of a batch behind the first one; nullopt: there is none.
  std::optional<double> batch_time_s() const;

 private:
  exec::SequenceScore all_;
  std::int64_t batches_ = 0, answered_ = 0, right_ = 0;
  Clock::time_point first_, last_;
};

struct EvaluationReport {
  EvaluatedText text{};
  EvaluationSum sum{};
  std::int64_t peak_memory_bytes = 0;  ///< largest of any rank
};

/// exp(sum of losses / (words - 1)): a perplexity that does not depend on the tokenizer (NVIDIA/Megatron-LM:
/// tasks/zeroshot_gpt/evaluate.py, "adjusted ppl").
std::optional<double> adjusted_perplexity(const EvaluationReport& report);

std::string to_text(const EvaluationReport& report);
/// JSON with schema_version, loss, perplexity, targets, sequences, accuracy, words, adjusted_perplexity, bits_per_byte,
/// documents{count right accuracy}, sentence_pairs{count loss accuracy}, tokens_per_s, peak_memory_bytes.
std::string to_json(const EvaluationReport& report);

}  // namespace tandem::program
