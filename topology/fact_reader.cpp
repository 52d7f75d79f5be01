#include "topology/fact_reader.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "models/base/json.hpp"
#include "models/base/left_out.hpp"
#include "models/base/quantity.hpp"
#include "models/base/text.hpp"

namespace tandem {
namespace {

using nlohmann::json;

constexpr double kTiny = std::numeric_limits<double>::min();
// Plausibility limits. A value beyond them usually has a missing or wrong unit.
constexpr double kLongest = 1;    // s
constexpr double kSlowest = 1e6;  // bytes/s
constexpr double kLeast = 1e9;    // FLOP/s

/// An example of a value for a key with this ending.
std::string example_of(std::string_view key) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kExamples{
      {{"peak_flops_per_s", "{\"bf16\": \"312 TFLOP/s\"}"},
       {"flops_per_s", "\"312 TFLOP/s\""},
       {"bytes_per_s", "\"25 GB/s\""},
       {"_bytes", "\"80 GiB\""},
       {"_s", "\"2 us\""},
       {"shape", "\"shape\": [4, 4]"},
       {"cores_per_chip", "\"cores_per_chip\": 2"},
       {"link_matrix", "\"link_matrix\": [[0, 1], [1, 0]], the links between each pair of devices"},
       {"ring", "\"ring\": [0, 1, 3, 2], all devices in the order of a ring"},
       {"devices", "\"devices\": 8"},
       {"nics", "\"nics\": 8"},
       {"nodes_per_leaf", "\"nodes_per_leaf\": 16"}}};
  for (const auto& [ending, example] : kExamples)
    if (key.ends_with(ending)) return "write for example " + std::string(example);
  return "";
}

bool is_fact(const json& value) { return value.is_object() && value.contains("value"); }

/// Whether a value is a fitted number: it names the data of the fit instead of a source.
bool is_fitted(const json& value) {
  return is_fact(value) && value.contains("fitted_on") && value["fitted_on"].is_string();
}

bool is_texts(const json& value) {
  return value.is_string() ||
         (value.is_array() && std::all_of(value.begin(), value.end(), [](const json& v) { return v.is_string(); }));
}

/// The value of a fact. If it has values that were fitted without the sources left out now, the one of these.
const json& value_in(const json& fact) {
  if (!fact.contains("without")) return fact["value"];
  std::vector<std::string> choices;
  for (const auto& [sets, number] : fact["without"].items()) choices.push_back(sets);
  const std::string choice = choice_without(choices);
  return choice.empty() ? fact["value"] : fact["without"][choice];
}

bool has_source(const json& value) {
  return value.contains("source") && is_texts(value["source"]) && value.contains("verified") && value["verified"].is_boolean();
}

/// Calls a parser of "25 GB/s" and adds file and field to its error.
template <class Parse>
auto parse_at(const Parse& parse, const std::string& text, const std::string& file, const std::string& place) {
  try {
    return parse(text);
  } catch (const ConfigError& e) {
    std::vector<Problem> problems = e.problems();
    for (Problem& p : problems) p.file = file, p.field = place;
    throw ConfigError(problems);
  }
}

}  // namespace

std::string told_file(const std::string& path) {
  constexpr std::string_view kFolder = "topology/";
  const std::size_t at = path.rfind(kFolder);
  const bool below = at != path.npos && (at == 0 || path[at - 1] == '/');
  return below ? path.substr(at + kFolder.size()) : path;
}

FactReader::FactReader(const json& object, std::string file, std::string path, std::vector<std::string>& unverified)
    : json_(object), file_(std::move(file)), path_(std::move(path)), unverified_(unverified) {
  if (!json_.is_object())
    throw ConfigError(Problem{file_, path_, value_text(json_), "must be an object, not " + kind_text(json_), ""});
}

