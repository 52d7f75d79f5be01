#include <cmath>
#include <sstream>
#include <utility>

#include "reports/compare/compare_words.hpp"
#include "reports/compare/judgement.hpp"
#include "reports/prediction/csv.hpp"

namespace tandem {

namespace {

/// A number; empty for an error relative to nothing.
std::string number(double value) {
  std::ostringstream out;
  out.precision(9);
  if (std::isfinite(value)) out << value;
  return out.str();
}

std::string row(const std::string& table, const CompareLine& l) {
  const std::string tasks = l.tasks > 0 ? std::to_string(l.tasks) : "";
  return csv_cell(table) + "," + csv_cell(l.what) + "," + tasks + "," + number(l.simulated.seconds()) + "," +
         number(l.executed.seconds()) + "," + number(l.error) + "," + number(l.share) + "\r\n";
}

}  // namespace

std::string to_csv(const Comparison& c) {
  const CompareWords w = words(c);
  std::string out = "table,what,tasks," + w.first + "_s," + w.second + "_s," + w.difference + ",share_of_step\r\n";
  out += row("step", c.step) + row("waiting", c.waiting);
  const std::pair<const char*, const std::vector<CompareLine>*> tables[] = {
      {"kinds", &c.kinds}, {"stages", &c.stages}, {"ranks", &c.ranks}, {"collectives", &c.collectives}, {"operations", &c.operations}};
  for (const auto& [table, lines] : tables)
    for (const CompareLine& line : *lines) out += row(table, line);
  return out;
}

}  // namespace tandem
