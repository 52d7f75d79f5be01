#pragma once
// Runs a study on several threads.

#include <functional>

#include "experiments/tandem/study/results.hpp"

namespace tandem::study {

struct SweepProgress {
  std::function<bool()> stop;                 ///< asked between plans: true ends the sweep early
  std::function<void(std::size_t)> finished;  ///< how many are done; called by one thread at a time
};

/// Evaluates the candidates that `results` lacks, each key once, on `jobs` threads. Rethrows the first error of a
/// thread.
void sweep(const Study& study, const std::vector<Candidate>& candidates, Results& results, int jobs,
           const SweepProgress& progress);

}  // namespace tandem::study
