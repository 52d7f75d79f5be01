#pragma once
// Caches what was read from data files while a search runs. Files count as unchanged during that time.

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace tandem {

/// While one object exists, on any thread, data files count as unchanged since their first read.
class HeldFiles {
 public:
  HeldFiles();
  ~HeldFiles();
  HeldFiles(const HeldFiles&) = delete;
  HeldFiles& operator=(const HeldFiles&) = delete;

  /// Number of the current holding period; 0 if files are not held.
  static std::uint64_t period();
};

/// Values read from files, by name, valid for one holding period. For one thread.
template <class Value>
class HeldAnswers {
 public:
  /// Returns the cached value of this period, or calls `read()`.
  template <class Read>
  Value get(std::string_view name, const Read& read) {
    const std::uint64_t period = HeldFiles::period();
    if (period == 0) return read();
    if (period != period_) known_.clear(), period_ = period;
    const auto found = known_.find(name);
    return found != known_.end() ? found->second : known_.emplace(name, read()).first->second;
  }

 private:
  std::uint64_t period_ = 0;
  std::map<std::string, Value, std::less<>> known_;
};

/// Likewise, for all threads: short-lived ones need not read again. `Value` must be safe to copy on several threads.
template <class Value>
class SharedHeldAnswers {
 public:
  template <class Read>
  Value get(std::string_view name, const Read& read) {
    const std::lock_guard lock(mutex_);
    return answers_.get(name, read);
  }

 private:
  std::mutex mutex_;
  HeldAnswers<Value> answers_;
};

}  // namespace tandem
