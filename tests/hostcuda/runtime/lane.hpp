#pragma once
// Work in order on a thread of its own, at a pace that a seed says.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>

namespace tandem::hostcuda {

using Work = std::function<void()>;

/// Sleeps now and then, so that a lane lags.
class Pace {
 public:
  explicit Pace(std::uint64_t number);
  void lag();

 private:
  std::uint64_t number_;
  std::mt19937_64 random_;
};

/// Numbers lanes from 0 again.
void renumber();

/// Performs work; an exception is a fault of the device. Nothing is performed after a fault.
void perform(const Work& work);

/// Any thread may push. The thread starts with the first push and ends, after all work, with the lane. It begins pushed work when it is
/// kicked, by the host's waits, or a moment later.
class Lane {
 public:
  Lane();
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  void push(Work work);
  void kick();
  /// False: nothing was ever pushed.
  bool used() const;
  /// Its place in the order of first pushes; -1 if nothing was pushed.
  std::int64_t number() const;

 private:
  struct Item;
  struct Shared;
  static void serve(std::shared_ptr<Shared> shared, std::uint64_t number);

  mutable std::mutex mutex_;  ///< of those who push; the lane's thread never locks it
  std::shared_ptr<Shared> shared_;
  Item* last_ = nullptr;
  bool started_ = false;
  std::int64_t number_ = -1;
};

}  // namespace tandem::hostcuda
