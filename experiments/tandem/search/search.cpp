#include "experiments/tandem/search/search.hpp"

#include <algorithm>
#include <numeric>

#include "experiments/tandem/base/interrupt.hpp"

namespace tandem::search {

namespace {

constexpr std::int64_t kChunk = 256;                        ///< groups that a thread bounds at a time
constexpr std::size_t kFirstRound = 32, kLastRound = 1024;  ///< groups between two looks at the limit
constexpr std::size_t kSimulations = 4;                     ///< between two looks at the limit

/// The k-th least, kNoLimit where there are fewer.
std::int64_t kth(std::vector<std::int64_t> times, std::int64_t k) {
  if (static_cast<std::int64_t>(times.size()) < k) return kNoLimit;
  const auto place = times.begin() + (k - 1);
  std::nth_element(times.begin(), place, times.end());
  return *place;
}

std::int64_t scaled(std::int64_t ps, double factor) { return static_cast<std::int64_t>(static_cast<double>(ps) * factor); }

}  // namespace

std::int64_t Found::least_ps() const { return std::max(floor_ps, scaled(estimate_ps, 1 - kTimeError)); }

std::int64_t Found::most_ps(std::int64_t room) const {
  const bool fits = static_cast<double>(memory) * (1 + kMemoryError) <= static_cast<double>(room);
  return outside == sim::Outside::nothing && fits ? scaled(estimate_ps, 1 + kTimeError) : kNoLimit;
}

Search::Search(const Space& space, SearchOptions options)
    : space_(space), options_(std::move(options)), judge_(space, options_.any_stack) {
  survey();
}

void Search::survey() {
  const auto groups = static_cast<std::size_t>(space_.groups());
  floors_.resize(groups), fates_.resize(groups), large_.resize(groups);
  const std::size_t chunks = (groups + kChunk - 1) / kChunk;
  for_each_index(chunks, options_.jobs, [&](std::size_t c) {
    for (std::size_t g = c * kChunk; g < std::min(groups, (c + 1) * kChunk); ++g) {
      const GroupView view = judge_.group(static_cast<std::int64_t>(g));
      floors_[g] = view.floor_ps, fates_[g] = view.fate, large_[g] = static_cast<std::int32_t>(view.large);
    }
  });
  if (stopped()) throw program::Interrupted{};
  for (std::size_t g = 0; g < groups; ++g)
    if (fates_[g] == Fate::bounded && large_[g] < space_.members()) order_.push_back(static_cast<std::int64_t>(g));
  std::stable_sort(order_.begin(), order_.end(), [&](std::int64_t a, std::int64_t b) {
    return floors_[static_cast<std::size_t>(a)] < floors_[static_cast<std::size_t>(b)];
  });
}

void Search::take(Knowledge knowledge) {
  for (Found& f : knowledge.found)
    if (known_.groups.count(f.id / space_.members()) == 0) known_.found.push_back(f);
  known_.groups.merge(knowledge.groups);
  known_.simulated.merge(knowledge.simulated);
}

void Search::estimate_groups(const std::vector<std::int64_t>& groups) {
  struct Part {
    Counts counts{};
    std::vector<Found> found;
  };
  std::vector<Part> parts(groups.size());
  for_each_index(groups.size(), options_.jobs, [&](std::size_t i) {
    const std::int64_t g = groups[i];
    const GroupView view = judge_.group(g);
    for (std::int64_t m = 0; m < space_.members(); ++m) {
      if (view.too_large[static_cast<std::size_t>(m)]) continue;
      const CandidateId id = g * space_.members() + m;
      const CandidateView c = judge_.candidate(id);
      ++at(parts[i].counts, c.fate);
      if (c.fate == Fate::estimated || c.fate == Fate::simulated)
        parts[i].found.push_back({id, view.floor_ps, c.estimate_ps, c.memory, c.outside});
    }
  });
  if (stopped()) return;  // a round counts as a whole
  for (std::size_t i = 0; i < groups.size(); ++i) {
    known_.groups[groups[i]] = parts[i].counts;
    known_.found.insert(known_.found.end(), parts[i].found.begin(), parts[i].found.end());
  }
}

std::int64_t Search::estimated_limit() const {
  std::vector<std::int64_t> times;
  for (const Found& f : known_.found)
    if (const std::int64_t most = f.most_ps(judge_.room()); most < kNoLimit) times.push_back(most);
  return kth(std::move(times), options_.best);
}

std::int64_t Search::simulated_limit() const {
  std::vector<std::int64_t> times;
  for (const auto& [id, s] : known_.simulated)
    if (s.fits) times.push_back(s.time_ps);
  return kth(std::move(times), options_.best);
}

/// Estimates in the order of the bounds as long as these are not above the limit, without one that of the estimates so far; whether there
/// was anything to do.
bool Search::estimate_until(std::int64_t limit) {
  std::size_t next = 0, round = kFirstRound;
  bool any = false;
  while (!stopped()) {
    const std::int64_t least = limit == kNoLimit ? estimated_limit() : limit;
    std::vector<std::int64_t> groups;
    for (; next < order_.size() && groups.size() < round; ++next) {
      const std::int64_t g = order_[next];
      if (floors_[static_cast<std::size_t>(g)] > least) break;
      if (static_cast<std::int64_t>(next) % options_.shards == options_.shard && known_.groups.count(g) == 0) groups.push_back(g);
    }
    if (groups.empty()) break;
    any = true;
    estimate_groups(groups);
    round = std::min(kLastRound, 2 * round);
  }
  return any;
}

void Search::estimate() {
  estimate_until(kNoLimit);
  if (stopped()) throw program::Interrupted{};
}

/// Candidates that are not simulated yet, those that could be fastest first.
std::vector<const Found*> Search::queue() const {
  std::vector<const Found*> out;
  for (const Found& f : known_.found)
    if (known_.simulated.count(f.id) == 0) out.push_back(&f);
  std::sort(out.begin(), out.end(), [](const Found* a, const Found* b) {
    return std::pair(a->least_ps(), a->id) < std::pair(b->least_ps(), b->id);
  });
  return out;
}

/// Steps that were simulated, not those whose live tensors do not fit.
std::int64_t Search::timed() const {
  return std::count_if(known_.simulated.begin(), known_.simulated.end(), [](const auto& s) { return s.second.timed; });
}

void Search::refine() {
  const std::vector<const Found*> waiting = queue();
  for (std::size_t next = 0; next < waiting.size() && !stopped();) {
    const std::int64_t limit = simulated_limit();
    const auto left = static_cast<std::size_t>(std::max<std::int64_t>(0, options_.events - timed()));
    std::vector<const Found*> round;
    for (; next < waiting.size() && round.size() < std::min(kSimulations, left); ++next) {
      if (waiting[next]->least_ps() > limit) break;
      round.push_back(waiting[next]);
    }
    if (round.empty()) return;
    std::vector<Simulated> results(round.size());
    for_each_index(round.size(), options_.jobs, [&](std::size_t i) { results[i] = judge_.simulate(round[i]->id); });
    if (stopped()) return;
    for (const Simulated& s : results) known_.simulated[s.id] = s;
  }
}

Answer Search::answer() {
  for (std::int64_t limit = kNoLimit;;) {
    const bool more = estimate_until(limit);
    refine();
    if (stopped()) throw program::Interrupted{};
    if (!more && limit < kNoLimit) break;
    limit = std::min(simulated_limit(), kNoLimit - 1);
  }
  return summary();
}

Answer Search::summary() const {
  Answer out;
  out.candidates = space_.size();
  out.limit_ps = simulated_limit();
  for (std::size_t g = 0; g < fates_.size(); ++g) {
    const auto known = known_.groups.find(static_cast<std::int64_t>(g));
    const std::int64_t open = space_.members() - large_[g];
    if (fates_[g] != Fate::bounded) {
      at(out.counts, fates_[g]) += space_.members();
      continue;
    }
    at(out.counts, Fate::too_large) += large_[g];
    if (known == known_.groups.end() || floors_[g] > out.limit_ps) at(out.counts, Fate::bounded) += open;
    else for (std::size_t f = 0; f < kFates; ++f) out.counts[f] += known->second[f];
  }
  // Those without an estimate count as simulated so far.
  for (const Found& f : known_.found) {
    if (f.floor_ps > out.limit_ps) continue;
    const auto s = known_.simulated.find(f.id);
    const Fate was = f.estimate_ps > 0 && f.outside != sim::Outside::layout ? Fate::estimated : Fate::simulated;
    const bool counts = f.least_ps() <= out.limit_ps;
    Fate now = was;
    if (counts && s != known_.simulated.end()) now = s->second.fits ? Fate::simulated : Fate::too_large;
    else if (was == Fate::simulated) now = counts ? Fate::left : Fate::bounded;
    if (counts && s == known_.simulated.end()) out.complete = false;
    --at(out.counts, was), ++at(out.counts, now);
    if (now != Fate::simulated) continue;
    out.best.push_back(s->second);
    out.estimates[f.id] = f;
    out.by_events_alone += was == Fate::simulated ? 1 : 0;
  }
  std::sort(out.best.begin(), out.best.end(), [](const Simulated& a, const Simulated& b) {
    return std::pair(a.time_ps, a.id) < std::pair(b.time_ps, b.id);
  });
  if (static_cast<std::int64_t>(out.best.size()) > options_.best) out.best.resize(static_cast<std::size_t>(options_.best));
  const std::int64_t sum = std::accumulate(out.counts.begin(), out.counts.end(), std::int64_t{0});
  require(sum == out.candidates, "the reasons of a search do not add up to its candidates");
  return out;
}

Fate Search::fate(CandidateId id, const Answer& answer, std::string& reason) const {
  const std::int64_t g = id / space_.members();
  const GroupView view = judge_.group(g);
  reason = view.reason;
  if (view.fate != Fate::bounded) return view.fate;
  if (view.too_large[static_cast<std::size_t>(id % space_.members())]) return reason = "parameters, states and kept activations alone need more", Fate::too_large;
  if (view.floor_ps > answer.limit_ps || known_.groups.count(g) == 0) return Fate::bounded;
  const CandidateView c = judge_.candidate(id);
  reason = c.reason;
  if (c.fate != Fate::estimated && c.fate != Fate::simulated) return c.fate;
  const Found f{id, view.floor_ps, c.estimate_ps, c.memory, c.outside};
  const bool counts = f.least_ps() <= answer.limit_ps;
  const auto s = known_.simulated.find(id);
  if (counts && s != known_.simulated.end()) return s->second.fits ? Fate::simulated : Fate::too_large;
  return c.fate == Fate::estimated ? Fate::estimated : counts ? Fate::left : Fate::bounded;
}

}  // namespace tandem::search
