#include "experiments/tandem/search/search.hpp"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

#include "experiments/tandem/base/interrupt.hpp"

namespace tandem::search {

namespace {

constexpr std::size_t kChunk = 256;                         ///< groups per thread and chunk
constexpr std::size_t kChunks = 64;                         ///< chunks between two consistent states of the knowledge
constexpr std::size_t kFirstRound = 8, kLastRound = 1024;   ///< groups to estimate between two updates of the limit
constexpr std::size_t kSharpened = 256;                     ///< groups whose bounds are raised at a time
constexpr std::size_t kSimulations = 4, kRefined = 16;      ///< between two updates of the limit

/// The k smallest times.
class Least {
 public:
  explicit Least(std::int64_t k) : k_(static_cast<std::size_t>(k)) {}
  void add(std::int64_t time) {
    times_.push(time);
    if (times_.size() > k_) times_.pop();
  }
  /// The k-th smallest; kNoLimit if there are fewer.
  std::int64_t last() const { return times_.size() < k_ ? kNoLimit : times_.top(); }

 private:
  std::size_t k_;
  std::priority_queue<std::int64_t> times_;
};

/// Neighbouring groups cost different work, so shards take groups by a mixed number (splitmix64).
std::uint64_t mixed(std::uint64_t n) {
  n += 0x9e3779b97f4a7c15;
  n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9;
  n = (n ^ (n >> 27)) * 0x94d049bb133111eb;
  return n ^ (n >> 31);
}

/// Calls `use` once for each group. Groups whose plans differ only in fields that stand alone follow each other, because one plan that
/// is filled in serves them all (CandidatePlans).
template <class Use>
void for_each_group(const Space& space, const Use& use) {
  struct Digit {
    std::int64_t stride, values, value = 0;
  };
  std::vector<Digit> digits;
  for (const bool alone : {false, true})
    for (std::size_t a = 0; a < space.axes().size(); ++a)
      if (space.stride(a) >= space.members() && space.stands_alone(a) == alone)
        digits.push_back({space.stride(a) / space.members(), static_cast<std::int64_t>(space.axes()[a].values.size())});
  std::int64_t group = 0;
  for (std::int64_t n = 0; n < space.groups(); ++n) {
    use(group);
    for (std::size_t d = digits.size(); d-- > 0;) {
      group += digits[d].stride;
      if (++digits[d].value < digits[d].values) break;
      group -= digits[d].stride * std::exchange(digits[d].value, 0);
    }
  }
}

/// Whether a candidate is a row by its simulation, even if a bound on its step or memory is too high.
bool stands(CandidateId id, const Answer& answer) {
  const auto s = answer.simulated.find(id);
  return s != answer.simulated.end() && s->second.fits && s->second.time_ps <= answer.limit_ps;
}

}  // namespace

Search::Search(const Space& space, SearchOptions options)
    : space_(space),
      options_(std::move(options)),
      judge_(space, {options_.any_stack, options_.any_memory}),
      round_(kFirstRound) {
  known_.facts.resize(static_cast<std::size_t>(space.groups()));
}

bool Search::mine(std::int64_t group) const {
  const std::uint64_t shard = mixed(static_cast<std::uint64_t>(group)) % static_cast<std::uint64_t>(options_.shards);
  return static_cast<std::int64_t>(shard) == options_.shard;
}

void Search::learned() const {
  if (options_.learned) options_.learned();
}

GroupFact Search::bounded(std::int64_t group) const {
  if (const std::optional<Outcome> refused = judge_.refused_by_numbers(group)) return {0, 0, *refused, true, false};
  const GroupView view = judge_.group(group, Reasons::left_out);
  return {view.floor_ps, static_cast<std::int32_t>(view.large), view.outcome, true, false};
}

/// Bounds the shard's groups that have no bounds yet.
void Search::bound() {
  std::vector<std::int64_t> missing;
  for_each_group(space_, [&](std::int64_t g) {
    if (mine(g) && !fact(g).known) missing.push_back(g);
  });
  for (std::size_t begin = 0; begin < missing.size(); begin += kChunk * kChunks) {
    const std::size_t end = std::min(missing.size(), begin + kChunk * kChunks);
    for_each_index((end - begin + kChunk - 1) / kChunk, options_.jobs, [&](std::size_t c) {
      for (std::size_t i = begin + c * kChunk; i < std::min(end, begin + (c + 1) * kChunk); ++i)
        known_.facts[static_cast<std::size_t>(missing[i])] = bounded(missing[i]);
    });
    for (std::size_t i = begin; i < end; ++i) refused_ += fact(missing[i]).refused() ? 1 : 0;
    learned();
    if (stopped()) throw program::Interrupted{};
  }
}

void Search::survey() {
  bound();
  sort_open();
}

void Search::sort_open() {
  order_.clear(), closer_.clear(), next_ = 0;
  for (std::int64_t g = 0; g < space_.groups(); ++g) {
    const bool open = fact(g).outcome == Outcome::bounded && fact(g).large < space_.members();
    if (!open || !mine(g) || known_.groups.count(g) != 0) continue;
    if (fact(g).sharp) closer_.emplace(fact(g).floor_ps, g);
    else order_.push_back(g);
  }
  std::stable_sort(order_.begin(), order_.end(),
                   [&](std::int64_t a, std::int64_t b) { return fact(a).floor_ps < fact(b).floor_ps; });
}

/// Removes one of next_groups(), which begin `order_` and `closer_`.
void Search::take_from_order(std::int64_t group) {
  if (next_ < order_.size() && order_[next_] == group) ++next_;
  else require(closer_.erase({fact(group).floor_ps, group}) == 1, "a group of a search is taken out of order");
}

/// Looks closer at the next groups to estimate. Returns false if their bounds cannot be raised.
bool Search::sharpen(std::int64_t limit) {
  const auto sharp = [&](std::int64_t g) { return fact(g).sharp; };
  std::vector<std::int64_t> groups = next_groups(limit, round_);
  if (std::all_of(groups.begin(), groups.end(), sharp)) return false;
  groups = next_groups(limit, std::max(round_, kSharpened));
  std::vector<CloserLook> looks(groups.size());
  for_each_index(groups.size(), options_.jobs, [&](std::size_t i) {
    if (!sharp(groups[i])) looks[i] = judge_.look_closer(groups[i], fact(groups[i]).floor_ps);
  });
  if (stopped()) throw program::Interrupted{};
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (sharp(groups[i])) continue;
    take_from_order(groups[i]);
    GroupFact& f = known_.facts[static_cast<std::size_t>(groups[i])];
    f.floor_ps = looks[i].floor_ps, f.sharp = looks[i].sharp || looks[i].settled;
    sharp_ += f.sharp ? 1 : 0;
    if (looks[i].settled) known_.groups[groups[i]] = *looks[i].settled;
    else closer_.emplace(f.floor_ps, groups[i]);
  }
  learned();
  return true;
}

