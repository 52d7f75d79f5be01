#pragma once
// How wrong predictions were: errors of step times against published ones, kept as data (topology/errors), and the range
// that follows from them for a new prediction.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/plan/plan_traits.hpp"
#include "reports/prediction/prediction.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

/// Errors of one source's records on one kind of device in one situation.
struct ErrorEntry {
  std::string device;             ///< Device::calibration
  std::string situation;          ///< see situation_of
  std::string source;             ///< name of the set of measurements
  int records = 0;
  std::vector<double> quantiles;  ///< ascending, evenly spread over log(measured / predicted)
  std::vector<std::string> like{};  ///< words of traits_on of the records, each once, ascending; empty: not known
  std::int64_t devices = 0;         ///< devices of the largest record
  double host_share = 0;            ///< of host-bound records: mean share of the step that waits for launches; 0: not known
  Month since{}, until{};           ///< months of the oldest and the newest code among the records; 0: not known
  std::int64_t positions = 0;       ///< of the longest sequence among the records; 0: not known
};

/// Factor by which ranges must be wider than other sources' errors so that 80 % of a source's records lie inside.
struct Widening {
  double factor = 1;
  int records = 0, sources = 0;  ///< records and sources that it was found with
};

/// The range of predictions whose device has no records, as log(measured / predicted).
struct DefaultRange {
  double low = 0, high = 0;
  std::string reason;
};

struct ErrorBook {
  std::string computed;           ///< when, and with which version
  std::vector<ErrorEntry> entries;
  Widening seen, unseen;          ///< for plans like the device's records, and unlike them
  DefaultRange unknown;           ///< of a device with a calibration
  DefaultRange uncalibrated;      ///< of a device whose published rates stand for reached ones: the prediction is a bound
};

/// The share of outcomes that a range is meant to hold.
inline constexpr double kRangeShare = 0.8;

inline constexpr std::string_view kHostBound = "host-bound";
/// A trait, and the situation of plans that have it: rows of experts are exchanged between nodes.
inline constexpr std::string_view kExpertsOverNodes = "experts over nodes";
/// The situation of a prediction, by which errors are kept: kHostBound if the critical rank waits for launches a tenth of the
/// step or more, else kExpertsOverNodes if the plan has that trait, else "one node" or "many nodes".
std::string situation_of(const Prediction& prediction, const Topology& topology, const PlanTraits& traits);

/// Share of the step, 0 to 1, that the critical rank waits for launches.
double host_share(const Prediction& prediction);

/// Reads topology/errors/step_time.json. With a `calibration`, as a device names it, adds its own errors. Throws ConfigError.
ErrorBook load_error_book(const std::string& calibration = "");

/// The table of errors that a calibration names ("errors": a path, from its folder); empty if there is none. Throws ConfigError.
std::string own_error_table(const std::string& calibration);

/// Replaces a calibration's entries by those of the table that it names. The votes of other devices and the widening stay. Throws
/// ConfigError if the table cannot be read or has no entry with this calibration.
void add_own_errors(ErrorBook& book, const std::string& calibration);

/// Returns the text of such a file.
std::string to_json(const ErrorBook& book);

/// Traits of a plan; kExpertsOverNodes if it applies; "a power limit" if one lowers the device's clock; if the device is a preset, "device h100-sxm5-80gb": several share a calibration.
PlanTraits traits_on(const Plan& plan, const Topology& topology);

/// The inputs of a range besides the errors.
struct RangeQuestion {
  std::string device;     ///< Device::calibration
  std::string situation;  ///< see situation_of
  PlanTraits traits;
  std::vector<std::string> without{};  ///< sources whose records the range must not rest on
  std::optional<double> host_share{};  ///< see host_share(); none before anything is simulated
  bool bound = false;                  ///< the device has neither a calibration nor a measured table
};
RangeQuestion range_question(const Prediction& prediction, const Topology& topology, const PlanTraits& traits);
/// The question before anything is simulated: of no situation.
RangeQuestion range_question(const Topology& topology, const PlanTraits& traits);
/// Whether predictions on a topology's device are bounds (RangeQuestion::bound).
bool is_bound(const Topology& topology);
/// What a bound is ranked by, since it is the least of its range: the geometric middle.
double middle_of_range(double low, double high);

/// True if the device has enough records of the question's situation, so that these alone count.
bool has_situation(const ErrorBook& book, const RangeQuestion& question);

/// Ends of a range as log(measured / predicted), the lower one not above 0, the upper one not below.
struct LogRange {
  double low = 0, high = 0;
  bool known = false;     ///< the device has records
  std::string basis;      ///< the records it was computed from, or why it is a default
  std::string wider;      ///< why it is wider than for plans like those measured; or empty
};

/// The range that should hold 80 % of measured step times. Every source in the same situation on the same device has one vote; all
/// sources on other devices together have one more. Few votes make a range wider, as Student's prediction interval is wider than
/// the normal one. The result is widened by the book's factor for plans like those measured, or unlike them.
///
/// With fewer than eight records of the situation the device's errors in all situations say little about it. So the range also holds
/// the errors of the situation on all devices: each of its ends is the farther of both. A device without records gets the book's wide
/// default and, likewise, the errors of the situation. These errors can only lengthen a bound.
///
/// Features of a plan that no record on its device has ("layout tensor", "more than 512 devices", older code) widen the range by the
/// book's factor for plans unlike those measured. The factor was found with features of the same kinds. A kind of feature that no
/// record on any device has ("LoRA", "recurrences") was never tested, so the range also holds the wide default.
///
/// Errors of host-bound records are taken for errors of the time that waits for the host. So they count in proportion to that share of
/// the step, if it is smaller than the records'.
LogRange log_range(const ErrorBook& book, const RangeQuestion& question);

/// The range in seconds around the predicted step time, which always lies inside.
StepRange step_range(const ErrorBook& book, const Prediction& prediction, const RangeQuestion& question);

/// The probability that a step takes at most `limit_s` seconds, by the errors of step_range, widened likewise. A device without
/// records has normally distributed log errors whose 80 % range is the book's default. Where the errors of the device and those of the
/// situation disagree, the probability nearer to a half counts.
double share_within(const ErrorBook& book, const Prediction& prediction, const RangeQuestion& question, double limit_s);

/// A part of a work: how much it is predicted to take, in any unit that grows with its step time, and what its error depends on.
struct PartOfWork {
  double predicted = 0;
  RangeQuestion question;
};

/// The probability that parts take at most `limit` together, by the errors of share_within. Errors of parts are fully dependent: each
/// part has the same quantile of its own errors. At least one part.
double share_within(const ErrorBook& book, const std::vector<PartOfWork>& parts, double limit);

/// Whether the book has a record of this device.
bool has_records(const ErrorBook& book, const Topology& topology);

}  // namespace tandem::sim
