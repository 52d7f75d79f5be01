#pragma once
// Runs a study's simulations on several threads.

#include <functional>

#include "experiments/tandem/study/results.hpp"
#include "models/base/threads.hpp"

namespace tandem::study {

struct SweepOptions {
  Jobs jobs;
  std::function<void(std::size_t)> finished;  ///< called with the number of finished plans; never concurrently
};

/// Evaluates the candidates that `results` lacks, each key once. Throws the first error of any thread.
void sweep(const Study& study, const std::vector<Candidate>& candidates, Results& results, const SweepOptions& options);

}  // namespace tandem::study
