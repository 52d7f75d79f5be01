#pragma once
// The failure that ends a run: the first one of any rank.

#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <string>

#include "exec/process/frame.hpp"
#include "models/base/ids.hpp"

namespace tandem::exec {

struct RankFailure {
  Rank rank;                ///< invalid: the failure belongs to no single rank
  std::int64_t step = 0;    ///< 0-based; the step in progress, the first one (start), or the last one (evaluation, saving)
  Activity during = Activity::training;
  std::string reason;

  /// "rank 2 failed in step 7: ...", "rank 2 failed before step 0: ..."
  std::string message() const;
};

/// Keeps the first failure of many ranks. Later ones are consequences of it. Thread-safe.
class FirstFailure {
 public:
  /// Call it inside the handler of the rank's exception. Returns true for the first call.
  bool record(Rank rank, std::int64_t step, Activity during);
  /// Records another process' failure, unless one is recorded.
  void record(const Failure& failure);

  /// Call it inside the handler of an exception that a save behind the recorded failure threw. Adds it to the reason.
  void add_unsaved();

  /// The recorded failure. Call it once no rank runs any more.
  const std::optional<RankFailure>& failure() const { return failure_; }

  /// The recorded failure, in the form that other processes receive.
  Failure told() const;
  /// Replaces the record by `failure`, the one that counts among all processes. One without a rank keeps the record's step.
  void adopt(const Failure& failure);

  /// Rethrows the recorded failure, if there is one. A DeviceError or std::bad_alloc becomes a DeviceError with message(), a
  /// ContractError a ContractError with message(). A CommError, which already names its first rank, and exceptions of the caller's
  /// functions pass unchanged.
  void rethrow() const;

 private:
  void take(const Failure& failure);

  std::mutex mutex_;
  std::optional<RankFailure> failure_;
  std::exception_ptr what_;
};

}  // namespace tandem::exec
