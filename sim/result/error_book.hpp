#pragma once
// How wrong predictions were: errors of step times against published ones, kept as data (topology/errors), and the range
// that follows from them for a new prediction.

#include <cstdint>
#include <string>
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
  std::vector<std::string> like{};  ///< PlanTraits::words of the records, each once, ascending; empty: not known
  std::int64_t devices = 0;         ///< of the largest record
};

/// By how much ranges have to be wider than the errors of other sources for 80 % of a source's records to lie inside.
struct Widening {
  double factor = 1;
  int records = 0, sources = 0;  ///< that it was found with
};

struct ErrorBook {
  std::string computed;           ///< when, and with which version
  std::vector<ErrorEntry> entries;
  Widening seen, unseen;          ///< where the device has records like the plan, and where it has none
  double unknown_low = 0, unknown_high = 0;  ///< log(measured / predicted) where a device has no records
  std::string unknown_reason;
};

/// The share of outcomes that a range is meant to hold.
inline constexpr double kRangeShare = 0.8;

/// What tells predictions of one device apart by how far they are to be trusted: "host-bound" where the critical rank waits
/// for launches a tenth of the step or more, else "one node" or "many nodes".
std::string situation_of(const Prediction& prediction, const Topology& topology);

/// Reads topology/errors/step_time.json. Throws ConfigError.
ErrorBook load_error_book();

/// The text of such a file.
std::string to_json(const ErrorBook& book);

/// What a range depends on besides the errors.
struct RangeQuestion {
  std::string device;     ///< Device::calibration
  std::string situation;  ///< see situation_of
  PlanTraits traits;
  std::vector<std::string> without{};  ///< sources whose records the range must not rest on
};
RangeQuestion range_question(const Prediction& prediction, const Topology& topology, const PlanTraits& traits);

/// What of the plan no record on its device has ("experts", "more than 512 devices"); empty where some record has each, where the device
/// has no records, and in a book that does not know.
std::vector<std::string> unseen(const ErrorBook& book, const RangeQuestion& question);

/// Ends of a range as log(measured / predicted), the lower one not above 0, the upper one not below.
struct LogRange {
  double low = 0, high = 0;
  bool known = false;     ///< the device has records
  std::string basis;      ///< the records it was computed from, or why it is a default
  std::string wider;      ///< why it is wider than for plans like those measured; or empty
};

/// Where 80 % of measured step times would lie. Every source in the same situation on the same device has one vote, all sources on other
/// devices together one more, and few votes make a range wider, as Student's prediction interval is wider than the normal one: what the
/// next source does is not known from two. With fewer than eight records of the situation all of the device are taken; a device
/// without any gets the book's wide default. The book's widening for plans like those measured, or unlike them, comes on top.
LogRange log_range(const ErrorBook& book, const RangeQuestion& question);

/// The same around a step time, the prediction itself always inside.
StepRange step_range(const ErrorBook& book, const Prediction& prediction, const RangeQuestion& question);

/// The share of outcomes, 0 to 1, with which a step takes at most `limit_s` seconds: by the errors that step_range rests on, widened
/// alike. A device without records has normal errors of the logarithm, whose 80 % are the book's default.
double share_within(const ErrorBook& book, const Prediction& prediction, const RangeQuestion& question, double limit_s);

/// Whether the book has an error of a prediction on this device.
bool has_records(const ErrorBook& book, const Topology& topology);

}  // namespace tandem::sim
