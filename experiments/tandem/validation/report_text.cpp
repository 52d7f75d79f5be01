#include <algorithm>
#include <set>

#include "experiments/tandem/validation/report.hpp"
#include "models/base/text.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {

namespace {

constexpr std::size_t kWidth = 140, kName = 18;

std::string percent(const std::optional<double>& v) { return v ? number_text(*v * 100, 1) : "-"; }

/// A heading or row. The first cell is left-aligned, the others right-aligned; `last` is unaligned.
std::string row(const std::vector<std::string>& cells, const std::string& last = "") {
  std::string out = padded(shortened(cells.front(), kName), kName);
  for (std::size_t i = 1; i < cells.size(); ++i) out += aligned(cells[i], 9);
  if (!last.empty()) out += "  " + last;
  return shortened(out, kWidth) + "\n";
}

std::string marked(const SetSummary& s) { return s.excluded ? shortened(s.name, kName - 2) + " *" : s.name; }

bool any_excluded(const Summary& v) {
  return !v.pools.empty() || std::any_of(v.sets.begin(), v.sets.end(), [](const SetSummary& s) { return s.excluded; });
}

std::string time_row(const SetSummary& s) {
  return row({marked(s), std::to_string(s.time.n), std::to_string(s.refused), std::to_string(s.assumed), percent(s.time.mape),
              percent(s.time.median_ape), percent(s.time.bias), percent(s.time.worst), percent(s.baseline_mape),
              percent(s.coverage), percent(s.noise.mean_spread)},
             s.time.worst_id);
}

/// Sets whose plans the caller runs on other clusters than their own.
std::string elsewhere(const Summary& v) {
  std::string out;
  for (const SetSummary& s : v.sets)
    if (!s.cluster.empty()) out += s.name + ": its plans run on " + s.cluster + " in place of the cluster they name\n";
  return out;
}

/// If only some records have a baseline: the mean over those, to compare with it.
std::string beside_constant(const Summary& v) {
  std::string out;
  for (const SetSummary& s : v.sets)
    if (s.beside_baseline.n > 0 && s.beside_baseline.n < s.time.n)
      out += s.name + ": the constant is of " + std::to_string(s.beside_baseline.n) + " of its records; their mean is " +
             percent(s.beside_baseline.mape) + "\n";
  return out;
}

std::string times(const Summary& v) {
  std::string out = "every record under the stack and the month that it names\nstep time, errors in %\n";
  out += row({"set", "n", "refused", "assumed", "mean", "median", "bias", "worst", "constant", "in range", "repeats"}, "worst record");
  for (const SetSummary& s : v.sets) out += time_row(s);
  for (const SetSummary& s : v.pools) out += time_row(s);
  const OverSets& o = v.over_sets;
  out += row({"mean of " + std::to_string(o.sets) + " sets", "", "", "", percent(o.mape), percent(o.median_ape), percent(o.bias),
              "", percent(o.baseline_mape), percent(o.coverage)});
  if (o.coverage_of_records) out += "measured inside its range: " + percent(o.coverage_of_records) + " % of these sets' records\n";
  if (v.grade_c.n > 0)
    out += row({"grade C", std::to_string(v.grade_c.n), "", "", percent(v.grade_c.mape), percent(v.grade_c.median_ape),
                percent(v.grade_c.bias), percent(v.grade_c.worst)});
  return out + beside_constant(v) + elsewhere(v) + (any_excluded(v) ? "* excluded: not in the mean\n" : "");
}

std::string rankings(const Summary& v) {
  std::string out;
  for (const SetSummary& s : v.sets)
    if (const Ranking& r = s.ranking; r.groups > 0)
      out +=
          row({s.name, std::to_string(r.groups), std::to_string(r.plans), number_text(*r.kendall_tau, 2), percent(r.mean_regret)});
  return out.empty() ? out : "\norder of layouts of one task\n" + row({"set", "tasks", "plans", "tau", "regret %"}) + out;
}

std::string memory_row(const std::string& name, const ErrorSummary& m, const FitsTable& f) {
  return row({name, std::to_string(m.n), percent(m.mape), percent(m.median_ape), percent(m.bias), percent(m.worst),
              std::to_string(f.ran_fits), std::to_string(f.ran_too_large), std::to_string(f.failed_fits),
              std::to_string(f.failed_too_large)},
             m.worst_id);
}

/// Sets with measured memory, or with a memory outcome that was wrong or out of memory.
bool tells_of_memory(const SetSummary& s) {
  return s.memory.n > 0 || s.fits.ran_too_large + s.fits.failed_fits + s.fits.failed_too_large > 0;
}

std::string memory(const Summary& v) {
  std::string out = "\npeak memory, errors in %; how runs ended and whether they were predicted to fit\n";
  out += row({"set", "n", "mean", "median", "bias", "worst", "ran fits", "ran over", "oom fits", "oom over"}, "worst record");
  for (const SetSummary& s : v.sets)
    if (tells_of_memory(s)) out += memory_row(s.name, s.memory, s.fits);
  out += row({"all", "", "", "", "", "", std::to_string(v.fits.ran_fits), std::to_string(v.fits.ran_too_large),
              std::to_string(v.fits.failed_fits), std::to_string(v.fits.failed_too_large)});
  return out;
}

/// Reasons of refusal, each with its first record and its number of records.
std::string refusals(const std::vector<JudgedRecord>& records) {
  std::vector<std::pair<std::string, std::pair<std::string, int>>> reasons;
  for (const JudgedRecord& r : records) {
    if (r.refused.empty()) continue;
    const std::size_t behind_id = r.refused.starts_with(r.measured.id + ": ") ? r.measured.id.size() + 2 : 0;
    const std::string reason = r.refused.substr(behind_id);
    const auto at = std::find_if(reasons.begin(), reasons.end(), [&](const auto& known) { return known.first == reason; });
    if (at == reasons.end()) reasons.push_back({reason, {r.measured.id, 1}});
    else ++at->second.second;
  }
  std::string out = reasons.empty() ? "" : "\nrefused\n";
  for (const auto& [reason, who] : reasons)
    out += shortened("  " + std::to_string(who.second) + " like " + who.first + ": " + reason, kWidth) + "\n";
  return out;
}

std::string first_of(const std::vector<std::string>& ids) {
  return ids.front() + (ids.size() > 1 ? " and " + std::to_string(ids.size() - 1) + " more" : "");
}

/// Records that may not say what their author meant.
std::string doubtful(const std::vector<JudgedRecord>& records) {
  std::vector<std::string> silent, twice;
  std::set<std::pair<std::string, std::string>> seen;
  for (const JudgedRecord& r : records) {
    if (!r.measured.tells()) silent.push_back(r.measured.id);
    if (!seen.insert({r.measured.set, r.measured.id}).second) twice.push_back(r.measured.id);
  }
  std::string out;
  if (!silent.empty()) out += "\nno step_time_s, peak_memory_bytes or out_of_memory measured: " + first_of(silent) + "\n";
  if (!twice.empty()) out += "\nid given before in the same file: " + first_of(twice) + "\n";
  return out;
}

std::string sources(const Summary& v) {
  std::string out;
  for (const std::string& table : v.measured_tables) out += "\n" + table + "\n";
  if (v.unverified.empty()) return out;
  return out + "\n" + std::to_string(v.unverified.size()) + " facts in use are not verified in a source (--json lists them)\n";
}

std::string left_out_row(const LeftOutSource& s) {
  const SetSummary& out = s.left_out;
  return row({marked(out), std::to_string(out.time.n), std::to_string(out.refused), percent(out.time.mape), percent(s.mape_with),
              percent(out.time.bias), percent(out.time.worst), percent(out.coverage)},
             out.time.worst_id);
}

/// Other sets that were left out with the source, and numbers that still rest on it.
std::string left_out_notes(const LeftOutSource& s) {
  std::string out;
  if (!s.together.empty()) out += s.left_out.name + ": left out together with " + list_text(s.together) + "\n";
  if (!s.still_in.empty()) out += s.left_out.name + ": could not be left out: " + list_text(s.still_in) + "\n";
  return out;
}

std::string left_outs(const LeftOutSummary* v) {
  if (v == nullptr) return "";
  std::string out = "\nstep time without defaults, constants and errors of the source, errors in %\n";
  out += row({"source", "n", "refused", "mean", "with it", "bias", "worst", "in range"}, "worst record");
  for (const LeftOutSource& s : v->sources) out += left_out_row(s);
  const OverSets& o = v->over_sources;
  out += row({"mean of " + std::to_string(o.sets), "", "", percent(o.mape), percent(v->mape_with), percent(o.bias), "",
              percent(o.coverage)});
  if (v->half_covered) out += "at least half of the records in range: " + percent(v->half_covered) + " % of sources\n";
  if (o.coverage_of_records) out += "measured inside its range: " + percent(o.coverage_of_records) + " % of these sources' records\n";
  for (const LeftOutSource& s : v->sources) out += left_out_notes(s);
  return out;
}

}  // namespace

std::string to_text(const Summary& summary, const std::vector<JudgedRecord>& records, const LeftOutSummary* left_out) {
  return times(summary) + left_outs(left_out) + rankings(summary) + memory(summary) + refusals(records) + doubtful(records) +
         sources(summary) +
         "\nassumed: records with fields their source does not state. constant: one achieved rate for each device and type,\n"
         "fitted without the record. in range: measured inside the 80 % range, which no record of the set was used for.\n"
         "repeats: slowest over fastest of equal plans. oom: the run ended for lack of memory; over: predicted not to fit.\n"
         "Errors are (predicted - measured) / measured, grades A and B.\n";
}

}  // namespace tandem::program
