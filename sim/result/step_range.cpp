// Ranges of step times, from errors of earlier predictions.

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "reports/prediction/text.hpp"
#include "sim/result/error_book.hpp"

namespace tandem::sim {
namespace {

constexpr std::string_view kDeviceWord = "device ", kLayoutWord = "layout ";
constexpr const char* kNarrower = "; measured steps narrow it: tandem validate RECORDS --write-errors FILE, then \"errors\": \"FILE\" in the calibration";
constexpr const char* kBound = "the device has no calibration (give it one of topology/calibration, such as \"h100\"), so this is a bound: ";
constexpr int kEnough = 8;  // records from which a situation is used alone
constexpr double kTail = (1 - kRangeShare) / 2;  // of outcomes below a range, and above it

struct WeightedError {
  double error, weight;
};
using Entries = std::vector<const ErrorEntry*>;

template <class Wanted>
Entries select(const ErrorBook& book, Wanted wanted) {
  Entries out;
  for (const ErrorEntry& e : book.entries)
    if (wanted(e)) out.push_back(&e);
  return out;
}

/// Number of records by source.
std::map<std::string, int> sources_of(const Entries& entries) {
  std::map<std::string, int> out;
  for (const ErrorEntry* e : entries) out[e->source] += e->records;
  return out;
}

/// The error, as log(measured / predicted), of a step that waits `ratio` times as large a share for the host: the same factor is
/// wrong in that share. A larger share than the records' has their error.
double rescaled(double error, double ratio) { return std::log1p(std::min(ratio, 1.0) * std::expm1(error)); }

/// Shares `weight` evenly over sources, and a source's share over its entries by their records.
void add_errors(std::vector<WeightedError>& errors, const Entries& entries, double weight, std::optional<double> host_share) {
  const auto sources = sources_of(entries);
  for (const ErrorEntry* e : entries) {
    const double share = static_cast<double>(e->records) / sources.at(e->source) / static_cast<double>(sources.size());
    const bool by_share = e->situation == kHostBound && e->host_share > 0 && host_share.has_value();
    const double each = weight * share / static_cast<double>(e->quantiles.size());
    for (double q : e->quantiles) errors.push_back({by_share ? rescaled(q, *host_share / e->host_share) : q, each});
  }
}

/// Of ascending errors.
double quantile(const std::vector<WeightedError>& errors, double share) {
  double whole = 0, sum = 0;
  for (const WeightedError& v : errors) whole += v.weight;
  for (const WeightedError& v : errors)
    if ((sum += v.weight) >= share * whole * (1 - 1e-12)) return v.error;
  return errors.back().error;
}

int records(const Entries& entries) {
  int n = 0;
  for (const ErrorEntry* e : entries) n += e->records;
  return n;
}

/// Ratio of Student's prediction interval to the normal one for `sources` errors: a few errors understate the spread of the next one.
double widened(std::size_t sources) {
  if (sources < 2) return 1;
  const double n = static_cast<double>(sources);
  return boost::math::quantile(boost::math::students_t(n - 1), 1 - kTail) * std::sqrt(1 + 1 / n) /
         boost::math::quantile(boost::math::normal(), 1 - kTail);
}

std::string counted(std::size_t n, const std::string& what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

bool is_left_out(const ErrorEntry& e, const RangeQuestion& q) {
  return std::find(q.without.begin(), q.without.end(), e.source) != q.without.end();
}

Entries on_device(const ErrorBook& book, const RangeQuestion& q) {
  if (q.device.empty()) return {};
  return select(book, [&](const ErrorEntry& e) { return e.device == q.device && !is_left_out(e, q); });
}

/// The plan's code if it is older than that of all records on its device; else empty. Entries without months say nothing.
std::string too_old(const Entries& entries, Month as_of) {
  Month first{}, last{};
  for (const ErrorEntry* e : entries) {
    if (e->since.said()) first = first.said() ? std::min(first, e->since) : e->since;
    last = std::max(last, e->until);
  }
  if (!as_of.said() || !first.said() || as_of >= first) return "";
  return "code as old as " + text_of(as_of) + " (its constants rest on records of " + text_of(first) + " to " + text_of(last) + ")";
}

/// A feature as a reason names it. Parts of a layout are no members of the list of features: 'the layout "tensor + ZeRO 1"'.
std::string feature_text(const std::string& word) {
  if (!word.starts_with(kLayoutWord)) return word;
  std::string parts = word.substr(kLayoutWord.size());
  for (std::size_t at = 0; (at = parts.find(", ", at)) != std::string::npos;) parts.replace(at, 1, " +");
  return "the layout \"" + parts + '"';
}

/// What `entries` have been measured with: their words, and the largest of each size.
struct Features {
  explicit Features(const Entries& entries) {
    for (const ErrorEntry* e : entries) {
      words.insert(e->like.begin(), e->like.end());
      devices = std::max(devices, e->devices), positions = std::max(positions, e->positions);
    }
  }
  std::set<std::string> words;
  std::int64_t devices = 0, positions = 0;  ///< 0: not known
};

/// The kind of a feature: its first word.
std::string_view kind_of(std::string_view word) { return word.substr(0, word.find(' ')); }

/// Features of a plan that no record has, as a reason names them.
struct Unseen {
  std::vector<std::string> features;  ///< others have features of their kind: another precision, more devices, older code
  std::vector<std::string> kinds;     ///< no record of the book has such a feature
  bool empty() const { return features.empty() && kinds.empty(); }
};

/// What no record on the device has or, if it has none, no record on any device. Empty if the book does not list features.
Unseen unseen(const ErrorBook& book, const RangeQuestion& q) {
  Unseen out;
  Entries entries = on_device(book, q);
  const bool known = !entries.empty();
  if (!known) entries = select(book, [&](const ErrorEntry& e) { return !is_left_out(e, q); });
  const Features seen(entries);
  if (seen.words.empty()) return out;
  std::set<std::string_view> kinds;
  for (const ErrorEntry& e : book.entries)
    for (const std::string& word : e.like) kinds.insert(kind_of(word));
  const auto is_device = [](const std::string& word) { return word.starts_with(kDeviceWord); };
  const bool lists_devices = known && std::ranges::any_of(seen.words, is_device);  // older tables do not
  for (const std::string& word : q.traits.words)
    if (!seen.words.contains(word) && (lists_devices || !is_device(word)))
      (kinds.contains(kind_of(word)) ? out.features : out.kinds).push_back(feature_text(word));
  const auto larger = [](std::int64_t value, std::int64_t most) { return most > 0 && value > most; };
  if (larger(q.traits.devices, seen.devices)) out.features.push_back("more than " + count_text(seen.devices) + " devices");
  if (larger(q.traits.positions, seen.positions)) out.features.push_back("sequences of more than " + count_text(seen.positions) + " tokens");
  if (std::string old = too_old(entries, q.traits.as_of); !old.empty()) out.features.push_back(std::move(old));
  return out;
}

/// What is known of a prediction's error: errors of earlier predictions or, without any, a default range.
struct Evidence {
  std::vector<WeightedError> errors;  ///< ascending
  double wider = 1;
  const DefaultRange* standard = nullptr;

  /// The error that this share of outcomes does not exceed.
  double quantile(double share) const;
  /// The share of outcomes whose error is at most this.
  double share(double error) const;
};

/// The log errors of a device without records: its default range holds 80 % of them.
boost::math::normal default_errors(const DefaultRange& range) {
  const double half = boost::math::quantile(boost::math::normal(), 1 - kTail);
  return boost::math::normal((range.low + range.high) / 2, (range.high - range.low) / 2 / half);
}

double Evidence::quantile(double share) const {
  if (standard == nullptr) return wider * sim::quantile(errors, share);
  if (share == kTail) return wider * standard->low;  // exactly
  return wider * (share == 1 - kTail ? standard->high : boost::math::quantile(default_errors(*standard), share));
}

double Evidence::share(double error) const {
  if (standard != nullptr) return boost::math::cdf(default_errors(*standard), error / wider);
  double whole = 0, within = 0;
  for (const WeightedError& v : errors) {
    whole += v.weight;
    if (wider * v.error <= error) within += v.weight;
  }
  return within / whole;
}

/// Errors that a prediction may have. A range holds what any of the evidence says.
struct Errors {
  std::vector<Evidence> evidence;
  bool known = false;  ///< the device has records
  bool bound = false;  ///< the prediction is a bound: other errors, of calibrated predictions, can only make it longer
  std::string basis, reason;

  double quantile(double share) const {
    std::vector<double> all;
    for (const Evidence& e : evidence) all.push_back(e.quantile(share));
    return share < 0.5 && !bound ? std::ranges::min(all) : std::ranges::max(all);
  }
  /// The inverse of quantile().
  double share(double error) const {
    std::vector<double> all;
    for (const Evidence& e : evidence) all.push_back(e.share(error));
    return bound ? std::ranges::min(all) : std::clamp(0.5, std::ranges::min(all), std::ranges::max(all));
  }
};

/// What the records of a situation are: "steps on one node".
std::string steps_text(const std::string& situation) {
  if (situation == kHostBound) return "steps that wait for launches";
  return situation == kExpertsOverNodes ? "steps that exchange experts' rows between nodes" : "steps on " + situation;
}

std::string counted_records(const Entries& entries) {
  return counted(static_cast<std::size_t>(records(entries)), "record") + " of " + counted(sources_of(entries).size(), "source");
}

Entries in_situation(const Entries& all, const std::string& situation) {
  Entries out;
  std::ranges::copy_if(all, std::back_inserter(out), [&](const ErrorEntry* e) { return e->situation == situation; });
  return out;
}

/// The question's answer in the making: the records that may be used, and the factor that widens.
class Answer {
 public:
  Answer(const ErrorBook& book, const RangeQuestion& q)
      : book_(book), q_(q), own_(on_device(book, q)), alike_(in_situation(own_, q.situation)), unseen_(unseen(book, q)) {
    everywhere_ = select(book, [&](const ErrorEntry& e) { return e.situation == q.situation && !is_left_out(e, q); });
    if (records(everywhere_) < kEnough) everywhere_.clear();
    std::erase(unseen_.features, q.situation), std::erase(unseen_.kinds, q.situation);  // a reason of its own
  }

  Errors errors() const {
    Errors out;
    out.known = !own_.empty(), out.bound = q_.bound;
    out.evidence = {out.known ? of_device() : of_default()};
    if (out.known && !unseen_.kinds.empty()) out.evidence.push_back(of_default());
    if (!knows_situation() && !everywhere_.empty()) out.evidence.push_back(of_situation());
    if (!out.known) {
      out.reason = out.basis = default_text(widens(out));
      return out;
    }
    out.reason = reason();
    out.basis = basis() + (out.reason.empty() ? "" : "; " + out.reason) + "; " + book_.computed;
    return out;
  }

 private:
  bool knows_situation() const { return records(alike_) >= kEnough; }
  /// Nothing is said about a situation before a plan is simulated.
  bool lacks_situation() const { return !q_.situation.empty() && !knows_situation(); }
  double factor() const { return (unseen_.empty() && !lacks_situation() ? book_.seen : book_.unseen).factor; }

  Evidence of_device() const {
    const Entries& used = knows_situation() ? alike_ : own_;
    const Entries others = select(book_, [&](const ErrorEntry& e) { return e.device != q_.device && !is_left_out(e, q_); });
    const std::size_t sources = sources_of(used).size();
    Evidence out;
    add_errors(out.errors, used, static_cast<double>(sources), q_.host_share);
    add_errors(out.errors, others, 1, q_.host_share);
    std::ranges::sort(out.errors, {}, &WeightedError::error);
    out.wider = widened(sources + (others.empty() ? 0 : 1)) * factor();
    return out;
  }
  Evidence of_default() const {
    const bool wider = own_.empty() && !unseen_.empty();
    return {{}, wider ? book_.unseen.factor : 1, q_.bound ? &book_.uncalibrated : &book_.unknown};
  }
  Evidence of_situation() const {
    const std::size_t sources = sources_of(everywhere_).size();
    Evidence out;
    add_errors(out.errors, everywhere_, static_cast<double>(sources), q_.host_share);
    std::ranges::sort(out.errors, {}, &WeightedError::error);
    out.wider = widened(sources) * factor();
    return out;
  }

  /// Whether an end of the range is beyond the first evidence's.
  static bool widens(const Errors& errors) {
    const Evidence& first = errors.evidence.front();
    return errors.quantile(kTail) < first.quantile(kTail) || errors.quantile(1 - kTail) > first.quantile(1 - kTail);
  }

  static std::string none_has(const std::string& place, const std::vector<std::string>& features) {
    return "no record on " + place + " has " + list_text(features, "or");
  }
  std::string reason() const {
    std::string out;
    const auto add = [&](const std::string& text) { out += (out.empty() ? "" : "; ") + text; };
    if (!unseen_.features.empty()) add(none_has(q_.device, unseen_.features));
    if (!unseen_.kinds.empty()) add(none_has("any device", unseen_.kinds) + ", so the range is at least as wide as on a device without records");
    if (lacks_situation()) add(situation_text());
    return out;
  }
  std::string situation_text() const {
    const int n = records(alike_);
    return (n == 0 ? std::string("no record") : "only " + counted(static_cast<std::size_t>(n), "record")) + " on " + q_.device +
           (n > 1 ? " are" : " is") + " of " + steps_text(q_.situation) +
           (everywhere_.empty() ? "" : ", so their errors on all devices count, too");
  }
  std::string basis() const {
    if (knows_situation()) return counted_records(alike_) + " on " + q_.device + ", " + q_.situation;
    std::string out = counted_records(own_) + " on " + q_.device + ", in any situation";
    return everywhere_.empty() ? out : out + ", and " + counted_records(everywhere_) + " on all devices, " + q_.situation;
  }
  std::string default_text(bool situation_widens) const {
    const std::string none = q_.device.empty() ? "no published step time on this device: " : "no record on " + q_.device + ": ";
    std::string out = q_.bound ? kBound + book_.uncalibrated.reason : none + book_.unknown.reason;
    std::vector<std::string> features = unseen_.features;
    features.insert(features.end(), unseen_.kinds.begin(), unseen_.kinds.end());
    if (!features.empty()) out += "; wider because " + none_has("any device", features);
    if (situation_widens) out += "; " + steps_text(q_.situation) + " erred more on other devices";
    return out + (is_preset_path(q_.device) ? kNarrower : "");
  }

  const ErrorBook& book_;
  const RangeQuestion& q_;
  Entries own_, alike_, everywhere_;  ///< on the device; on it in the situation; in the situation on all devices, if enough
  Unseen unseen_;
};

Errors errors_of(const ErrorBook& book, const RangeQuestion& q) { return Answer(book, q).errors(); }

}  // namespace

bool has_situation(const ErrorBook& book, const RangeQuestion& q) {
  return records(in_situation(on_device(book, q), q.situation)) >= kEnough;
}

LogRange log_range(const ErrorBook& book, const RangeQuestion& q) {
  const Errors errors = errors_of(book, q);
  const double low = errors.quantile(kTail), high = errors.quantile(1 - kTail);
  return {std::min(low, 0.0), std::max(high, 0.0), errors.known, errors.basis, errors.reason};
}

StepRange step_range(const ErrorBook& book, const Prediction& p, const RangeQuestion& q) {
  const double step_s = p.step_time.seconds();
  const LogRange log = log_range(book, q);
  return {step_s * std::exp(log.low), step_s * std::exp(log.high), kRangeShare, log.basis, log.wider};
}

double share_within(const ErrorBook& book, const Prediction& p, const RangeQuestion& q, double limit_s) {
  return limit_s <= 0 ? 0 : errors_of(book, q).share(std::log(limit_s / p.step_time.seconds()));
}

double share_within(const ErrorBook& book, const std::vector<PartOfWork>& parts, double limit) {
  if (limit <= 0) return 0;
  if (parts.size() == 1) return errors_of(book, parts.front().question).share(std::log(limit / parts.front().predicted));
  std::vector<Errors> errors;
  for (const PartOfWork& part : parts) errors.push_back(errors_of(book, part.question));
  const auto taken = [&](double share) {
    double sum = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) sum += parts[i].predicted * std::exp(errors[i].quantile(share));
    return sum;
  };
  constexpr double kEnd = 1e-9;
  double low = kEnd, high = 1 - kEnd;
  if (taken(low) > limit) return 0;
  if (taken(high) <= limit) return 1;
  while (high - low > kEnd) (taken((low + high) / 2) <= limit ? low : high) = (low + high) / 2;
  return low;
}

bool has_records(const ErrorBook& book, const Topology& topology) {
  const std::string& device = topology.device().calibration;
  return std::any_of(book.entries.begin(), book.entries.end(), [&](const ErrorEntry& e) { return e.device == device; });
}

}  // namespace tandem::sim
