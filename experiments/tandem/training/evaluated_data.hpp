#pragma once
// The text that `evaluate` reads, once.

#include <cstdint>
#include <memory>

#include "exec/data/data.hpp"
#include "experiments/tandem/training/data.hpp"
#include "experiments/tandem/training/evaluation.hpp"
#include "models/plan/plan.hpp"

namespace tandem::program {

struct EvaluatedData {
  std::unique_ptr<exec::TokenSource> source;  ///< sequences beyond the text's have no targets
  EvaluatedText text;
};

/// How a text is cut and counted.
struct EvaluationCut {
  std::int64_t stride = 0;  ///< positions from window to window; 0: a window's length
  std::int64_t words = 0;   ///< of the original text; 0: counted in the text
};

/// Reads one text for the plan's model. Next tokens: all of them, in windows. Completions and last words: a document a sequence. BERT
/// and T5: the sequences that training reads. Throws ConfigError if it cannot be read, is too short, or an option is not for it.
EvaluatedData open_evaluated(const DataOptions& options, const Plan& plan, const EvaluationCut& cut);

}  // namespace tandem::program
