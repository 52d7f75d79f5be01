#include "sim/result/error_book.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

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
          month_at(e, "until"),
          e.value("positions", std::int64_t{0})};
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
    if (e.positions > 0) row["positions"] = e.positions;
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
  return {device.calibration, "", traits, {}, std::nullopt, device.calibration.empty() && device.cost_table.empty()};
}

bool is_bound(const Topology& topology) { return range_question(topology, {}).bound; }

double middle_of_range(double low, double high) { return std::sqrt(low * high); }

}  // namespace tandem::sim
