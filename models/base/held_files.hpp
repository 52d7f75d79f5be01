#pragma once
// Data files that stay as they are while a search runs: what was read off one is not looked for again.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace tandem {

/// While one lives, on any thread, data files are taken to stay as they were first read.
class HeldFiles {
 public:
  HeldFiles();
  ~HeldFiles();
  HeldFiles(const HeldFiles&) = delete;
  HeldFiles& operator=(const HeldFiles&) = delete;

  /// Another number each time that files begin to be held; 0 while they are not.
  static std::uint64_t period();
};

/// What was read off files, by name, for as long as they are held. One thread's.
template <class Value>
class HeldAnswers {
 public:
  /// What `read()` gives, or gave before in this period.
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

}  // namespace tandem
