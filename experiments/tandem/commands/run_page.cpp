#include "experiments/tandem/commands/run_page.hpp"

#include "experiments/tandem/base/prepared_plan.hpp"
#include "reports/page/html_page.hpp"
#include "reports/page/run_report.hpp"
#include "reports/prediction/plan_title.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::program {

namespace {

/// A timeline file with its plan, lowered as when the file was written.
struct Lowered {
  Lowered(const std::string& path, const SavedTimeline& read)
      : file(path), timeline(read), plan(parse_plan(timeline.plan_json, path)),
        graph(naming(path, [&] { return require_lowerable(plan), lower(plan); })) {}
  RunSide side() const { return {file, timeline, plan, graph}; }

  const std::string& file;
  const SavedTimeline& timeline;
  Plan plan;
  TaskGraph graph;
};

}  // namespace

bool is_timeline(InputFile& file) {
  constexpr std::size_t kFirstKeys = 256;
  return file.head(kFirstKeys).find("\"tandem timeline\"") != std::string_view::npos;
}

std::string run_page(const std::string& path, InputFile& file) {
  const SavedTimeline timeline = read_timeline(file, path);
  const Lowered run(path, timeline);
  return html_page("run", title(run.plan) + " – Tandem", run_report_json(run.side()));
}

std::string comparison_page(const std::string& first, const SavedTimeline& newer, const std::string& second,
                            const SavedTimeline& older, const Comparison& comparison) {
  const Lowered a(first, newer), b(second, older);
  return html_page("run", title(b.plan) + ", compared – Tandem", comparison_report_json(a.side(), b.side(), comparison));
}

}  // namespace tandem::program
