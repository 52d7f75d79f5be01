#include "experiments/tandem/validation/errors.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace tandem::program {

namespace {

constexpr std::size_t kQuantiles = 19;  // for sets with more records
constexpr double kDigits = 1e4;         // errors are rounded to 1 / kDigits
constexpr double kLeastEnd = 1e-4;      // of a range, in log units
constexpr double kRounding = 1e-12;     // of sums of weights

/// At most kQuantiles values that represent all, with equal weights.
std::vector<double> thinned(std::vector<double> errors) {
  std::sort(errors.begin(), errors.end());
  std::vector<double> out;
  const std::size_t n = std::min(errors.size(), kQuantiles);
  for (std::size_t i = 0; i < n; ++i)
    out.push_back(std::round(errors[(2 * i + 1) * errors.size() / (2 * n)] * kDigits) / kDigits);
  return out;
}

using Place = std::tuple<std::string, std::string, std::string>;  // device, situation, set

bool is_usable(const JudgedRecord& r) { return r.counts() && r.timed() && !r.plan.calibration.empty(); }

/// log(measured / predicted).
double error_of(const JudgedRecord& r) { return -std::log1p(r.time_error()); }

struct Records {
  std::vector<double> errors;
  std::set<std::string> like;
  std::int64_t devices = 0;
  double host_shares = 0;  ///< sum over host-bound records
  Month since{}, until{};  ///< of their stacks
  std::int64_t positions = 0;

  double mean_host_share() const { return std::round(host_shares / static_cast<double>(errors.size()) * kDigits) / kDigits; }
};

std::map<Place, Records> by_place(const std::vector<JudgedRecord>& records) {
  std::map<Place, Records> out;
  for (const JudgedRecord& r : records) {
    if (!is_usable(r)) continue;
    Records& place = out[{r.plan.calibration, r.situation, r.measured.set}];
    place.errors.push_back(error_of(r));
    place.like.insert(r.plan.traits.words.begin(), r.plan.traits.words.end());
    place.devices = std::max(place.devices, r.plan.traits.devices);
    place.positions = std::max(place.positions, r.plan.traits.positions);
    if (r.situation == sim::kHostBound) place.host_shares += r.host_share;
    const Month month = r.plan.traits.as_of;
    place.since = place.since.said() ? std::min(place.since, month) : month;
    place.until = std::max(place.until, month);
  }
  return out;
}

/// A record's error relative to its range: 1 is the end of the range.
double reach(double error, const sim::LogRange& range) {
  const double end = std::max(error < 0 ? -range.low : range.high, kLeastEnd);
  return std::abs(error) / end;
}

/// By set: the reaches of its records.
using Reaches = std::map<std::string, std::vector<double>>;

/// The widening with which ranges hold their share of records, with equal votes per set. Ranges never become narrower.
sim::Widening widening(const Reaches& reaches) {
  std::vector<std::pair<double, double>> votes;  // reach, weight
  sim::Widening out;
  for (const auto& [set, list] : reaches) {
    for (const double r : list) votes.emplace_back(r, 1.0 / static_cast<double>(list.size()));
    out.records += static_cast<int>(list.size());
  }
  out.sources = static_cast<int>(reaches.size());
  std::sort(votes.begin(), votes.end());
  double sum = 0;
  for (const auto& [r, weight] : votes)
    if ((sum += weight) >= sim::kRangeShare * out.sources * (1 - kRounding)) {
      out.factor = std::max(1.0, std::ceil(r * kDigits) / kDigits);  // rounded up, so that it still holds
      break;
    }
  return out;
}

/// Sets none of whose records may contribute to a record's range.
std::vector<std::string> unused(const Measurement& m) {
  return m.without.sets.empty() ? std::vector{m.set} : m.without.sets;
}

/// Computes both widening factors of a book.
void widen(sim::ErrorBook& book, const std::vector<JudgedRecord>& records) {
  Reaches seen, unseen;
  for (const JudgedRecord& r : records) {
    if (!is_usable(r)) continue;
    const sim::LogRange range = log_range(book, {r.plan.calibration, r.situation, r.plan.traits, unused(r.measured), r.host_share});
    if (range.known) (range.wider.empty() ? seen : unseen)[r.measured.set].push_back(reach(error_of(r), range));
  }
  book.seen = widening(seen), book.unseen = widening(unseen);
}

}  // namespace

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm date{};
  gmtime_r(&now, &date);
  char text[16];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d", &date)};
}

sim::ErrorBook error_book(const std::vector<JudgedRecord>& records, const sim::ErrorBook& before, const std::string& by) {
  sim::ErrorBook out = before;
  out.computed = "computed " + today() + " with " + by;
  out.entries.clear();
  for (const auto& [place, found] : by_place(records))
    out.entries.push_back({std::get<0>(place), std::get<1>(place), std::get<2>(place), static_cast<int>(found.errors.size()),
                           thinned(found.errors), {found.like.begin(), found.like.end()}, found.devices, found.mean_host_share(),
                           found.since, found.until, found.positions});
  out.seen = out.unseen = {};
  widen(out, records);
  return out;
}

}  // namespace tandem::program
