#pragma once
// What ends a run: the first thing that went wrong on one of its ranks.

#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <string>

#include "exec/process/frame.hpp"
#include "models/base/ids.hpp"

namespace tandem::exec {

struct RankFailure {
  Rank rank;                ///< none: no single one
  std::int64_t step = 0;    ///< 0-based: which was being done, or the last one trained before an evaluation
  bool evaluation = false;
  std::string reason;

  /// "rank 2 failed in step 7: ..."
  std::string message() const;
};

/// The first failure of many ranks; the others' are its consequences. Thread-safe.
class FirstFailure {
 public:
  /// Called inside the handler of what rank failed with. True for the first call.
  bool record(Rank rank, std::int64_t step, bool evaluation);

  /// What was recorded, once no rank runs any more.
  const std::optional<RankFailure>& failure() const { return failure_; }

  /// What was recorded, for other processes.
  Failure told() const;
  /// Takes the failure that counts among all processes for what was recorded.
  void adopt(const Failure& failure);

  /// Throws what was recorded, if anything: DeviceError with the failure's message, where a rank's memory or threads gave out too;
  /// ContractError with it; CommError, which names the rank that it began on itself, and what a caller's function threw, as they
  /// are.
  void rethrow() const;

 private:
  std::mutex mutex_;
  std::optional<RankFailure> failure_;
  std::exception_ptr what_;
};

}  // namespace tandem::exec
