#include "reports/compare/compare.hpp"

#include <CLI/CLI.hpp>
#include <cmath>
#include <optional>

#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/commands/arguments.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "experiments/tandem/commands/run_page.hpp"
#include "models/base/output.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {

namespace {

struct Options {
  std::string first, second, html;
  bool json = false;
  std::optional<double> tolerance, memory_tolerance;
};

/// Says what is outside; true when nothing is. Less than the baseline is never too much.
bool within(const std::string& what, double error, const std::optional<double>& tolerance, bool one_performer) {
  if (!tolerance || (one_performer ? error : std::abs(error)) <= *tolerance) return true;
  print_error((one_performer ? "change of " : "error of ") + what + " " + percent_text(error) + " is outside " +
              (one_performer ? "+" : "+-") + number_text(*tolerance * 100, 1) + " %");
  return false;
}

bool all_joined(const Comparison& c, const Options& o) {
  if (!o.tolerance && !o.memory_tolerance) return true;
  if (c.joined > 0 && c.only_simulated == 0 && c.only_executed == 0) return true;
  print_error(std::to_string(c.only_simulated) + " tasks of " + o.first + " and " + std::to_string(c.only_executed) + " of " + o.second +
              " have no counterpart");
  return false;
}

ExitCode compare_files(const Options& o) {
  prepare_outputs({o.html}, {o.first, o.second});
  const SavedTimeline first = read_timeline(o.first), second = read_timeline(o.second);
  require_comparable(first, second, o.first, o.second);
  const Comparison c = compare(first, second);
  if (!o.html.empty()) write_text(o.html, comparison_page(o.first, first, o.second, second, c));
  o.json ? print_json(to_json(c)) : print(to_text(c));
  const bool time = within("the step time", c.step.error, o.tolerance, of_one_performer(c));
  const bool memory = within("peak memory", c.memory_error, o.memory_tolerance, of_one_performer(c));
  return time && memory && all_joined(c, o) ? ExitCode::ok : ExitCode::tolerance;
}

}  // namespace

void add_compare(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("compare", "Lay a simulated timeline over an executed one, or one run over another, task by task");
  command->add_option("SIM", o->first, "timeline of `tandem simulate --timeline`; or of the newer of two runs or simulations")->required();
  command->add_option("RUN", o->second, "timeline of `tandem train --timeline`; or of the one that is the baseline")->required();
  command->add_flag("--json", o->json, "one JSON object on stdout");
  command->add_option("--html", o->html, "write a page: both timelines, where the time goes, memory, loss, every operation");
  command->add_option("--tolerance", o->tolerance, "largest step time error, 0.15 or 15%, or how much slower than the baseline; beyond it exit 6")
      ->transform(share());
  command->add_option("--memory-tolerance", o->memory_tolerance, "the same for peak memory")->transform(share());
  command->callback([o, &exit] { exit = compare_files(*o); });
}

}  // namespace tandem::program