void Search::estimate(const std::vector<std::int64_t>& groups) {
  learn(groups);
  for (const std::int64_t g : groups) take_from_order(g);
}

/// Estimates the members of groups.
void Search::learn(const std::vector<std::int64_t>& groups) {
  struct Part {
    Counts counts{};
    std::vector<Found> found;
  };
  std::vector<Part> parts(groups.size());
  for_each_index(groups.size(), options_.jobs, [&](std::size_t i) {
    const std::int64_t g = groups[i];
    const GroupView simple = judge_.group(g, Reasons::left_out), own = judge_.closer(g);
    for (std::int64_t m = 0; m < space_.members(); ++m) {
      const auto member = static_cast<std::size_t>(m);
      if (simple.too_large[member]) continue;
      const CandidateId id = g * space_.members() + m;
      const CandidateView c = judge_.candidate(id, Reasons::left_out);
      ++at(parts[i].counts, c.outcome);
      if (c.outcome == Outcome::estimated || c.outcome == Outcome::simulated)
        parts[i].found.push_back({id, std::max(fact(g).floor_ps, c.floor_ps), c.estimate_ps, c.memory, own.memory_floors[member],
                                  c.outside, c.rough});
    }
  });
  if (stopped()) throw program::Interrupted{};  // an interrupted round does not count
  for (std::size_t i = 0; i < groups.size(); ++i) {
    known_.groups[groups[i]] = parts[i].counts;
    known_.found.insert(known_.found.end(), parts[i].found.begin(), parts[i].found.end());
  }
  learned();
}

void Search::refine(const std::vector<CandidateId>& ids) {
  std::vector<CandidateView> views(ids.size());
  for_each_index(ids.size(), options_.jobs, [&](std::size_t i) { views[i] = judge_.refine(ids[i]); });
  if (stopped()) throw program::Interrupted{};
  for (std::size_t i = 0; i < ids.size(); ++i)
    known_.refined[ids[i]] = {views[i].estimate_ps, views[i].memory, views[i].outside, views[i].outcome == Outcome::too_large};
  learned();
}

std::int64_t Search::estimated_limit() const {
  Least least(options_.best);
  for (const Found& f : known_.found) {
    const std::optional<Found> whole = known_.whole(f);
    if (!whole) continue;
    if (const std::int64_t most = whole->most_ps(judge_.room()); most < kNoLimit) least.add(most);
  }
  return least.last();
}

