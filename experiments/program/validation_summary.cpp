#include <algorithm>
#include <cmath>
#include <numeric>

#include <nlohmann/json.hpp>

#include "experiments/program/validation.hpp"
#include "reports/text.hpp"

namespace tandem::program {

namespace {

using nlohmann::json;
using Errors = std::vector<double>;

void add_error(Errors& errors, const std::optional<double>& predicted, const std::optional<double>& measured) {
  if (predicted && measured && *measured > 0) errors.push_back((*predicted - *measured) / *measured);
}

double mean(const Errors& v) { return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size()); }

Errors absolute(Errors v) {
  for (double& e : v) e = std::abs(e);
  return v;
}

double median(Errors v) {
  std::sort(v.begin(), v.end());
  const std::size_t half = v.size() / 2;
  return v.size() % 2 ? v[half] : (v[half - 1] + v[half]) / 2;
}

double worst(const Errors& v) {
  return *std::max_element(v.begin(), v.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
}

SetSummary summary(const std::string& name, const std::vector<const ValidatedRecord*>& records) {
  SetSummary out;
  out.name = name;
  Errors time, memory;
  for (const ValidatedRecord* r : records) {
    out.refused += !r->refused.empty();
    add_error(time, r->step_time_s, r->measured.step_time_s);
    add_error(memory, r->peak_memory_bytes, r->measured.peak_memory_bytes);
  }
  out.n = static_cast<int>(time.size());
  if (!memory.empty()) out.memory_mape = mean(absolute(memory));
  if (time.empty()) return out;
  out.mape = mean(absolute(time));
  out.median_ape = median(absolute(time));
  out.bias = mean(time);
  out.worst = worst(time);
  return out;
}

json value(const std::optional<double>& v) { return v ? json(*v) : json(nullptr); }
std::string percent(const std::optional<double>& v) { return v ? number_text(*v * 100, 1) : "-"; }

json set_json(const SetSummary& s) {
  return {{"name", s.name},           {"n", s.n},
          {"refused", s.refused},     {"mape", value(s.mape)},
          {"bias", value(s.bias)},    {"median_ape", value(s.median_ape)},
          {"worst", value(s.worst)},  {"memory_mape", value(s.memory_mape)},
          {"baseline_mape", nullptr}, {"kendall_tau", nullptr},
          {"mean_regret", nullptr}};
}

json record_json(const ValidatedRecord& r) {
  json out = {{"id", r.measured.id},
              {"set", r.measured.set},
              {"predicted_step_time_s", value(r.step_time_s)},
              {"measured_step_time_s", value(r.measured.step_time_s)},
              {"predicted_peak_memory_bytes", value(r.peak_memory_bytes)},
              {"measured_peak_memory_bytes", value(r.measured.peak_memory_bytes)},
              {"low_s", nullptr},
              {"high_s", nullptr},
              {"fits", r.refused.empty() ? json(r.fits) : json(nullptr)},
              {"refused", !r.refused.empty()}};
  if (!r.refused.empty()) out["reason"] = r.refused;
  return out;
}

std::string row(const std::vector<std::string>& cells) {
  std::string out = padded(cells.front(), 22);
  for (std::size_t i = 1; i < cells.size(); ++i) out += aligned(cells[i], 10);
  return out + "\n";
}

}  // namespace

std::vector<SetSummary> summarise(const std::vector<ValidatedRecord>& records) {
  std::vector<std::pair<std::string, std::vector<const ValidatedRecord*>>> sets;
  for (const ValidatedRecord& r : records) {
    const auto at = std::find_if(sets.begin(), sets.end(), [&](const auto& s) { return s.first == r.measured.set; });
    if (at == sets.end()) sets.push_back({r.measured.set, {&r}});
    else at->second.push_back(&r);
  }
  std::vector<SetSummary> out;
  for (const auto& [name, members] : sets) out.push_back(summary(name, members));
  return out;
}

std::string to_text(const std::vector<SetSummary>& sets) {
  std::string out = row({"set (errors in %)", "n", "refused", "mean", "median", "bias", "worst", "memory"});
  Errors means;
  for (const SetSummary& s : sets) {
    out += row({s.name, std::to_string(s.n), std::to_string(s.refused), percent(s.mape), percent(s.median_ape),
                percent(s.bias), percent(s.worst), percent(s.memory_mape)});
    if (s.mape) means.push_back(*s.mape);
  }
  if (!means.empty()) out += "mean over sets " + number_text(mean(means) * 100, 1) + " %\n";
  return out + "baseline, rank quality and intervals are not computed in this version\n";
}

std::string to_json(const std::vector<SetSummary>& sets, const std::vector<ValidatedRecord>& records) {
  json out = {{"schema_version", 1}, {"sets", json::array()}, {"records", json::array()}};
  for (const SetSummary& s : sets) out["sets"].push_back(set_json(s));
  for (const ValidatedRecord& r : records) out["records"].push_back(record_json(r));
  return out.dump(2) + "\n";
}

}  // namespace tandem::program
