#pragma once
// Who has come to which call: a call between ranks begins when all its ranks have.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "exec/process/frame.hpp"
#include "models/base/ids.hpp"

namespace tandem::exec {

struct Arrival {
  std::int64_t at = 0;  ///< nanoseconds of process 0's clock
  CallName call;
};

/// What a rank waits for.
struct Waiting {
  Rank rank;
  std::uint32_t channel = 0;
  std::vector<Rank> others;  ///< that must come
  std::string call;          ///< "all_reduce of 64 fp32 on group data"
  bool moves = false;        ///< all have come, and their bytes are on the way: whose are late is not known
};

/// A wait that is still on, and whom it lacks.
struct OpenWait {
  Waiting wait;
  std::vector<Rank> missing;
  std::chrono::steady_clock::time_point since;
};

/// Thread-safe.
class Arrivals {
 public:
  void deposit(Rank from, Rank to, std::uint32_t channel, const Arrival& arrival);
  /// Returns the others' arrivals, in their order, when all are there. Throws CommError behind abort().
  std::vector<Arrival> wait(const Waiting& waiting);
  /// Keeps a wait for bytes in view while it lives.
  class Moving {
   public:
    Moving(Arrivals& arrivals, Waiting waiting);
    ~Moving();
    Moving(const Moving&) = delete;
    Moving& operator=(const Moving&) = delete;

   private:
    Arrivals& arrivals_;
    std::list<OpenWait>::iterator mine_;
  };

  /// Wakes every wait, now and later. The first cause counts.
  void abort(const std::string& cause);

  /// The longest wait of `rank`, or of all ranks here where it is none.
  std::optional<OpenWait> oldest(Rank rank) const;

 private:
  using Key = std::tuple<Rank, Rank, std::uint32_t>;  // from, to, channel
  bool came(const Waiting& w, Rank other) const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::deque<Arrival>> queues_;
  std::list<OpenWait> open_;
  std::string cause_;
};

}  // namespace tandem::exec