std::string FactReader::place(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

void FactReader::refuse(const std::string& key, const std::string& reason, const std::string& remedy) const {
  const std::string value = json_.contains(key) ? value_text(json_.at(key)) : "";
  throw ConfigError(Problem{file_, place(key), value, reason, remedy});
}

bool FactReader::has(const std::string& key) {
  asked_.insert(key);
  return json_.contains(key);
}

const json& FactReader::raw(const std::string& key) {
  asked_.insert(key);
  if (!json_.contains(key)) refuse(key, "is missing", example_of(key));
  return json_.at(key);
}

FactReader FactReader::object(const std::string& key) { return {raw(key), file_, place(key), unverified_}; }

void FactReader::note_unverified(const std::string& key, const json& fact) {
  const auto flagged = [&](const char* flag) { return is_fact(fact) && fact.contains(flag) && fact[flag] == true; };
  if (is_fitted(fact) ? !flagged("placeholder") : flagged("verified")) return;
  const std::string note = is_fact(fact) ? fact.value("note", "") : "";
  const std::string line = told_file(file_) + ": " + place(key) + (note.empty() ? "" : " (" + note + ")");
  if (std::find(unverified_.begin(), unverified_.end(), line) == unverified_.end()) unverified_.push_back(line);
}

const json& FactReader::fact(const std::string& key) {
  const json& found = raw(key);
  if (is_fact(found) && !is_fitted(found) && !has_source(found))
    refuse(key, "a fact needs \"source\" (texts) and \"verified\" (true or false), a fitted number \"fitted_on\"",
           "or write the value alone: it counts as not verified");
  if (is_fact(found) && found.contains("note") && !found["note"].is_string()) refuse(key, "its note must be a string");
  if (is_fact(found) && found.contains("without") && !found["without"].is_object())
    refuse(key, "without must name sets of measurements, each with the number that was fitted without it");
  note_unverified(key, found);
  return is_fact(found) ? value_in(found) : found;
}

std::string FactReader::text(const std::string& key, const std::string& otherwise) {
  if (!has(key)) return otherwise;
  if (!json_.at(key).is_string()) refuse(key, "must be a string");
  return json_.at(key).get<std::string>();
}

bool FactReader::flag(const std::string& key, bool otherwise) {
  if (!has(key)) return otherwise;
  if (!json_.at(key).is_boolean()) refuse(key, "must be true or false");
  return json_.at(key).get<bool>();
}

double FactReader::number(const std::string& key, double least) {
  const json& value = fact(key);
  if (!value.is_number()) refuse(key, "must be a number", example_of(key));
  const double v = value.get<double>();
  if (!std::isfinite(v) || v < least)
    refuse(key, least == kTiny ? "must be above zero" : "must be at least " + json(least).dump(), example_of(key));
  return v;
}

std::int64_t FactReader::whole(const std::string& key, std::int64_t least) {
  const json& value = fact(key);
  if (!value.is_number_integer()) refuse(key, "must be a whole number");
  if (value.get<std::int64_t>() < least) refuse(key, "must be at least " + std::to_string(least));
  return value.get<std::int64_t>();
}

Bytes FactReader::bytes(const std::string& key) {
  const json& value = fact(key);
  return value.is_string() ? parse_at(parse_bytes, value.get<std::string>(), file_, place(key)) : Bytes(whole(key, 0));
}

Bandwidth FactReader::bandwidth(const std::string& key) {
  const json& value = fact(key);
  const Bandwidth b = value.is_string() ? parse_at(parse_bandwidth, value.get<std::string>(), file_, place(key))
                                        : Bandwidth::bytes_per_second(number(key, kTiny));
  if (b.bytes_per_second() < kSlowest) refuse(key, "is less than a megabyte a second", example_of(key));
  return b;
}

FlopRate FactReader::rate(const std::string& key) { return rate(key, fact(key), ""); }

FlopRate FactReader::rate(const std::string& key, const json& value, const std::string& of) {
  if (!value.is_string() && (!value.is_number() || !(value.get<double>() > 0)))
    refuse(key, of + "must be a rate above zero", example_of(key));
  const FlopRate r = value.is_string() ? parse_at(parse_flop_rate, value.get<std::string>(), file_, place(key))
                                       : FlopRate::flops_per_second(value.get<double>());
  if (r.flops_per_second() < kLeast) refuse(key, of + "is less than a GFLOP/s", example_of(key));
  return r;
}

Duration FactReader::duration(const std::string& key) {
  const json& value = fact(key);
  const double seconds = value.is_string() ? parse_at(parse_duration, value.get<std::string>(), file_, place(key)).seconds()
                                           : number(key, 0);
  if (seconds > kLongest) refuse(key, "is longer than a second", example_of(key));
  return Duration::seconds(seconds);
}

void FactReader::finish() const {
  const std::vector<std::string> known(asked_.begin(), asked_.end());
  for (const auto& [key, value] : json_.items())
    if (!asked_.contains(key)) {
      const std::string meant = nearest(key, known);
      refuse(key, "is not a known key", meant.empty() ? "known are " + list_text(known) : "did you mean \"" + meant + "\"?");
    }
}

}  // namespace tandem
