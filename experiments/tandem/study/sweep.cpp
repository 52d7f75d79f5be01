#include "experiments/tandem/study/sweep.hpp"

#include <mutex>
#include <set>

namespace tandem::study {

namespace {

std::vector<const Candidate*> missing(const std::vector<Candidate>& candidates, const Results& results) {
  std::vector<const Candidate*> out;
  std::set<std::string> seen;
  for (const Candidate& c : candidates)
    if (!results.has(c.key) && seen.insert(c.key).second) out.push_back(&c);
  return out;
}

}  // namespace

void sweep(const Study& study, const std::vector<Candidate>& candidates, Results& results, const SweepOptions& options) {
  const std::vector<const Candidate*> work = missing(candidates, results);
  std::mutex counting;
  std::size_t done = 0;
  for_each_index(work.size(), options.jobs, [&](std::size_t i) {
    results.add(work[i]->key, evaluate(study, *work[i]));
    const std::lock_guard guard(counting);
    options.finished(++done);
  });
}

}  // namespace tandem::study
