#include <nlohmann/json.hpp>

#include "experiments/tandem/validation/report.hpp"

namespace tandem::program {

namespace {

using nlohmann::ordered_json;

ordered_json value(const std::optional<double>& v) { return v ? ordered_json(*v) : ordered_json(nullptr); }

ordered_json errors_json(const ErrorSummary& e) {
  return {{"n", e.n},
          {"mape", value(e.mape)},
          {"median_ape", value(e.median_ape)},
          {"bias", value(e.bias)},
          {"worst", value(e.worst)},
          {"worst_id", e.worst_id}};
}

ordered_json fits_json(const FitsTable& f) {
  return {{"ran_predicted_to_fit", f.ran_fits},
          {"ran_predicted_too_large", f.ran_too_large},
          {"out_of_memory_predicted_to_fit", f.failed_fits},
          {"out_of_memory_predicted_too_large", f.failed_too_large}};
}

ordered_json noise_json(const Noise& n) {
  return {{"plans", n.plans}, {"records", n.records}, {"mean_spread", value(n.mean_spread)}, {"most_spread", value(n.most_spread)}};
}

ordered_json set_json(const SetSummary& s) {
  ordered_json out = {{"name", s.name}};
  out.update(errors_json(s.time));
  out.update({{"refused", s.refused},
              {"assumed", s.assumed},
              {"excluded", s.excluded},
              {"cluster", s.cluster.empty() ? ordered_json(nullptr) : ordered_json(s.cluster)},
              {"baseline_mape", value(s.baseline_mape)},
              {"mape_beside_baseline", value(s.beside_baseline.mape)},
              {"range_coverage", value(s.coverage)},
              {"kendall_tau", value(s.ranking.kendall_tau)},
              {"mean_regret", value(s.ranking.mean_regret)},
              {"layout_groups", s.ranking.groups},
              {"layout_plans", s.ranking.plans},
              {"memory_mape", value(s.memory.mape)},
              {"memory", errors_json(s.memory)},
              {"noise", noise_json(s.noise)},
              {"memory_outcomes", fits_json(s.fits)}});
  return out;
}

ordered_json over_sets_json(const OverSets& o) {
  return {{"sets", o.sets},
          {"mape", value(o.mape)},
          {"median_ape", value(o.median_ape)},
          {"bias", value(o.bias)},
          {"baseline_mape", value(o.baseline_mape)},
          {"range_coverage", value(o.coverage)},
          {"range_coverage_of_records", value(o.coverage_of_records)}};
}

ordered_json record_json(const JudgedRecord& r) {
  const bool refused = !r.refused.empty();
  ordered_json out = {{"id", r.measured.id},
                      {"set", r.measured.set},
                      {"grade", r.measured.grade},
                      {"predicted_step_time_s", value(r.step_time_s)},
                      {"measured_step_time_s", value(r.measured.step_time_s)},
                      {"error", r.timed() ? ordered_json(r.time_error()) : ordered_json(nullptr)},
                      {"cluster", r.measured.cluster.empty() ? ordered_json(nullptr) : ordered_json(r.measured.cluster)},
                      {"low_s", value(r.low_s)},
                      {"high_s", value(r.high_s)},
                      {"wider", r.wider},
                      {"baseline_s", value(r.baseline_s)},
                      {"predicted_peak_memory_bytes", value(r.peak_memory_bytes)},
                      {"measured_peak_memory_bytes", value(r.measured.peak_memory_bytes)},
                      {"memory_error", r.weighed() ? ordered_json(r.memory_error()) : ordered_json(nullptr)},
                      {"fits", refused ? ordered_json(nullptr) : ordered_json(r.fits)},
                      {"out_of_memory", r.measured.out_of_memory},
                      {"refused", refused},
                      {"plan", r.plan.summary},
                      {"assumed", r.measured.assumed}};
  if (refused) out["reason"] = r.refused;
  return out;
}

ordered_json left_out_json(const LeftOutSource& s) {
  ordered_json out = {{"name", s.left_out.name}};
  out.update(errors_json(s.left_out.time));
  out.update({{"mape_with", value(s.mape_with)},
              {"range_coverage", value(s.left_out.coverage)},
              {"refused", s.left_out.refused},
              {"excluded", s.left_out.excluded},
              {"together_with", s.together},
              {"could_not_be_left_out", s.still_in}});
  return out;
}

ordered_json left_out_json(const LeftOutSummary& v) {
  ordered_json out = {{"sources", ordered_json::array()}};
  for (const LeftOutSource& s : v.sources) out["sources"].push_back(left_out_json(s));
  const OverSets& o = v.over_sources;
  out["over_sources"] = {{"sources", o.sets},
                         {"mape", value(o.mape)},
                         {"mape_with", value(v.mape_with)},
                         {"bias", value(o.bias)},
                         {"range_coverage", value(o.coverage)},
                         {"range_coverage_of_records", value(o.coverage_of_records)},
                         {"half_covered", value(v.half_covered)}};
  out["records"] = ordered_json::array();
  for (const JudgedRecord& r : v.records)
    out["records"].push_back({{"id", r.measured.id}, {"set", r.measured.set}, {"predicted_step_time_s", value(r.step_time_s)},
                              {"error", r.timed() ? ordered_json(r.time_error()) : ordered_json(nullptr)},
                              {"low_s", value(r.low_s)}, {"high_s", value(r.high_s)}, {"wider", r.wider}});
  return out;
}

}  // namespace

std::string to_json(const Summary& summary, const std::vector<JudgedRecord>& records, const LeftOutSummary* left_out) {
  ordered_json out = {{"schema_version", 1}, {"sets", ordered_json::array()}};
  for (const SetSummary& s : summary.sets) out["sets"].push_back(set_json(s));
  out["pools"] = ordered_json::array();
  for (const SetSummary& s : summary.pools) out["pools"].push_back(set_json(s));
  out["over_sets"] = over_sets_json(summary.over_sets);
  out["grade_c"] = errors_json(summary.grade_c);
  out["memory_outcomes"] = fits_json(summary.fits);
  out["unverified"] = summary.unverified;
  out["measured_tables"] = summary.measured_tables;
  out["interrupted"] = summary.interrupted;
  out["records_given"] = summary.records_given;
  out["tolerance"] = value(summary.tolerance);
  out["outside"] = ordered_json::array();
  for (const SetSummary* s : outside(summary)) out["outside"].push_back(s->name);
  if (left_out != nullptr) out["left_out"] = left_out_json(*left_out);
  std::string text = out.dump(2);
  text.erase(text.size() - 2);  // removes the closing brace; the records go before it
  text += ",\n  \"records\": [";
  for (std::size_t i = 0; i < records.size(); ++i) text += (i ? ",\n    " : "\n    ") + record_json(records[i]).dump();
  return text + (records.empty() ? "]\n}\n" : "\n  ]\n}\n");
}

}  // namespace tandem::program
