#include <sstream>

#include "reports/prediction/csv.hpp"
#include "reports/trace/trace_comparison.hpp"
#include "reports/trace/trace_words.hpp"

namespace tandem {

namespace {

std::string number(double value) {
  std::ostringstream out;
  out.precision(9);
  out << value;
  return out.str();
}

std::string known(std::int64_t value) { return value > 0 ? std::to_string(value) : ""; }

/// What a row is about; empty cells do not apply.
struct RowLabels {
  std::string table, cls, phase, name, group, ranks, bytes;
};

class Rows {
 public:
  explicit Rows(const TraceComparison& c) : step_(c.measured.step_s) {
    const std::string first = words(c).first, second = words(c).second;
    out_ = "table,class,phase,name,group,ranks,bytes," + first + "_calls," + second + "_calls," + first + "_s," + second + "_s,difference_s,share_of_step\r\n";
  }

  void add(const RowLabels& labels, const WorkSum& first, const WorkSum& second, bool counted = true) {
    for (const std::string& text : {labels.table, labels.cls, labels.phase, labels.name, labels.group, labels.ranks, labels.bytes})
      out_ += csv_cell(text) + ",";
    out_ += (counted ? number(first.count) + "," + number(second.count) : std::string(",")) + ",";
    const double difference = first.seconds - second.seconds;
    out_ += number(first.seconds) + "," + number(second.seconds) + "," + number(difference) + "," + number(difference / step_) + "\r\n";
  }

  void add_time(const std::string& table, const std::string& name, double first, double second) {
    add({table, "", "", name, "", "", ""}, {0, first}, {0, second}, false);
  }

  const std::string& text() const { return out_; }

 private:
  std::string out_;
  double step_;
};

}  // namespace

std::string to_csv(const TraceComparison& c) {
  Rows rows(c);
  rows.add_time("step", "step", first_step_s(c), c.measured_step_s);
  rows.add_time("device", "computing", c.simulated.computing_s, c.measured.computing_s);
  rows.add_time("device", "communicating", c.simulated.communicating_s, c.measured.communicating_s);
  rows.add_time("device", "exposed_communication", c.simulated.exposed_s, c.measured.exposed_s);
  rows.add_time("device", "idle", c.simulated.idle_s, c.measured.idle_s);
  for (const ClassLine& l : c.classes) rows.add({"classes", l.cls, "", "", "", "", ""}, l.simulated, l.measured);
  for (const ClassLine& l : c.phases) rows.add({"phases", "", l.cls, "", "", "", ""}, l.simulated, l.measured);
  for (const CollectiveLine& l : c.collectives)
    rows.add({"collectives", "", "", l.key.kind, l.key.group, known(l.key.group_size), known(l.key.bytes)}, l.simulated, l.measured);
  for (const KernelLine& l : c.kernels) rows.add({"kernels", l.key.cls, l.key.phase, l.key.name, "", "", ""}, l.newer, l.baseline);
  return rows.text();
}

}  // namespace tandem
