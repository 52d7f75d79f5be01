#include "experiments/tandem/validation/summary.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/tandem/validation/statistics.hpp"
#include "models/base/error.hpp"
#include "models/base/text.hpp"

namespace tandem::program {

namespace {

bool listed(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

/// Errors with the ids of their records.
class Errors {
 public:
  void add(double error, const std::string& id) { errors_.push_back(error), ids_.push_back(id); }

  ErrorSummary summary() const {
    ErrorSummary out;
    out.n = static_cast<int>(errors_.size());
    if (errors_.empty()) return out;
    std::vector<double> sizes;
    for (double e : errors_) sizes.push_back(std::abs(e));
    const auto worst = static_cast<std::size_t>(std::max_element(sizes.begin(), sizes.end()) - sizes.begin());
    out.mape = mean(sizes);
    out.median_ape = median(sizes);
    out.bias = mean(errors_);
    out.worst = errors_[worst];
    out.worst_id = ids_[worst];
    return out;
  }

 private:
  std::vector<double> errors_;
  std::vector<std::string> ids_;
};

/// Time errors of the timed records that `counts` selects.
template <class Counts>
ErrorSummary time_errors_where(const RecordList& records, Counts counts) {
  Errors errors;
  for (const JudgedRecord* r : records)
    if (r->timed() && counts(*r)) errors.add(r->time_error(), r->measured.id);
  return errors.summary();
}

ErrorSummary time_errors(const RecordList& records) {
  return time_errors_where(records, [](const JudgedRecord&) { return true; });
}

/// Clusters that replace the records' own, each once, in order of first appearance.
std::string clusters(const RecordList& records) {
  std::vector<std::string> out;
  for (const JudgedRecord* r : records)
    if (const std::string& has = r->measured.cluster; !has.empty() && !listed(out, has)) out.push_back(has);
  return list_text(out);
}

ErrorSummary memory_errors(const RecordList& records) {
  Errors errors;
  for (const JudgedRecord* r : records)
    if (r->weighed()) errors.add(r->memory_error(), r->measured.id);
  return errors.summary();
}

std::optional<double> baseline_mape(const RecordList& records) {
  std::vector<double> errors;
  for (const JudgedRecord* r : records)
    if (r->baseline_s) errors.push_back(std::abs(*r->baseline_s / *r->measured.step_time_s - 1));
  return errors.empty() ? std::nullopt : std::optional(mean(errors));
}

std::optional<double> coverage(const RecordList& records) {
  std::vector<double> inside;
  for (const JudgedRecord* r : records)
    if (r->timed() && r->low_s)
      inside.push_back(*r->measured.step_time_s >= *r->low_s && *r->measured.step_time_s <= *r->high_s ? 1 : 0);
  return inside.empty() ? std::nullopt : std::optional(mean(inside));
}

FitsTable fits(const RecordList& records) {
  FitsTable out;
  for (const JudgedRecord* r : records) {
    if (!r->refused.empty()) continue;
    if (r->measured.out_of_memory) ++(r->fits ? out.failed_fits : out.failed_too_large);
    else ++(r->fits ? out.ran_fits : out.ran_too_large);
  }
  return out;
}

SetSummary summary(const std::string& name, const RecordList& records) {
  SetSummary out;
  out.name = name;
  for (const JudgedRecord* r : records) {
    out.refused += !r->refused.empty();
    if (!r->refused.empty() && r->measured.step_time_s) out.unjudged.push_back(r->refused);
    out.assumed += r->refused.empty() && !r->measured.assumed.empty();
  }
  out.cluster = clusters(records);
  out.time = time_errors(records);
  out.baseline_mape = baseline_mape(records);
  out.beside_baseline = time_errors_where(records, [](const JudgedRecord& r) { return r.baseline_s.has_value(); });
  out.coverage = coverage(records);
  out.ranking = ranking(layout_groups(records));
  out.noise = noise(records);
  out.memory = memory_errors(records);
  out.fits = fits(records);
  return out;
}

using NamedLists = std::vector<std::pair<std::string, RecordList>>;

RecordList& list_of(NamedLists& sets, const std::string& name) {
  const auto at = std::find_if(sets.begin(), sets.end(), [&](const auto& s) { return s.first == name; });
  if (at != sets.end()) return at->second;
  return sets.emplace_back(name, RecordList{}).second;
}

template <class Field>
std::optional<double> mean_over(const std::vector<SetSummary>& sets, Field field) {
  std::vector<double> values;
  for (const SetSummary& s : sets)
    if (const std::optional<double> v = field(s); !s.excluded && s.time.n > 0 && v) values.push_back(*v);
  return values.empty() ? std::nullopt : std::optional(mean(values));
}

OverSets over_sets(const std::vector<SetSummary>& sets) {
  OverSets out;
  for (const SetSummary& s : sets) out.sets += !s.excluded && s.time.n > 0;
  out.mape = mean_over(sets, [](const SetSummary& s) { return s.time.mape; });
  out.median_ape = mean_over(sets, [](const SetSummary& s) { return s.time.median_ape; });
  out.bias = mean_over(sets, [](const SetSummary& s) { return s.time.bias; });
  out.baseline_mape = mean_over(sets, [](const SetSummary& s) { return s.baseline_mape; });
  out.coverage = mean_over(sets, [](const SetSummary& s) { return s.coverage; });
  return out;
}

/// All records of grades A and B whose sets are not excluded.
RecordList not_excluded(const NamedLists& sets, const std::vector<std::string>& excluded) {
  RecordList out;
  for (const auto& [name, records] : sets)
    if (!listed(excluded, name)) out.insert(out.end(), records.begin(), records.end());
  return out;
}

void require_known(const std::string& option, const std::vector<std::string>& wanted, const std::vector<std::string>& sets) {
  for (const std::string& set : wanted)
    if (!listed(sets, set))
      throw ConfigError(Problem{"", option, set, "there are no records of this set", "given are " + list_text(sets)});
}

/// The summary of several sets' records as one set.
SetSummary pool(const std::vector<std::string>& names, const NamedLists& sets) {
  std::string joined;
  RecordList records;
  for (const auto& [name, members] : sets) {
    if (!listed(names, name)) continue;
    joined += (joined.empty() ? "" : "+") + name;
    records.insert(records.end(), members.begin(), members.end());
  }
  SetSummary out = summary(joined, records);
  out.excluded = true;
  return out;
}

}  // namespace

void FitsTable::add(const FitsTable& other) {
  ran_fits += other.ran_fits;
  ran_too_large += other.ran_too_large;
  failed_fits += other.failed_fits;
  failed_too_large += other.failed_too_large;
}

void require_known_sets(const SummaryOptions& options, const std::vector<Measurement>& measurements) {
  std::vector<std::string> sets;
  for (const Measurement& m : measurements)
    if (!listed(sets, m.set)) sets.push_back(m.set);
  require_known("--exclude", options.excluded, sets);
  for (const auto& names : options.pools) require_known("--pool", names, sets);
}

std::vector<const SetSummary*> outside(const Summary& summary) {
  std::vector<const SetSummary*> out;
  if (!summary.tolerance) return out;
  const auto judged = [](const SetSummary& s) { return !s.excluded && s.time.mape; };
  if (std::ranges::none_of(summary.sets, judged))
    throw ConfigError(Problem{"", "--tolerance", "", "no set has a predicted and measured step time of grades A and B to judge", "give others, or leave it out"});
  for (const SetSummary& s : summary.sets)
    if ((judged(s) && *s.time.mape > *summary.tolerance) || (!s.excluded && !s.unjudged.empty())) out.push_back(&s);
  return out;
}

Summary summarise(const std::vector<JudgedRecord>& records, const SummaryOptions& options) {
  NamedLists sets;
  RecordList grade_c;
  std::set<std::string> unverified, tables;
  for (const JudgedRecord& r : records) {
    RecordList& set = list_of(sets, r.measured.set);
    (r.counts() ? set : grade_c).push_back(&r);
    unverified.insert(r.unverified.begin(), r.unverified.end());
    tables.insert(r.measured_tables.begin(), r.measured_tables.end());
  }
  Summary out;
  for (const auto& [name, members] : sets) {
    out.sets.push_back(summary(name, members));
    out.sets.back().excluded = listed(options.excluded, name);
    out.fits.add(out.sets.back().fits);
  }
  out.over_sets = over_sets(out.sets);
  for (const auto& names : options.pools)
    if (SetSummary together = pool(names, sets); !together.name.empty()) out.pools.push_back(std::move(together));
  out.over_sets.coverage_of_records = coverage(not_excluded(sets, options.excluded));
  out.grade_c = time_errors(grade_c);
  out.unverified.assign(unverified.begin(), unverified.end());
  out.measured_tables.assign(tables.begin(), tables.end());
  out.records_given = records.size();
  return out;
}

}  // namespace tandem::program
