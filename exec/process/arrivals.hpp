#pragma once
// Records which ranks have arrived at which call. A call between ranks begins once all its ranks have arrived.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
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

/// A rank's wait in a call.
struct Waiting {
  Rank rank;
  std::uint32_t channel = 0;
  std::vector<Rank> others;  ///< the ranks that it waits for
  std::string call;          ///< "all_reduce of 64 fp32 on group data"
  bool moves = false;        ///< all have arrived and bytes are being moved; which rank is late is then unknown
};

/// A wait that has not ended, and the ranks that are still missing.
struct OpenWait {
  Waiting wait;
  std::vector<Rank> missing;
  std::chrono::steady_clock::time_point since;
};

/// Thread-safe.
class Arrivals {
 public:
  void deposit(Rank from, Rank to, std::uint32_t channel, const Arrival& arrival);
  /// Calls `tell`, which sends a rank's arrival to all other ranks of its call. After stop() or abort() throws CommError instead.
  void announce(const std::function<void()>& tell);
  /// Blocks until all others have arrived. Returns their arrivals in the order of Waiting::others. Throws CommError after abort(), and
  /// after stop() if a rank will not arrive any more.
  std::vector<Arrival> wait(const Waiting& waiting);
  /// While it exists, oldest() sees a wait for bytes.
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

  /// Makes every present and later wait throw CommError. Only the first cause is kept.
  void abort(const std::string& cause);

  /// Ends the step: ranks of this process announce no further call. Calls that all their ranks have announced still complete. Returns
  /// true the first time. `others`: the other processes, which stop too; call stopped_there() once for each.
  bool stop(const Failure& cause, int others);
  /// Another process has stopped, and all that it announced was deposited.
  void stopped_there();
  bool stopping() const;
  /// Blocks until stop(). Returns its first cause. Throws CommError if abort() came before.
  Failure await_stop() const;

  /// The longest wait of `rank`; of all ranks in this process if `rank` is invalid.
  std::optional<OpenWait> oldest(Rank rank) const;

 private:
  using Key = std::tuple<Rank, Rank, std::uint32_t>;  // from, to, channel
  bool came(const Waiting& w, Rank other) const;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<Key, std::deque<Arrival>> queues_;
  std::list<OpenWait> open_;
  std::string cause_;
  std::optional<Failure> stop_;
  int still_announce_ = 0;  ///< other processes that have not stopped yet
  std::mutex announcing_;   ///< held while a rank tells all others. If stop() cut that short, those told would wait for bytes in vain
};

}  // namespace tandem::exec
