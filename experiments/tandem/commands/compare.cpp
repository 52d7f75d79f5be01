#include "reports/compare/compare.hpp"

#include <CLI/CLI.hpp>
#include <optional>

#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/commands/arguments.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "experiments/tandem/commands/run_page.hpp"
#include "models/base/output.hpp"
#include "reports/compare/judgement.hpp"

namespace tandem::program {

namespace {

struct Options {
  std::string first, second, html;
  bool json = false;
  std::optional<double> tolerance, memory_tolerance;
};

ExitCode compare_files(const Options& o) {
  prepare_outputs({o.html}, {o.first, o.second});
  const SavedTimeline first = read_timeline(o.first), second = read_timeline(o.second);
  require_comparable(first, second, o.first, o.second);
  const Comparison c = compare(first, second);
  const Tolerances tolerances{o.tolerance, o.memory_tolerance};
  require_judgeable(c, tolerances, o.first, o.second);
  const Judgement judgement = judge(c, tolerances);
  if (!o.html.empty()) write_text(o.html, comparison_page(o.first, first, o.second, second, c));
  o.json ? print_json(to_json(c, judgement)) : print(to_text(c, judgement));
  const bool outside = judgement.verdict == Verdict::outside;
  for (const std::string& reason : reasons(c, judgement)) outside ? print_error(reason) : log("tandem: undecided: " + reason);
  return outside ? ExitCode::tolerance : ExitCode::ok;
}

}  // namespace

void add_compare(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("compare", "Compare a simulated timeline with an executed one, or two runs, task by task; layouts may differ");
  command->add_option("SIM", o->first, "timeline of `tandem simulate --timeline`, or the newer of two runs or simulations")->required();
  command->add_option("RUN", o->second, "timeline of `tandem train --timeline`, or the baseline")->required();
  command->add_flag("--json", o->json, "one JSON object on stdout");
  command->add_option("--html", o->html, "write a page: both timelines, where the time goes, memory, loss, every operation");
  command->add_option("--tolerance", o->tolerance, "largest error of the step time (0.15 or 15%); for two runs, largest slowdown of the median, given the spread of steps; beyond it exit 6")
      ->transform(share());
  command->add_option("--memory-tolerance", o->memory_tolerance, "the same for peak memory")->transform(share());
  command->callback([o, &exit] { exit = compare_files(*o); });
}

}  // namespace tandem::program
