#include "sim/result/error_book.hpp"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "models/base/files.hpp"
#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "models/plan/mesh.hpp"

namespace tandem::sim {
namespace {

using nlohmann::json;

constexpr std::string_view kFolder = "topology/errors", kCalibrations = "topology/calibration";
constexpr double kHostBoundShare = 0.1;
constexpr std::string_view kDeviceWord = "device ";
constexpr const char* kPowerLimit = "a power limit";
constexpr const char* kNarrower = "; measured steps narrow it: tandem validate RECORDS --write-errors FILE, then \"errors\": \"FILE\" in the calibration";
constexpr const char* kBound = "the device has no calibration (give it one of topology/calibration, such as \"h100\"), so this is a bound: ";
constexpr int kEnough = 8;  // records from which a situation is used alone

struct Vote {
  double error, weight;
};
using Entries = std::vector<const ErrorEntry*>;

/// A month of the file; 0 in tables that were written without.
Month month_at(const json& e, const char* key) { return parse_month(e.value(key, "")).value_or(Month{}); }

ErrorEntry entry(const json& e) {
  return {e.at("device"),
          e.at("situation"),
          e.at("source"),
          e.at("records"),
          e.at("log_measured_over_predicted"),
          e.value("like", std::vector<std::string>{}),
          e.value("devices", std::int64_t{0}),
          e.value("host_share", 0.0),
          month_at(e, "since"),
          month_at(e, "until")};
}

Widening widening(const json& file, const char* key) {
  const json found = file.value("wider", json::object()).value(key, json::object());
  return {found.value("factor", 1.0), found.value("records", 0), found.value("sources", 0)};
}

nlohmann::ordered_json widening_json(const Widening& w) {
  return {{"factor", w.factor}, {"records", w.records}, {"sources", w.sources}};
}

DefaultRange default_range(const json& range) { return {range.at("low"), range.at("high"), range.at("reason")}; }

nlohmann::ordered_json default_json(const DefaultRange& r) { return {{"low", r.low}, {"high", r.high}, {"reason", r.reason}}; }

ErrorBook book_of(const json& file) {
  ErrorBook out;
  out.computed = file.at("computed");
  for (const json& e : file.at("entries")) out.entries.push_back(entry(e));
  out.seen = widening(file, "seen"), out.unseen = widening(file, "unseen");
  out.unknown = default_range(file.at("unknown_device"));
  // Tables of one calibration, which are never asked about a device without one, may lack it.
  out.uncalibrated = file.contains("uncalibrated_device") ? default_range(file["uncalibrated_device"]) : out.unknown;
  return out;
}

void check(const ErrorBook& book, const std::string& path) {
  for (const ErrorEntry& e : book.entries)
    if (e.quantiles.empty() || !std::is_sorted(e.quantiles.begin(), e.quantiles.end()))
      throw ConfigError(Problem{path, "entries", e.source, "log_measured_over_predicted must be ascending and not empty", ""});
}

ErrorBook read_book(const std::string& path) {
  try {
    ErrorBook book = book_of(read_json(path));
    check(book, path);
    return book;
  } catch (const json::exception& e) {
    throw ConfigError(Problem{path, "", "", std::string("is no table of errors: ") + e.what(),
                              "write it with `tandem validate --write-errors`"});
  }
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// The entries with this calibration. An entry of a calibration's path may have been written from another folder, or before the
/// files were moved together: then those of the same file name count.
std::vector<ErrorEntry> entries_of(const ErrorBook& book, const std::string& calibration) {
  const bool is_path = is_preset_path(calibration);
  const std::string whole = is_path ? canonical_path(calibration) : "";
  const auto same = [&](const ErrorEntry& e) {
    return e.device == calibration || (is_path && is_preset_path(e.device) && !whole.empty() && canonical_path(e.device) == whole);
  };
  const auto same_name = [&](const ErrorEntry& e) {
    return is_path && is_preset_path(e.device) && file_name(e.device) == file_name(calibration);
  };
  std::vector<ErrorEntry> out;
  std::ranges::copy_if(book.entries, std::back_inserter(out), same);
  if (out.empty()) std::ranges::copy_if(book.entries, std::back_inserter(out), same_name);
  return out;
}

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
void add_votes(std::vector<Vote>& votes, const Entries& entries, double weight, double host_share) {
  const auto sources = sources_of(entries);
  for (const ErrorEntry* e : entries) {
    const double share = static_cast<double>(e->records) / sources.at(e->source) / static_cast<double>(sources.size());
    const bool by_share = e->situation == kHostBound && e->host_share > 0 && host_share > 0;
    const double each = weight * share / static_cast<double>(e->quantiles.size());
    for (double q : e->quantiles) votes.push_back({by_share ? rescaled(q, host_share / e->host_share) : q, each});
  }
}

double quantile(std::vector<Vote>& votes, double share) {
  std::sort(votes.begin(), votes.end(), [](const Vote& a, const Vote& b) { return a.error < b.error; });
  double whole = 0, sum = 0;
  for (const Vote& v : votes) whole += v.weight;
  for (const Vote& v : votes)
    if ((sum += v.weight) >= share * whole * (1 - 1e-12)) return v.error;
  return votes.back().error;
}

int records(const Entries& entries) {
  int n = 0;
  for (const ErrorEntry* e : entries) n += e->records;
  return n;
}

/// Ratio of Student's prediction interval to the normal one for `sources` votes: a few votes understate the spread of the next one.
double widened(std::size_t sources) {
  if (sources < 2) return 1;
  const double n = static_cast<double>(sources), share = 1 - (1 - kRangeShare) / 2;
  return boost::math::quantile(boost::math::students_t(n - 1), share) * std::sqrt(1 + 1 / n) /
         boost::math::quantile(boost::math::normal(), share);
}

std::string counted(std::size_t n, const std::string& what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

bool is_left_out(const ErrorEntry& e, const RangeQuestion& q) {
  return std::find(q.without.begin(), q.without.end(), e.source) != q.without.end();
}

Entries on_device(const ErrorBook& book, const RangeQuestion& q) {
  if (q.device.empty()) return {};
  return select(book, [&](const ErrorEntry& e) { return e.device == q.device && !is_left_out(e, q); });
}

/// Errors that a prediction may have, and the factor that widens them. No votes: the device has no records.
struct Errors {
  std::vector<Vote> votes;
  double wider = 1;
  std::string basis, reason;
};

std::string reason_of(const RangeQuestion& q, const std::vector<std::string>& unseen) {
  return unseen.empty() ? "" : "no record on " + q.device + " has " + list_text(unseen, "or");
}

const DefaultRange& default_of(const ErrorBook& book, const RangeQuestion& q) { return q.bound ? book.uncalibrated : book.unknown; }

Entries in_situation(const Entries& all, const std::string& situation) {
  Entries out;
  std::ranges::copy_if(all, std::back_inserter(out), [&](const ErrorEntry* e) { return e->situation == situation; });
  return out;
}

Errors errors_of(const ErrorBook& book, const RangeQuestion& q) {
  const Entries all = on_device(book, q);
  if (all.empty()) return {};
  Entries alike = in_situation(all, q.situation);
  const bool same = records(alike) >= kEnough;
  if (!same) alike = all;
  const Entries others = select(book, [&](const ErrorEntry& e) { return e.device != q.device && !is_left_out(e, q); });
  const std::size_t sources = sources_of(alike).size();
  Errors out;
  add_votes(out.votes, alike, static_cast<double>(sources), q.host_share);
  add_votes(out.votes, others, 1, q.host_share);
  out.reason = reason_of(q, unseen(book, q));
  const Widening& more = out.reason.empty() ? book.seen : book.unseen;
  out.wider = widened(sources + (others.empty() ? 0 : 1)) * more.factor;
  out.basis = counted(static_cast<std::size_t>(records(alike)), "record") + " of " + counted(sources, "source") + " on " + q.device +
              (same ? ", " + q.situation : ", in any situation for want of records " + q.situation) +
              (out.reason.empty() ? "" : "; " + out.reason) + "; " + book.computed;
  return out;
}

/// True if a group of ranks that exchange rows of experts has devices of several nodes. Groups repeat, so the first node's tell.
bool experts_leave_node(const Plan& plan, const Topology& topology) {
  const Mesh mesh = make_mesh(plan);
  const std::int64_t node = topology.devices_per_node() * topology.ranks_per_device();
  for (std::int64_t r = 0; r < std::min(node, mesh.world_size()); ++r) {
    const std::vector<Rank> group = mesh.members(Group::expert, Rank(static_cast<std::int32_t>(r)));
    if (std::ranges::any_of(group, [&](Rank other) { return other.value() >= node; })) return true;
  }
  return false;
}

}  // namespace

double host_share(const Prediction& p) {
  const TimeBreakdown& parts = p.roles[p.critical_role].time_breakdown_s;
  const auto launch = parts.find("launch");
  return launch == parts.end() || p.step_time.seconds() <= 0 ? 0 : launch->second / p.step_time.seconds();
}

std::string situation_of(const Prediction& p, const Topology& topology, const PlanTraits& traits) {
  if (host_share(p) >= kHostBoundShare) return std::string(kHostBound);
  if (std::ranges::find(traits.words, kExpertsOverNodes) != traits.words.end()) return std::string(kExpertsOverNodes);
  return topology.devices() > topology.devices_per_node() ? "many nodes" : "one node";
}

std::string own_error_table(const std::string& calibration) {
  const std::string file = is_preset_path(calibration) ? calibration : find_preset(kCalibrations, calibration);
  if (file.empty()) return "";
  const std::string text = read_text(file);
  if (text.find("\"errors\"") == std::string::npos) return "";  // most have none, and need no parser
  const json read = parse_json(text, file);
  if (!read.is_object() || !read.contains("errors")) return "";
  if (!read["errors"].is_string())
    throw ConfigError(Problem{file, "errors", value_text(read["errors"]), "must be the path of a table of errors",
                              "write it with tandem validate RECORDS --write-errors FILE"});
  return beside(read["errors"].get<std::string>(), file);
}

void add_own_errors(ErrorBook& book, const std::string& calibration) {
  const std::string path = own_error_table(calibration);
  if (path.empty()) return;
  const auto refuse = [&](const std::string& reason, const std::string& remedy) {
    throw ConfigError(Problem{calibration, "errors", '"' + shortened(path) + '"', reason, remedy});
  };
  if (const std::string why = why_unreadable(path); !why.empty())
    refuse(why, "take \"errors\" out of the calibration, write the table with tandem validate RECORDS --write-errors FILE, and name it again");
  const ErrorBook own = read_book(path);
  std::vector<ErrorEntry> found = entries_of(own, calibration);
  if (found.empty()) refuse("has no error with this calibration", "write it with tandem validate, from records on a cluster with this calibration");
  std::erase_if(book.entries, [&](const ErrorEntry& e) { return e.device == calibration; });
  for (ErrorEntry& e : found) {
    e.device = calibration;
    book.entries.push_back(std::move(e));
  }
  book.computed = own.computed;
}

ErrorBook load_error_book(const std::string& calibration) {
  const std::string path = find_preset(kFolder, "step_time");
  if (path.empty()) throw ConfigError(unknown_preset(kFolder, "step_time", "table of errors"));
  ErrorBook book = read_book(path);
  add_own_errors(book, calibration);
  return book;
}

std::string to_json(const ErrorBook& book) {
  std::string out = "{\n  \"describes\": \"errors of predicted step times by device, situation and source, as `tandem validate "
                    "--write-errors` found them\",\n";
  out += "  \"computed\": " + json(book.computed).dump() + ",\n  \"entries\": [\n";
  for (std::size_t i = 0; i < book.entries.size(); ++i) {
    const ErrorEntry& e = book.entries[i];
    nlohmann::ordered_json row = {{"device", e.device},   {"situation", e.situation},
                                  {"source", e.source},   {"records", e.records},
                                  {"devices", e.devices}, {"like", e.like},
                                  {"log_measured_over_predicted", e.quantiles}};
    if (e.host_share > 0) row["host_share"] = e.host_share;
    if (e.since.said()) row["since"] = text_of(e.since), row["until"] = text_of(e.until);
    out += "    " + row.dump() + (i + 1 < book.entries.size() ? ",\n" : "\n");
  }
  const nlohmann::ordered_json wider = {{"seen", widening_json(book.seen)}, {"unseen", widening_json(book.unseen)}};
  return out + "  ],\n  \"wider\": " + wider.dump() + ",\n  \"unknown_device\": " + default_json(book.unknown).dump() +
         ",\n  \"uncalibrated_device\": " + default_json(book.uncalibrated).dump() + "\n}\n";
}

PlanTraits traits_on(const Plan& plan, const Topology& topology) {
  PlanTraits out = traits_of(plan);
  if (experts_leave_node(plan, topology)) out.words.emplace_back(kExpertsOverNodes);
  if (topology.device().clock < 1) out.words.emplace_back(kPowerLimit);
  if (!topology.device().preset.empty()) out.words.push_back(std::string(kDeviceWord) + topology.device().preset);
  return out;
}

RangeQuestion range_question(const Prediction& p, const Topology& topology, const PlanTraits& traits) {
  RangeQuestion out = range_question(topology, traits);
  out.situation = situation_of(p, topology, traits);
  out.host_share = host_share(p);
  return out;
}

RangeQuestion range_question(const Topology& topology, const PlanTraits& traits) {
  const Device& device = topology.device();
  return {device.calibration, "", traits, {}, 0, device.calibration.empty() && device.cost_table.empty()};
}

namespace {

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

}  // namespace

std::vector<std::string> unseen(const ErrorBook& book, const RangeQuestion& q) {
  std::vector<std::string> out;
  std::set<std::string> seen;
  std::int64_t most = 0;
  const Entries entries = on_device(book, q);
  for (const ErrorEntry* e : entries) seen.insert(e->like.begin(), e->like.end()), most = std::max(most, e->devices);
  if (seen.empty()) return out;
  const auto is_device = [](const std::string& word) { return word.starts_with(kDeviceWord); };
  const bool lists_devices = std::any_of(seen.begin(), seen.end(), is_device);  // older tables do not
  for (const std::string& word : q.traits.words)
    if (!seen.contains(word) && (lists_devices || !is_device(word))) out.push_back(word);
  if (most > 0 && q.traits.devices > most) out.push_back("more than " + std::to_string(most) + " devices");
  if (std::string old = too_old(entries, q.traits.as_of); !old.empty()) out.push_back(std::move(old));
  return out;
}

bool has_situation(const ErrorBook& book, const RangeQuestion& q) {
  return records(in_situation(on_device(book, q), q.situation)) >= kEnough;
}

LogRange log_range(const ErrorBook& book, const RangeQuestion& q) {
  Errors errors = errors_of(book, q);
  if (errors.votes.empty()) {
    const std::string none = q.device.empty() ? "no published step time on this device" : "no record on " + q.device;
    const DefaultRange& range = default_of(book, q);
    const std::string reason = (q.bound ? kBound : none + ": ") + range.reason + (is_preset_path(q.device) ? kNarrower : "");
    return {range.low, range.high, false, reason, reason};
  }
  const double tail = (1 - kRangeShare) / 2;
  const double low = errors.wider * quantile(errors.votes, tail), high = errors.wider * quantile(errors.votes, 1 - tail);
  return {std::min(low, 0.0), std::max(high, 0.0), true, errors.basis, errors.reason};
}

StepRange step_range(const ErrorBook& book, const Prediction& p, const RangeQuestion& q) {
  const double step_s = p.step_time.seconds();
  const LogRange log = log_range(book, q);
  return {step_s * std::exp(log.low), step_s * std::exp(log.high), kRangeShare, log.basis, log.wider};
}

namespace {

/// The log errors of a device without records: its default range holds 80 % of them.
boost::math::normal default_errors(const DefaultRange& range) {
  const double half = boost::math::quantile(boost::math::normal(), 1 - (1 - kRangeShare) / 2);
  return boost::math::normal((range.low + range.high) / 2, (range.high - range.low) / 2 / half);
}

/// The share of outcomes whose log error is at most `error`.
double share_of_errors(const ErrorBook& book, const RangeQuestion& q, double error) {
  const Errors errors = errors_of(book, q);
  if (errors.votes.empty()) return boost::math::cdf(default_errors(default_of(book, q)), error);
  double whole = 0, within = 0;
  for (const Vote& v : errors.votes) {
    whole += v.weight;
    if (errors.wider * v.error <= error) within += v.weight;
  }
  return within / whole;
}

}  // namespace

double share_within(const ErrorBook& book, const Prediction& p, const RangeQuestion& q, double limit_s) {
  return limit_s <= 0 ? 0 : share_of_errors(book, q, std::log(limit_s / p.step_time.seconds()));
}

double share_within(const ErrorBook& book, const std::vector<PartOfWork>& parts, double limit) {
  if (limit <= 0) return 0;
  if (parts.size() == 1) return share_of_errors(book, parts.front().question, std::log(limit / parts.front().predicted));
  std::vector<Errors> errors;
  for (const PartOfWork& part : parts) errors.push_back(errors_of(book, part.question));
  const auto taken = [&](double share) {
    double sum = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto of_device = [&] { return errors[i].wider * quantile(errors[i].votes, share); };
      const auto unknown = [&] { return boost::math::quantile(default_errors(default_of(book, parts[i].question)), share); };
      sum += parts[i].predicted * std::exp(errors[i].votes.empty() ? unknown() : of_device());
    }
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
