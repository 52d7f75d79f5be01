#pragma once
// Trains to the end of a run, and tells every step.

#include "exec/run/run.hpp"
#include "experiments/tandem/training/finite_watch.hpp"
#include "experiments/tandem/training/metrics.hpp"
#include "experiments/tandem/training/rates.hpp"

namespace tandem::program {

struct Training {
  GraphCache& graphs;
  const exec::TokenSource& data;
  exec::World& world;
};

/// What watches a run's steps.
struct Watchers {
  FiniteWatch& numbers;
  MetricsFile& metrics;
  RateWatch& rates;
};

/// Runs to the end, until Ctrl-C, or until values stay non-finite.
exec::RunResult run_to_end(const Training& of, exec::RunOptions options, const Watchers& watchers);

}  // namespace tandem::program