/// The lowest bound of a group that is not estimated yet; kNoLimit if there is none.
std::int64_t Search::frontier() const {
  const std::vector<std::int64_t> first = next_groups(kNoLimit, 1);
  return first.empty() ? kNoLimit : fact(first.front()).floor_ps;
}

/// The next groups to estimate, whose bounds do not exceed the limit.
std::vector<std::int64_t> Search::next_groups(std::int64_t limit, std::size_t most) const {
  std::vector<std::int64_t> out;
  auto other = closer_.begin();
  for (std::size_t i = next_; out.size() < most;) {
    const bool simple = i < order_.size() && (other == closer_.end() || std::pair(fact(order_[i]).floor_ps, order_[i]) < *other);
    if (!simple && other == closer_.end()) break;
    const std::int64_t g = simple ? order_[i++] : (other++)->second;
    if (fact(g).floor_ps > limit) break;
    out.push_back(g);
  }
  return out;
}

Search::Walk Search::walk(std::int64_t frontier) const {
  std::vector<std::pair<Position, bool>> queue;  // bool: rough
  for (const Found& f : known_.found)
    if (const std::optional<Found> whole = known_.whole(f); whole && whole->least_ps() < frontier)
      queue.push_back({{whole->least_ps(), f.id}, whole->rough});
  std::sort(queue.begin(), queue.end());
  Walk out;
  Least times(options_.best);
  std::int64_t timed = 0;
  for (const auto& [at, rough] : queue) {
    out.end = at;
    if (at.first > times.last()) break;
    if (rough) {
      if (!out.wanted.empty() || out.rough.size() == kRefined) break;
      out.rough.push_back(at.second);
      continue;
    }
    const bool full = timed + static_cast<std::int64_t>(out.wanted.size()) >= options_.events;
    if (full || !out.rough.empty() || out.wanted.size() == kSimulations) break;
    out.end = kEnd;
    const auto s = known_.simulated.find(at.second);
    if (s == known_.simulated.end()) {
      out.wanted.push_back(at.second);
      continue;
    }
    timed += s->second.timed ? 1 : 0;
    if (s->second.fits) times.add(s->second.time_ps);
    out.counted.push_back(at.second);
  }
  out.limit = times.last();
  return out;
}

void Search::simulate(const std::vector<CandidateId>& ids) {
  std::vector<CandidateId> missing;
  for (const CandidateId id : ids)
    if (known_.simulated.count(id) == 0) missing.push_back(id);
  for (std::size_t begin = 0; begin < missing.size(); begin += kSimulations) {
    std::vector<Simulated> results(std::min(kSimulations, missing.size() - begin));
    for_each_index(results.size(), options_.jobs, [&](std::size_t i) { results[i] = judge_.simulate(missing[begin + i]); });
    if (stopped()) throw program::Interrupted{};
    for (const Simulated& s : results) known_.simulated[s.id] = s;
    learned();
  }
}

/// Best first: a candidate is simulated only if no group without estimates could come before it. So the set of simulations does not
/// depend on earlier knowledge.
void Search::explore() {
  survey();
  for (;;) {
    const std::int64_t reached = frontier();
    const Walk now = walk(reached);
    if (!now.rough.empty()) {
      refine(now.rough);
      continue;
    }
    if (!now.wanted.empty()) {
      simulate(now.wanted);
      continue;
    }
    if (reached == kNoLimit || reached > now.limit) return;
    const std::int64_t guess = estimated_limit();
    const std::int64_t limit = guess < reached ? now.limit : std::min(guess, now.limit);
    if (!sharpen(limit)) estimate(next_groups(limit, std::exchange(round_, std::min(kLastRound, 2 * round_))));
  }
}

void Search::estimate_front() {
  survey();
  sure_ = {}, beaten_.clear();
  for (const Found& f : known_.found) add_sure(f);
  refine_front(0);
  std::vector<std::int64_t> open(order_);
  for (const auto& [floor, g] : closer_) open.push_back(g);
  std::size_t round = kFirstRound;
  for (std::size_t begin = 0; begin < open.size(); begin += std::exchange(round, std::min(kChunk, 2 * round))) {
    const std::size_t count = std::min(round, open.size() - begin);
    std::vector<char> beaten(count);
    for_each_index(count, options_.jobs, [&](std::size_t i) { beaten[i] = surely_beaten(open[begin + i]) ? 1 : 0; });
    if (stopped()) throw program::Interrupted{};
    std::vector<std::int64_t> groups;
    for (std::size_t i = 0; i < count; ++i)
      if (beaten[i] == 0) groups.push_back(open[begin + i]);
    const std::size_t first = known_.found.size();
    learn(groups);
    for (std::size_t i = first; i < known_.found.size(); ++i) add_sure(known_.found[i]);
    refine_front(first);
  }
  find_beaten();
}

