#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "experiments/tandem/base/interrupt.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "experiments/tandem/study/summary.hpp"
#include "experiments/tandem/study/sweep.hpp"
#include "models/base/json.hpp"
#include "models/base/output.hpp"
#include "models/base/threads.hpp"

namespace tandem::program {

namespace {

struct Options {
  std::string study, out;
  int jobs = all_cores();
  bool json = false, fresh = false;
};

std::vector<study::Candidate> candidates(const study::Study& s) {
  const std::string program = study::program_digest();
  std::vector<study::Candidate> out;
  for (std::size_t i = 0; i < s.points.size(); ++i) out.push_back(study::candidate(s, i, program));
  return out;
}

study::Tally tally_of(const std::vector<std::string>& lines, std::size_t points) {
  study::Tally tally;
  tally.points = points;
  tally.missing = points - lines.size();
  for (const std::string& line : lines) ++tally.by_status[nlohmann::json::parse(line)["status"].get<std::string>()];
  return tally;
}

void tell_unsound(const std::string& folder, std::size_t rows) {
  if (rows > 0)
    log(folder + "/results.jsonl: " + std::to_string(rows) +
        (rows == 1 ? " row has no checksum that matches" : " rows have no checksum that matches") +
        " (damaged, changed, or of an earlier version): computed again");
}

ExitCode sweep_study(const Options& o) {
  const study::Study s = study::load_study(o.study);
  const std::string folder = o.out.empty() ? "out/" + s.name : o.out;
  const std::vector<study::Candidate> plans = candidates(s);
  const InterruptWatch watch;
  for (const char* file : {"/results.jsonl", "/results.csv", "/study.json"}) require_no_input(folder + file);
  study::Results results(folder, s, plans, o.fresh);
  tell_unsound(folder, results.unsound());
  std::size_t computed = 0;
  {
    Progress bar(static_cast<std::int64_t>(plans.size() - std::min(plans.size(), results.kept())));
    study::sweep(s, plans, results, {interruptible(o.jobs), [&](std::size_t done) {
                                       computed = done;
                                       bar.done(static_cast<std::int64_t>(done));
                                     }});
  }
  const std::vector<std::string> lines = results.finish(s, plans);
  study::Tally tally = tally_of(lines, plans.size());
  tally.computed = computed;
  tally.kept = results.kept();
  o.json ? print_json(summary_json(s, lines, tally)) : print(summary_text(s, lines, tally));
  log("tandem: results in " + folder);
  if (tally.missing > 0) throw Interrupted{};
  if (tally.by_status.count("failed")) return ExitCode::internal;
  const std::string nothing = study::nothing_found(s, lines);
  if (!nothing.empty()) print_error(o.study + ": " + nothing);
  return nothing.empty() ? ExitCode::ok : ExitCode::nothing;
}

}  // namespace

void add_sweep(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("sweep", "Predict a plan with fields that vary, and say which is best");
  command->add_option("STUDY", o->study, "study file (JSON): a base plan and the values that its fields take; an interrupted sweep continues")
      ->required();
  command->add_option("--out", o->out, "folder for results.jsonl, results.csv and study.json [out/NAME]")->type_name("DIR");
  command->add_option("--jobs", o->jobs, "plans at a time [processors]")->check(CLI::Range(1, 1024));
  command->add_flag("--fresh", o->fresh, "compute everything again");
  command->add_flag("--json", o->json, "one JSON object on stdout");
  command->callback([o, &exit] { exit = sweep_study(*o); });
}

}  // namespace tandem::program
