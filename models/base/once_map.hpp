#pragma once
// Values that are made once and shared by threads.

#include <memory>
#include <mutex>
#include <unordered_map>

namespace tandem {

/// Thread-safe.
template <class Key, class Value, class Hash>
class OnceMap {
 public:
  /// The value of a key; the first caller makes it, others wait for it. If `make` throws, the next caller tries again. The reference
  /// is valid as long as the map.
  template <class Make>
  const Value& get(const Key& key, const Make& make) {
    Entry& entry = of(key);
    std::call_once(entry.once, [&] { entry.value = make(); });
    return entry.value;
  }

  /// The number of keys.
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return known_.size();
  }

 private:
  struct Entry {
    std::once_flag once;
    Value value;
  };

  Entry& of(const Key& key) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Entry>& entry = known_[key];
    if (entry == nullptr) entry = std::make_unique<Entry>();
    return *entry;
  }

  mutable std::mutex mutex_;
  std::unordered_map<Key, std::unique_ptr<Entry>, Hash> known_;
};

}  // namespace tandem
