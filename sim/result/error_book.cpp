#include "sim/result/error_book.hpp"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"

namespace tandem::sim {
namespace {

using nlohmann::json;

constexpr std::string_view kFolder = "topology/errors";
constexpr double kHostBound = 0.1;
constexpr int kEnough = 8;  // records of a situation for it to speak for itself

struct Vote {
  double error, weight;
};
using Entries = std::vector<const ErrorEntry*>;

ErrorEntry entry(const json& e) {
  return {e.at("device"), e.at("situation"), e.at("source"), e.at("records"), e.at("log_measured_over_predicted")};
}

ErrorBook book_of(const json& file) {
  ErrorBook out;
  out.computed = file.at("computed");
  for (const json& e : file.at("entries")) out.entries.push_back(entry(e));
  const json& unknown = file.at("unknown_device");
  out.unknown_low = unknown.at("low"), out.unknown_high = unknown.at("high");
  out.unknown_reason = unknown.at("reason");
  return out;
}

void check(const ErrorBook& book, const std::string& path) {
  for (const ErrorEntry& e : book.entries)
    if (e.quantiles.empty() || !std::is_sorted(e.quantiles.begin(), e.quantiles.end()))
      throw ConfigError(Problem{path, "entries", e.source, "log_measured_over_predicted must be ascending and not empty", ""});
}

template <class Wanted>
Entries select(const ErrorBook& book, Wanted wanted) {
  Entries out;
  for (const ErrorEntry& e : book.entries)
    if (wanted(e)) out.push_back(&e);
  return out;
}

/// Records by source.
std::map<std::string, int> sources_of(const Entries& entries) {
  std::map<std::string, int> out;
  for (const ErrorEntry* e : entries) out[e->source] += e->records;
  return out;
}

/// Shares `weight` evenly over sources, and a source's share over its entries by their records.
void add_votes(std::vector<Vote>& votes, const Entries& entries, double weight) {
  const auto sources = sources_of(entries);
  for (const ErrorEntry* e : entries) {
    const double share = static_cast<double>(e->records) / sources.at(e->source) / static_cast<double>(sources.size());
    for (double q : e->quantiles) votes.push_back({q, weight * share / static_cast<double>(e->quantiles.size())});
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

/// By how much the spread of `sources` votes understates that of the next one: Student's prediction interval over the normal one.
double widened(std::size_t sources) {
  if (sources < 2) return 1;
  const double n = static_cast<double>(sources), share = 1 - (1 - kRangeShare) / 2;
  return boost::math::quantile(boost::math::students_t(n - 1), share) * std::sqrt(1 + 1 / n) /
         boost::math::quantile(boost::math::normal(), share);
}

std::string counted(std::size_t n, const std::string& what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

StepRange around(double step_s, double low, double high, std::string basis) {
  return {step_s * std::exp(std::min(low, 0.0)), step_s * std::exp(std::max(high, 0.0)), kRangeShare, std::move(basis)};
}

/// Errors that a prediction may have, and the factor by which few sources widen them. Without votes: the device has no records.
struct Errors {
  std::vector<Vote> votes;
  double wider = 1;
  std::string basis;
};

Errors errors_of(const ErrorBook& book, const Prediction& p, const Topology& topology, const std::string& without) {
  const std::string& device = topology.device().calibration;
  const std::string situation = situation_of(p, topology);
  const auto on_device = [&](const ErrorEntry& e) { return e.device == device && e.source != without; };
  const Entries all = select(book, on_device);
  if (device.empty() || all.empty()) return {};
  Entries alike = select(book, [&](const ErrorEntry& e) { return on_device(e) && e.situation == situation; });
  const bool same = records(alike) >= kEnough;
  if (!same) alike = all;
  const Entries others = select(book, [&](const ErrorEntry& e) { return e.device != device && e.source != without; });
  const std::size_t sources = sources_of(alike).size();
  Errors out;
  add_votes(out.votes, alike, static_cast<double>(sources));
  add_votes(out.votes, others, 1);
  out.wider = widened(sources + (others.empty() ? 0 : 1));
  out.basis = counted(static_cast<std::size_t>(records(alike)), "record") + " of " + counted(sources, "source") + " on " + device +
              (same ? ", " + situation : ", in any situation for want of records " + situation) + "; " + book.computed;
  return out;
}

}  // namespace

std::string situation_of(const Prediction& p, const Topology& topology) {
  const TimeBreakdown& parts = p.roles[p.critical_role].time_breakdown_s;
  const auto launch = parts.find("launch");
  if (launch != parts.end() && launch->second >= kHostBound * p.step_time.seconds()) return "host-bound";
  return topology.devices() > topology.devices_per_node() ? "many nodes" : "one node";
}

ErrorBook load_error_book() {
  const std::string path = find_preset(kFolder, "step_time");
  if (path.empty()) throw ConfigError(unknown_preset(kFolder, "step_time", "table of errors"));
  try {
    ErrorBook book = book_of(read_json(path));
    check(book, path);
    return book;
  } catch (const json::exception& e) {
    throw ConfigError(Problem{path, "", "", std::string("is no table of errors: ") + e.what(),
                              "write it with `tandem validate --write-errors`"});
  }
}

std::string to_json(const ErrorBook& book) {
  std::string out = "{\n  \"describes\": \"errors of predicted step times by device, situation and source, as `tandem validate "
                    "--write-errors` found them\",\n";
  out += "  \"computed\": " + json(book.computed).dump() + ",\n  \"entries\": [\n";
  for (std::size_t i = 0; i < book.entries.size(); ++i) {
    const ErrorEntry& e = book.entries[i];
    const nlohmann::ordered_json row = {{"device", e.device},   {"situation", e.situation},
                                        {"source", e.source},   {"records", e.records},
                                        {"log_measured_over_predicted", e.quantiles}};
    out += "    " + row.dump() + (i + 1 < book.entries.size() ? ",\n" : "\n");
  }
  const nlohmann::ordered_json unknown = {
      {"low", book.unknown_low}, {"high", book.unknown_high}, {"reason", book.unknown_reason}};
  return out + "  ],\n  \"unknown_device\": " + unknown.dump() + "\n}\n";
}

StepRange step_range(const ErrorBook& book, const Prediction& p, const Topology& topology, const std::string& without) {
  const double step_s = p.step_time.seconds();
  Errors errors = errors_of(book, p, topology, without);
  if (errors.votes.empty()) return around(step_s, book.unknown_low, book.unknown_high, book.unknown_reason);
  const double tail = (1 - kRangeShare) / 2;
  return around(step_s, errors.wider * quantile(errors.votes, tail), errors.wider * quantile(errors.votes, 1 - tail), errors.basis);
}

double share_within(const ErrorBook& book, const Prediction& p, const Topology& topology, double limit_s) {
  if (limit_s <= 0) return 0;
  const double error = std::log(limit_s / p.step_time.seconds());
  const Errors errors = errors_of(book, p, topology, "");
  if (errors.votes.empty()) {
    const boost::math::normal normal;
    const double end = error < 0 ? -book.unknown_low : book.unknown_high;
    return boost::math::cdf(normal, error * boost::math::quantile(normal, 1 - (1 - kRangeShare) / 2) / end);
  }
  double whole = 0, within = 0;
  for (const Vote& v : errors.votes) {
    whole += v.weight;
    if (errors.wider * v.error <= error) within += v.weight;
  }
  return within / whole;
}

bool has_records(const ErrorBook& book, const Topology& topology) {
  const std::string& device = topology.device().calibration;
  return std::any_of(book.entries.begin(), book.entries.end(), [&](const ErrorEntry& e) { return e.device == device; });
}

}  // namespace tandem::sim