/// Which estimated groups are surely beaten by what was estimated after them.
void Search::find_beaten() {
  std::vector<std::int64_t> groups;
  for (const auto& [g, counts] : known_.groups) groups.push_back(g);
  std::vector<char> beaten(groups.size());
  for_each_index(groups.size(), options_.jobs, [&](std::size_t i) { beaten[i] = surely_beaten(groups[i]) ? 1 : 0; });
  if (stopped()) throw program::Interrupted{};
  for (std::size_t i = 0; i < groups.size(); ++i)
    if (beaten[i] != 0) beaten_.insert(groups[i]);
}

/// Refines rough candidates from `first` on in found order, unless they are surely beaten.
void Search::refine_front(std::size_t first) {
  std::vector<const Found*> rough;
  for (std::size_t i = first; i < known_.found.size(); ++i)
    if (const Found& f = known_.found[i]; f.rough && known_.refined.count(f.id) == 0) rough.push_back(&f);
  const auto place = [](const Found* f) { return Position{f->least_ps(), f->id}; };
  std::sort(rough.begin(), rough.end(), [&](const Found* a, const Found* b) { return place(a) < place(b); });
  for (auto next = rough.begin(); next != rough.end();) {
    std::vector<CandidateId> ids;
    const auto begin = next;
    for (; next != rough.end() && ids.size() < kRefined; ++next)
      if (!surely_beaten(**next)) ids.push_back((*next)->id);
    refine(ids);
    for (auto f = begin; f != next; ++f) add_sure(**f);
  }
}

void Search::add_sure(const Found& f) {
  const std::optional<Found> whole = known_.whole(f);
  if (!whole) return;
  if (const std::int64_t most = whole->most_ps(judge_.room()); most < kNoLimit) sure_.add(most, whole->most_memory());
}

/// Whether an estimated candidate surely is no worse than any member of a group, by the group's bounds.
bool Search::surely_beaten(const GroupView& view) const {
  std::int64_t least = kNoLimit;
  for (std::size_t m = 0; m < view.memory_floors.size(); ++m)
    if (!view.too_large[m]) least = std::min(least, view.memory_floors[m]);
  return sure_.covers(view.floor_ps, least);
}

bool Search::surely_beaten(std::int64_t group) const {
  const bool slower = sure_.covers(fact(group).floor_ps, kNoLimit);
  return slower && (surely_beaten(judge_.group(group, Reasons::left_out)) || surely_beaten(judge_.closer(group)));
}

std::vector<Found> Search::found() const {
  std::vector<Found> out;
  for (const Found& f : known_.found) {
    const bool beaten = surely_beaten(f) || beaten_.count(f.id / space_.members()) != 0;
    if (const std::optional<Found> whole = known_.whole(f); whole && !beaten) out.push_back(*whole);
  }
  return out;
}

Answer Search::answer() const {
  const Walk last = walk(kNoLimit);
  std::map<CandidateId, Simulated> simulated;
  for (const CandidateId id : last.counted) simulated[id] = known_.simulated.at(id);
  Answer out = answer_from(std::move(simulated), last.limit, last.end);
  if (static_cast<std::int64_t>(out.best.size()) > options_.best) out.best.resize(static_cast<std::size_t>(options_.best));
  return out;
}

Answer Search::answer_so_far(std::int64_t rows) const {
  Answer out = answer_from(known_.simulated, kNoLimit);
  out.complete = false, out.interrupted = true;
  at(out.counts, Outcome::left) += std::exchange(at(out.counts, Outcome::bounded), 0);
  const auto most = static_cast<std::size_t>(rows);
  if (out.best.size() > most) out.best.resize(most);
  for (const Found& f : found())
    if (f.estimated() && f.memory <= judge_.room() && known_.simulated.count(f.id) == 0) out.estimated.push_back(f);
  std::sort(out.estimated.begin(), out.estimated.end(),
            [](const Found& a, const Found& b) { return std::pair(a.estimate_ps, a.id) < std::pair(b.estimate_ps, b.id); });
  if (out.estimated.size() > most) out.estimated.resize(most);
  return out;
}

void Search::take(Knowledge knowledge) {
  known_.take(std::move(knowledge), space_.members());
  const auto count = [&](auto which) { return std::count_if(known_.facts.begin(), known_.facts.end(), which); };
  refused_ = count([](const GroupFact& f) { return f.refused(); });
  sharp_ = count([](const GroupFact& f) { return f.sharp; });
}

