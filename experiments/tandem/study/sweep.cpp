#include "experiments/tandem/study/sweep.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <set>
#include <thread>

namespace tandem::study {

namespace {

std::vector<const Candidate*> missing(const std::vector<Candidate>& candidates, const Results& results) {
  std::vector<const Candidate*> out;
  std::set<std::string> seen;
  for (const Candidate& c : candidates)
    if (!results.has(c.key) && seen.insert(c.key).second) out.push_back(&c);
  return out;
}

/// Threads take plans one by one: sizes differ too much to deal them out beforehand.
class Crew {
 public:
  Crew(const Study& study, std::vector<const Candidate*> work, Results& results, const SweepProgress& progress)
      : study_(study), work_(std::move(work)), results_(results), progress_(progress) {}

  void run(int jobs) {
    std::vector<std::thread> threads;
    for (int j = 0; j < std::min<int>(jobs, static_cast<int>(work_.size())); ++j)
      threads.emplace_back([this] { labour(); });
    for (std::thread& t : threads) t.join();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void labour() {
    try {
      while (!progress_.stop() && !broken_) {
        const std::size_t i = next_++;
        if (i >= work_.size()) return;
        results_.add(work_[i]->key, evaluate(study_, *work_[i]));
        const std::lock_guard guard(mutex_);
        progress_.finished(++done_);
      }
    } catch (...) {
      const std::lock_guard guard(mutex_);
      if (!error_) error_ = std::current_exception();
      broken_ = true;
    }
  }

  const Study& study_;
  std::vector<const Candidate*> work_;
  Results& results_;
  const SweepProgress& progress_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> broken_{false};
  std::mutex mutex_;
  std::size_t done_ = 0;
  std::exception_ptr error_;
};

}  // namespace

void sweep(const Study& study, const std::vector<Candidate>& candidates, Results& results, int jobs,
           const SweepProgress& progress) {
  Crew(study, missing(candidates, results), results, progress).run(jobs);
}

}  // namespace tandem::study
