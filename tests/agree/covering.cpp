#include "tests/agree/covering.hpp"

#include <algorithm>
#include <iomanip>
#include <random>

#include "models/base/error.hpp"
#include "models/base/held_files.hpp"

namespace tandem::tests {
namespace {

constexpr int kDraws = 20000;      ///< plans around a pair before it is called impossible
constexpr int kAsked = 200;        ///< of those that are not pointless, how many the parser is asked about
constexpr std::size_t kPool = 30;  ///< plans to choose the best of

std::size_t values_of(std::size_t dim) { return features()[dim].values.size(); }

class Drawer {
 public:
  explicit Drawer(std::uint64_t seed) : random_(seed) {}

  /// Half of the values plain: plans in which everything happens at once are rarely legal.
  Case around(const std::vector<Choice>& fixed) {
    Case c{};
    for (std::size_t d = 0; d < kDims; ++d)
      if (below(2) == 1) c[d] = static_cast<std::uint8_t>(below(values_of(d)));
    for (const auto& [dim, value] : fixed) c[dim] = value;
    return c;
  }
  /// One of `legal` with the pair put in and a few other values drawn again.
  Case near(const std::vector<Case>& legal, const Pair& p) {
    Case c = legal[below(legal.size())];
    for (std::size_t n = below(4); n > 0; --n) {
      const std::size_t d = below(kDims);
      c[d] = static_cast<std::uint8_t>(below(values_of(d)));
    }
    for (const auto& [dim, value] : {p.first, p.second}) c[dim] = value;
    return c;
  }
  // Not a distribution of the standard library, whose numbers differ between libraries.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

 private:
  std::mt19937_64 random_;
};

/// Some of all pairs.
class PairSet {
 public:
  explicit PairSet(bool full) : in_(kDims * kMost * kDims * kMost, false) {
    for (const Feature& f : features()) require(f.values.size() <= kMost, "more values of a feature than pairs are kept of");
    for (const Pair& p : all_pairs()) set(p, full);
  }
  void set(const Pair& p, bool in) { in_[at(p.first, p.second)] = in; }
  bool has(const Pair& p) const { return in_[at(p.first, p.second)]; }
  /// Number of pairs of `c`'s dimension `d` with its other dimensions that are in the set.
  int count(const Case& c, std::uint8_t d) const {
    int n = 0;
    for (std::uint8_t other = 0; other < d; ++other) n += in_[at({other, c[other]}, {d, c[d]})];
    for (auto other = static_cast<std::uint8_t>(d + 1); other < kDims; ++other)
      n += in_[at({d, c[d]}, {other, c[other]})];
    return n;
  }
  int count(const Case& c) const {
    const auto pairs = pairs_of(c);
    return static_cast<int>(std::count_if(pairs.begin(), pairs.end(), [&](const Pair& p) { return has(p); }));
  }

 private:
  static constexpr std::size_t kMost = 64;  ///< values of a dimension
  static std::size_t at(const Choice& a, const Choice& b) {
    return ((a.first * kMost + a.second) * kDims + b.first) * kMost + b.second;
  }
  std::vector<char> in_;
};

class Coverer {
 public:
  explicit Coverer(std::uint64_t seed) : drawer_(seed) {}

  Covering run() {
    for (const Pair& p : all_pairs())
      if (!witnesses_.contains(p)) find_witness(p);
    for (const auto& [p, witness] : witnesses_)
      if (missing_.has(p)) take(best_with(p, witness));
    return std::move(out_);
  }

 private:
  /// A legal plan with the pair, or a note why there is none. A plan is a witness for all its pairs.
  void find_witness(const Pair& p) {
    std::map<std::string, int> times;
    for (int i = 0, asked = 0; i < kDraws && asked < kAsked; ++i) {
      const Case c = legal_.empty() || i % 2 == 0 ? drawer_.around({p.first, p.second}) : drawer_.near(legal_, p);
      if (pointless(c)) continue;
      ++asked;
      const auto reasons = reasons_against(c);
      for (const std::string& r : reasons) ++times[r];
      if (!reasons.empty()) continue;
      for (const Pair& held : pairs_of(c)) witness(held, c);
      legal_.push_back(c);
      return;
    }
    missing_.set(p, false);
    impossible_.set(p, true);
    out_.impossible[p] = times.empty() ? why_pointless(p) : most(times);
  }

  /// A pair that few plans have may have been called impossible before one of them turned up around another pair.
  void witness(const Pair& held, const Case& c) {
    witnesses_.try_emplace(held, c);
    if (out_.impossible.erase(held) == 0) return;
    missing_.set(held, true);
    impossible_.set(held, false);
  }

  std::string why_pointless(const Pair& p) {
    std::map<std::string, int> times;
    for (int i = 0; i < kAsked; ++i)
      for (const std::string& r : reasons_against(drawer_.around({p.first, p.second}))) ++times[r];
    return most(times);
  }
  /// What most of the plans were refused for.
  static std::string most(const std::map<std::string, int>& times) {
    return std::max_element(times.begin(), times.end(), [](auto& a, auto& b) { return a.second < b.second; })->first;
  }

  void take(const Case& c) {
    out_.cases.push_back(c);
    for (const Pair& p : pairs_of(c)) {
      ++out_.count[p];
      missing_.set(p, false);
    }
  }