Answer Search::answer_from(std::map<CandidateId, Simulated> simulated, std::int64_t limit_ps, Position end) const {
  Answer out;
  out.candidates = space_.size();
  out.end = end;
  out.limit_ps = limit_ps;
  out.simulated = std::move(simulated);
  for (std::size_t g = 0; g < known_.facts.size(); ++g) {
    const GroupFact& fact = known_.facts[g];
    const auto known = known_.groups.find(static_cast<std::int64_t>(g));
    const std::int64_t open = space_.members() - fact.large;
    if (fact.outcome != Outcome::bounded) {
      at(out.counts, fact.outcome) += space_.members();
      continue;
    }
    at(out.counts, Outcome::too_large) += fact.large;
    if (known == known_.groups.end() || beaten(static_cast<std::int64_t>(g), out)) at(out.counts, Outcome::bounded) += open;
    else for (std::size_t f = 0; f < kOutcomes; ++f) out.counts[f] += known->second[f];
  }
  for (const Found& f : known_.found) {
    const Outcome was = beaten(f.id / space_.members(), out) ? Outcome::bounded
                        : f.estimated()                      ? Outcome::estimated
                                                             : Outcome::simulated;  // as counted with its group
    const Outcome now = outcome_of(f, out);
    if (now == Outcome::left) out.complete = false;
    --at(out.counts, was), ++at(out.counts, now);
    const auto s = out.simulated.find(f.id);
    if (s == out.simulated.end()) {
      out.complete = out.complete && (now != Outcome::estimated || known_.whole(f)->least_ps() > out.limit_ps);
      continue;
    }
    const bool above = fact(f.id / space_.members()).floor_ps > s->second.time_ps || f.floor_ps > s->second.time_ps;
    if (s->second.timed && (above || f.memory_floor > s->second.needed)) out.wrong_bounds.push_back(f.id);
    if (now != Outcome::simulated) continue;
    out.best.push_back(s->second);
    out.estimates[f.id] = known_.whole(f).value_or(f);
  }
  std::sort(out.best.begin(), out.best.end(), [](const Simulated& a, const Simulated& b) {
    return std::pair(a.time_ps, a.id) < std::pair(b.time_ps, b.id);
  });
  const std::int64_t sum = std::accumulate(out.counts.begin(), out.counts.end(), std::int64_t{0});
  require(sum == out.candidates, "the reasons of a search do not add up to its candidates");
  return out;
}

/// The outcome of a found candidate, from the limit and from its simulation or refinement.
Outcome Search::outcome_of(const Found& f, const Answer& answer) const {
  if (stands(f.id, answer)) return Outcome::simulated;
  if (beaten(f.id / space_.members(), answer)) return Outcome::bounded;
  if (f.rough && (f.least_ps() > answer.limit_ps || surely_beaten(f))) return Outcome::bounded;
  if (f.rough && Position{f.least_ps(), f.id} >= answer.end) return Outcome::left;
  const std::optional<Found> whole = known_.whole(f);
  if (!whole) return Outcome::too_large;
  const bool counts = whole->least_ps() <= answer.limit_ps;
  const auto s = answer.simulated.find(f.id);
  const bool timed = s != answer.simulated.end() && (counts || s->second.time_ps <= answer.limit_ps);
  if (timed) return s->second.fits ? Outcome::simulated : Outcome::too_large;
  return whole->estimated() ? Outcome::estimated : counts ? Outcome::left : Outcome::bounded;
}

Outcome Search::outcome(CandidateId id, const Answer& answer, std::string& reason) const {
  const std::int64_t g = id / space_.members();
  const GroupView view = judge_.group(g);
  reason = view.reason;
  if (view.outcome != Outcome::bounded) return view.outcome;
  if (view.too_large[static_cast<std::size_t>(id % space_.members())]) return reason = kTooLarge, Outcome::too_large;
  if (answer.interrupted && known_.groups.count(g) == 0) return reason = "not looked at before the interruption", Outcome::left;
  if (stands(id, answer)) return reason = "", Outcome::simulated;
  if (known_.groups.count(g) == 0 || beaten(g, answer)) return Outcome::bounded;
  const CandidateView c = judge_.candidate(id);
  reason = c.reason;
  if (c.outcome != Outcome::estimated && c.outcome != Outcome::simulated) return c.outcome;
  const auto found = std::find_if(known_.found.begin(), known_.found.end(), [&](const Found& f) { return f.id == id; });
  return outcome_of(*found, answer);
}

}  // namespace tandem::search
