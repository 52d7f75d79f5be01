#include <nlohmann/json.hpp>
#include <sstream>

#include "experiments/tandem/calibration/fit.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {

namespace {

using nlohmann::ordered_json;

std::string short_text(double v) {
  std::ostringstream out;
  out.precision(4);
  out << v;
  return out.str();
}

std::string percent(const std::optional<double>& v) { return v ? number_text(100 * *v, 1) : "-"; }

std::string constant_row(const ConstantFit& c) {
  const std::string spread = c.least < c.most ? short_text(c.least) + " to " + short_text(c.most) : "-";
  return "  " + padded(c.before.key, 30) + aligned(short_text(c.before.value), 10) + aligned(short_text(c.fitted), 10) +
         aligned(short_text(c.before.low) + " to " + short_text(c.before.high), 22) + aligned(spread, 24) +
         aligned(percent(c.sensitivity), 8) + "  " + padded(c.most_sensitive, 18) + (c.at_border ? "AT ITS BORDER: a missing term?" : "") + "\n";
}

std::string source_row(const std::string& name, const std::string& n, double before, double after,
                       const std::optional<double>& left_out) {
  return "  " + padded(name, 30) + aligned(n, 10) + aligned(percent(before), 10) + aligned(percent(after), 10) +
         aligned(percent(left_out), 10) + "\n";
}

}  // namespace

std::string to_text(const Fit& fit) {
  std::string out = padded("  constant", 32) + aligned("before", 10) + aligned("fitted", 10) + aligned("plausible", 22) +
                    aligned("a source left out", 24) + aligned("sens. %", 8) + "  most sensitive\n";
  for (const ConstantFit& c : fit.constants) out += constant_row(c);
  out += "\n" + padded("  source, mean |log error| in %", 32) + aligned("records", 10) + aligned("before", 10) +
         aligned("fitted", 10) + aligned("left out", 10) + "\n";
  for (const SourceFit& s : fit.sources) out += source_row(s.set, std::to_string(s.records), s.before, s.after, s.left_out);
  out += source_row("mean of sources", "", fit.before, fit.after, fit.left_out);
  if (fit.refused > 0) out += std::to_string(fit.refused) + " records, of any device, cannot be simulated and were not used\n";
  const std::string looked =
      fit.per_source > 0 ? ", on up to " + std::to_string(fit.per_source) + " records of a source" : ", on all records";
  if (fit.stopped) out += "interrupted: errors cover only the records that the search used; before: at its start\n";
  if (fit.records < moved(fit))
    out += std::to_string(fit.records) + (fit.records == 1 ? " record moved " : " records moved ") + std::to_string(moved(fit)) +
           " constants: fewer records than constants do not determine them. Give more records, or take \"fit\" from constants to keep\n";
  if (fit.kept) out += "no better constants were found: the old ones stay\n";
  return out + std::to_string(fit.evaluations) + " sets of constants tried" + looked +
         ". sens.: change of step times when the constant moves an eighth of its range.\n";
}

std::string to_json(const Fit& fit) {
  const auto value = [](const std::optional<double>& v) { return v ? ordered_json(*v) : ordered_json(nullptr); };
  ordered_json constants = ordered_json::array(), sources = ordered_json::array();
  for (const ConstantFit& c : fit.constants)
    constants.push_back({{"key", c.before.key}, {"before", c.before.value}, {"fitted", c.fitted}, {"low", c.before.low},
                         {"high", c.before.high}, {"left_out_least", c.least}, {"left_out_most", c.most},
                         {"at_border", c.at_border}, {"most_sensitive_source", c.most_sensitive}, {"sensitivity", c.sensitivity}});
  for (const SourceFit& s : fit.sources)
    sources.push_back({{"name", s.set}, {"records", s.records}, {"before", s.before}, {"fitted", s.after}, {"left_out", value(s.left_out)}});
  const ordered_json out = {{"schema_version", 1}, {"constants", constants}, {"sources", sources},
                            {"records", fit.records}, {"refused", fit.refused}, {"evaluations", fit.evaluations},
                            {"per_source", fit.per_source}, {"moved", moved(fit)}, {"kept", fit.kept}, {"interrupted", fit.stopped},
                            {"mean_before", fit.before}, {"mean_fitted", fit.after}, {"mean_left_out", value(fit.left_out)}};
  return out.dump(2) + "\n";
}

}  // namespace tandem::program
