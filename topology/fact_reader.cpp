#include "topology/fact_reader.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/quantity.hpp"
#include "models/base/text.hpp"

namespace tandem {
namespace {

using nlohmann::json;

constexpr double kTiny = std::numeric_limits<double>::min();
constexpr double kLongest = 1e6;  // seconds: a Duration holds some more

bool is_fact(const json& value) { return value.is_object() && value.contains("value"); }

/// A fitted number says what it was fitted on and makes no claim to be true.
bool is_fitted(const json& value) {
  return is_fact(value) && value.contains("fitted_on") && value["fitted_on"].is_string();
}

bool has_source(const json& value) {
  return value.contains("source") && value.contains("verified") && value["verified"].is_boolean();
}

/// Calls a parser of "25 GB/s" and puts file and field into its refusal.
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
  if (!json_.contains(key)) refuse(key, "is missing");
  return json_.at(key);
}

FactReader FactReader::object(const std::string& key) { return {raw(key), file_, place(key), unverified_}; }

void FactReader::note_unverified(const std::string& key, const json& fact) {
  if (is_fitted(fact) || (is_fact(fact) && fact.value("verified", false))) return;
  const std::string note = is_fact(fact) ? fact.value("note", "") : "";
  const std::string line =
      file_.substr(file_.rfind('/') + 1) + ": " + place(key) + (note.empty() ? "" : " (" + note + ")");
  if (std::find(unverified_.begin(), unverified_.end(), line) == unverified_.end()) unverified_.push_back(line);
}

const json& FactReader::fact(const std::string& key) {
  const json& found = raw(key);
  if (is_fact(found) && !is_fitted(found) && !has_source(found))
    refuse(key, "a fact needs \"source\" and \"verified\", a fitted number \"fitted_on\"");
  note_unverified(key, found);
  return is_fact(found) ? found["value"] : found;
}

std::string FactReader::text(const std::string& key, const std::string& otherwise) {
  if (!has(key)) return otherwise;
  if (!json_.at(key).is_string()) refuse(key, "must be a text");
  return json_.at(key).get<std::string>();
}

bool FactReader::flag(const std::string& key, bool otherwise) {
  if (!has(key)) return otherwise;
  if (!json_.at(key).is_boolean()) refuse(key, "must be true or false");
  return json_.at(key).get<bool>();
}

double FactReader::number(const std::string& key, double least) {
  const json& value = fact(key);
  if (!value.is_number()) refuse(key, "must be a number");
  const double v = value.get<double>();
  if (!std::isfinite(v) || v < least) refuse(key, least == kTiny ? "must be above zero" : "is too small");
  return v;
}

std::int64_t FactReader::whole(const std::string& key, std::int64_t least) {
  const json& value = fact(key);
  if (!value.is_number_integer()) refuse(key, "must be a whole number");
  if (value.get<std::int64_t>() < least) refuse(key, "must be at least " + std::to_string(least));
  return value.get<std::int64_t>();
}

double FactReader::at_most(const std::string& key, double v, double most) const {
  if (v > most) refuse(key, "is too large");
  return v;
}

Bytes FactReader::bytes(const std::string& key) {
  const json& value = fact(key);
  return value.is_string() ? parse_at(parse_bytes, value.get<std::string>(), file_, place(key)) : Bytes(whole(key, 0));
}

Bandwidth FactReader::bandwidth(const std::string& key) {
  const json& value = fact(key);
  return value.is_string() ? parse_at(parse_bandwidth, value.get<std::string>(), file_, place(key))
                           : Bandwidth::bytes_per_second(number(key, kTiny));
}

FlopRate FactReader::rate(const std::string& key) {
  const json& value = fact(key);
  return value.is_string() ? parse_at(parse_flop_rate, value.get<std::string>(), file_, place(key))
                           : FlopRate::flops_per_second(number(key, kTiny));
}

Duration FactReader::duration(const std::string& key) {
  const json& value = fact(key);
  return value.is_string() ? parse_at(parse_duration, value.get<std::string>(), file_, place(key))
                           : Duration::seconds(at_most(key, number(key, 0), kLongest));
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
