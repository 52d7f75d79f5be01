#pragma once
// Failures of a training and its checkpoints: goodput, the best interval between checkpoints, spares.

namespace tandem::sim {

/// Failures occur at random at a constant rate (a Poisson process), also while the job saves, restarts or repeats work.
/// All times are in seconds and not negative.
struct FailureModel {
  double failures_per_s = 0;  ///< failures of the whole job
  double recovery_s = 0;      ///< detection and restart after a failure; a failure meanwhile starts it again
  double save_s = 0;          ///< how long the job pauses for a checkpoint
  double durable_s = 0;       ///< how much later the checkpoint is safe; 0: it is saved synchronously
};

/// Shares of the wall-clock time; they add up to 1.
struct TimeShares {
  double work = 0;    ///< goodput: steps that count
  double saving = 0;
  double lost = 0;    ///< work and saves that a failure undid
  double down = 0;    ///< detection and restart
};

/// The exact expectation over a long training that saves every `interval_s` seconds of work. `interval_s` is positive and, with
/// `save_s`, not below `durable_s`. Source: Daly 2006 (doi 10.1016/j.future.2004.11.016), equation 13, extended here to `durable_s`.
TimeShares time_shares(const FailureModel& model, double interval_s);

/// The interval that maximises `time_shares(model, interval).work`; infinity without failures. Throws ContractError without a save time.
double best_interval_s(const FailureModel& model);

/// Young 1974 (doi 10.1145/361147.361115): sqrt(2 x save x MTBF).
double young_interval_s(const FailureModel& model);
/// Daly's higher-order estimate (2006, equation 37).
double daly_interval_s(const FailureModel& model);

/// Number of spare nodes so that at least `share` of the time no more nodes are broken. `mean_broken` is failures per second times
/// seconds of repair; the number of broken nodes is Poisson (an M/G/infinity queue). 0 <= share < 1.
int spares_for(double mean_broken, double share);
/// The share of time in which at most `spares` nodes are broken.
double share_with_spares(double mean_broken, int spares);

}  // namespace tandem::sim
