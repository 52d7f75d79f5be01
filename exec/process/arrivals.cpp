#include "exec/process/arrivals.hpp"

#include <algorithm>

#include "models/base/error.hpp"

namespace tandem::exec {

void Arrivals::deposit(Rank from, Rank to, std::uint32_t channel, const Arrival& arrival) {
  const std::lock_guard lock(mutex_);
  queues_[{from, to, channel}].push_back(arrival);
  changed_.notify_all();
}

void Arrivals::announce(const std::function<void()>& tell) {
  const std::lock_guard one(announcing_);
  {
    const std::lock_guard lock(mutex_);
    if (!cause_.empty()) throw CommError(cause_);
    if (stop_) throw CommError(stop_->text);
  }
  tell();
}

Arrivals::Moving::Moving(Arrivals& arrivals, Waiting w) : arrivals_(arrivals) {
  w.moves = true;
  const std::lock_guard lock(arrivals_.mutex_);
  mine_ = arrivals_.open_.insert(arrivals_.open_.end(), {std::move(w), {}, std::chrono::steady_clock::now()});
}

Arrivals::Moving::~Moving() {
  const std::lock_guard lock(arrivals_.mutex_);
  arrivals_.open_.erase(mine_);
}

bool Arrivals::came(const Waiting& w, Rank other) const {
  if (w.moves) return false;
  const auto at = queues_.find({other, w.rank, w.channel});
  return at != queues_.end() && !at->second.empty();
}

std::vector<Arrival> Arrivals::wait(const Waiting& w) {
  std::unique_lock lock(mutex_);
  const auto mine = open_.insert(open_.end(), {w, {}, std::chrono::steady_clock::now()});
  const auto all = [&] { return std::all_of(w.others.begin(), w.others.end(), [&](Rank r) { return came(w, r); }); };
  const auto hopeless = [&] { return stop_ && still_announce_ == 0; };
  changed_.wait(lock, [&] { return !cause_.empty() || all() || hopeless(); });
  open_.erase(mine);
  if (!cause_.empty()) throw CommError(cause_);
  if (!all()) throw CommError(stop_->text);
  std::vector<Arrival> arrivals;
  for (const Rank r : w.others) {
    auto& queue = queues_.at({r, w.rank, w.channel});
    arrivals.push_back(queue.front());
    queue.pop_front();
  }
  return arrivals;
}

void Arrivals::abort(const std::string& cause) {
  const std::lock_guard lock(mutex_);
  if (cause_.empty()) cause_ = cause;
  changed_.notify_all();
}

bool Arrivals::stop(const Failure& cause, int others) {
  const std::lock_guard none(announcing_);
  const std::lock_guard lock(mutex_);
  if (stop_) return false;
  stop_ = cause;
  still_announce_ = others;
  changed_.notify_all();
  return true;
}

void Arrivals::stopped_there() {
  const std::lock_guard lock(mutex_);
  --still_announce_;
  changed_.notify_all();
}

bool Arrivals::stopping() const {
  const std::lock_guard lock(mutex_);
  return stop_.has_value();
}

Failure Arrivals::await_stop() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stop_ || !cause_.empty(); });
  if (!stop_) throw CommError(cause_);
  return *stop_;
}

std::optional<OpenWait> Arrivals::oldest(Rank rank) const {
  const std::lock_guard lock(mutex_);
  for (const OpenWait& w : open_) {  // in the order in which they began
    if (rank != Rank() && w.wait.rank != rank) continue;
    OpenWait found = w;
    for (const Rank r : w.wait.others)
      if (!came(w.wait, r)) found.missing.push_back(r);
    if (!found.missing.empty()) return found;
  }
  return std::nullopt;
}

}  // namespace tandem::exec