  /// The legal plan with the pair that has most missing pairs, of some; the witness when none of them is legal.
  Case best_with(const Pair& p, const Case& witness) {
    std::vector<std::pair<int, Case>> found;
    for (int i = 0; i < kDraws && found.size() < kPool; ++i) {
      Case c = found.empty() ? witness : drawer_.around({p.first, p.second});
      if (unwelcome(c)) continue;
      for (int sweep = 0; sweep < 2; ++sweep) improve(c, p);
      found.emplace_back(missing_.count(c), c);
    }
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    for (const auto& [gain, c] : found)
      if (reasons_against(c).empty()) return c;
    return witness;
  }

  bool unwelcome(const Case& c) const { return pointless(c) || impossible_.count(c) > 0; }

  /// Every dimension but the pair's takes the value with most missing pairs, from a random dimension on.
  void improve(Case& c, const Pair& p) {
    const std::size_t start = drawer_.below(kDims);
    for (std::size_t i = 0; i < kDims; ++i) {
      const auto d = static_cast<std::uint8_t>((start + i) % kDims);
      if (d != p.first.first && d != p.second.first) improve(c, d);
    }
  }
  void improve(Case& c, std::uint8_t d) const {
    int best = missing_.count(c, d);
    Case other = c;
    for (std::uint8_t v = 0; v < values_of(d); ++v) {
      other[d] = v;
      const int gain = missing_.count(other, d);
      if (gain <= best || pointless(other) || impossible_.count(other, d) > 0) continue;
      best = gain;
      c[d] = v;
    }
  }

  Drawer drawer_;
  PairSet missing_{true}, impossible_{false};
  std::map<Pair, Case> witnesses_;
  std::vector<Case> legal_;
  Covering out_;
};

std::string name_of(const Choice& c) {
  const Feature& f = features()[c.first];
  return std::string(f.name) + " " + std::string(f.values[c.second].label);
}

struct Cell {
  int covered = 0, impossible = 0, rarest = 0;  ///< cases of the rarest pair that is covered
};

using Table = std::map<std::pair<std::uint8_t, std::uint8_t>, Cell>;

Table table_of(const Covering& covering) {
  Table table;
  for (const auto& [p, n] : covering.count) {
    Cell& cell = table[{p.first.first, p.second.first}];
    cell.rarest = cell.covered == 0 ? n : std::min(cell.rarest, n);
    ++cell.covered;
  }
  for (const auto& [p, reason] : covering.impossible) ++table[{p.first.first, p.second.first}].impossible;
  return table;
}

/// Values that no legal plan has at all are named once.
void print_impossible(const Covering& covering, std::ostream& out) {
  std::set<Choice> seen;
  for (const auto& [p, n] : covering.count) seen.insert({p.first, p.second});
  std::set<Choice> never;
  out << "\nno legal plan has both\n";
  for (const auto& [p, reason] : covering.impossible) {
    if (seen.contains(p.first) && seen.contains(p.second)) {
      out << "  " << name_of(p.first) << " | " << name_of(p.second) << ": " << reason << "\n";
      continue;
    }
    const Choice& absent = seen.contains(p.first) ? p.second : p.first;
    if (never.insert(absent).second) out << "  " << name_of(absent) << " | anything: " << reason << "\n";
  }
}

}  // namespace

std::vector<Pair> all_pairs() {
  std::vector<Pair> all;
  for (std::uint8_t a = 0; a < kDims; ++a)
    for (std::uint8_t b = static_cast<std::uint8_t>(a + 1); b < kDims; ++b)
      for (std::uint8_t i = 0; i < values_of(a); ++i)
        for (std::uint8_t j = 0; j < values_of(b); ++j) all.push_back({{a, i}, {b, j}});
  return all;
}

std::vector<Pair> pairs_of(const Case& c) {
  std::vector<Pair> pairs;
  for (std::uint8_t a = 0; a < kDims; ++a)
    for (std::uint8_t b = static_cast<std::uint8_t>(a + 1); b < kDims; ++b) pairs.push_back({{a, c[a]}, {b, c[b]}});
  return pairs;
}

Covering cover_pairs(std::uint64_t seed) {
  const HeldFiles held;  // thousands of plans read the same stack files
  return Coverer(seed).run();
}

std::vector<Case> random_cases(std::size_t number, std::uint64_t seed) {
  const HeldFiles held;
  Drawer drawer(seed);
  std::set<Case> seen;
  std::vector<Case> cases;
  while (cases.size() < number) {
    const Case c = drawer.around({});
    if (!pointless(c) && reasons_against(c).empty() && seen.insert(c).second) cases.push_back(c);
  }
  return cases;
}

void print(const Covering& covering, std::ostream& out) {
  out << covering.cases.size() << " cases; " << covering.count.size() << " pairs of values covered, "
      << covering.impossible.size() << " in no legal plan\n\ncases\n";
  for (std::size_t i = 0; i < covering.cases.size(); ++i)
    out << std::setw(4) << i << "  " << text(covering.cases[i]) << "\n";
  out << "\nfor two features: pairs of values covered and impossible, and cases of the rarest that is covered\n";
  for (const auto& [dims, cell] : table_of(covering))
    out << std::left << std::setw(22) << features()[dims.first].name << std::setw(22) << features()[dims.second].name
        << std::right << std::setw(5) << cell.covered << std::setw(5) << cell.impossible << std::setw(7) << cell.rarest
        << "\n";
  print_impossible(covering, out);
}

}  // namespace tandem::tests
