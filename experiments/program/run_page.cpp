#include "experiments/program/run_page.hpp"

#include <fstream>

#include "experiments/program/rehearsal.hpp"
#include "reports/html_page.hpp"
#include "reports/plan_title.hpp"
#include "reports/run_report.hpp"

namespace tandem::program {

namespace {

/// A timeline file with its plan, lowered as it was when the file was written.
struct Loaded {
  explicit Loaded(const std::string& path)
      : file(path), timeline(read_timeline(path)), plan(parse_plan(timeline.plan_json, path)),
        graph(naming(path, [&] { return require_lowerable(plan), lower(plan); })) {}
  RunSide side() const { return {file, timeline, plan, graph}; }

  std::string file;
  SavedTimeline timeline;
  Plan plan;
  TaskGraph graph;
};

}  // namespace

bool is_timeline(const std::string& path) {
  std::string head(256, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  return head.find("\"tandem timeline\"") != head.npos;
}

std::string run_page(const std::string& path) {
  const Loaded run(path);
  return html_page("run", title(run.plan) + " – Tandem", run_report_json(run.side()));
}

std::string comparison_page(const std::string& first, const std::string& second) {
  const Loaded a(first), b(second);
  return html_page("run", title(b.plan) + ", compared – Tandem", comparison_report_json(a.side(), b.side(), compare(first, second)));
}

}  // namespace tandem::program
