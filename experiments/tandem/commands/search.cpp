#include <CLI/CLI.hpp>

#include "experiments/tandem/base/interrupt.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/commands/arguments.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "experiments/tandem/search/kept.hpp"
#include "experiments/tandem/search/report.hpp"
#include "models/base/output.hpp"
#include "models/base/presets.hpp"
#include "models/base/threads.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {

namespace {

struct Options {
  search::Request request;
  search::SearchOptions search;
  search::Shard shard;
  std::string out, why, keep;
  std::vector<std::string> merge;
  int jobs = all_cores();
  bool json = false;
};

/// Finds out what the answer needs; what is known is kept when it ends, whole or interrupted.
void explore(search::Search& search, search::Keeper& keeper, const Options& o) {
  if (!o.merge.empty()) search::merge(o.merge, {&search});
  if (keeper.resume()) log("tandem: goes on from " + o.keep);
  try {
    search.explore();
  } catch (const Interrupted&) {
    keeper.write(false);
    log(o.keep.empty() ? "tandem: nothing is kept; --keep FILE would" : "tandem: " + o.keep + " keeps what is known; the same command goes on from it");
    throw;
  }
  keeper.write(true);
}

/// A shard has no answer: its file is what it makes.
ExitCode end_shard(const search::Search& search, const Options& o) {
  const search::Knowledge& known = search.knowledge();
  print("shard " + text_of(o.shard) + ": " + count_text(static_cast<std::int64_t>(known.found.size())) + " candidates estimated, " +
        count_text(static_cast<std::int64_t>(known.simulated.size())) + " simulated; " + o.keep + "\n");
  return ExitCode::ok;
}

ExitCode tell(const search::Search& search, const Options& o) {
  const search::Answer answer = search.answer();
  search::Changes changes;
  if (answer.best.empty()) {
    log("tandem: nothing fits; looking for changes with which something would");
    changes = search::find_changes(o.request, search.judge().space(), search.options());
  }
  o.json ? print_json(search::to_json(search, answer, changes)) : print(search::to_text(search, answer, changes));
  if (!o.why.empty()) o.json ? log(search::why_text(search, answer, o.why)) : print(search::why_text(search, answer, o.why));
  if (answer.best.empty()) {
    print_error(o.request.subject + (answer.complete ? ": nothing found: no candidate fits"
                                                     : ": nothing found: no simulated candidate fits; --events N simulates more"));
    return ExitCode::nothing;
  }
  if (!o.out.empty()) write_text(o.out, search.judge().space().document(answer.best.front().id));
  return ExitCode::ok;
}

ExitCode search_plans(const Options& o) {
  std::vector<std::string> inputs = o.merge;
  if (is_preset_path(o.request.subject)) inputs.push_back(o.request.subject);
  prepare_outputs({o.out, o.keep}, inputs);
  const search::Space space(search::read_question(o.request));
  const InterruptWatch watch;
  search::SearchOptions options = o.search;
  options.jobs = interruptible(o.jobs);
  options.shard = o.shard.index, options.shards = o.shard.of;
  search::Keeper* keeping = nullptr;
  options.learned = [&keeping] { keeping->learned(); };
  search::Search search(space, options);
  search::Keeper keeper(o.keep, o.shard, {&search});
  keeping = &keeper;
  explore(search, keeper, o);
  return o.shard.of > 1 ? end_shard(search, o) : tell(search, o);
}

/// Searches that are spread over processes or time.
void add_parts(CLI::App& c, Options& o) {
  CLI::Option* keep = c.add_option("--keep", o.keep, "keep what the search finds out in this file, and go on from it where it is there");
  CLI::Option* shard =
      c.add_option_function<std::string>("--shard", [&o](const std::string& text) { o.shard = search::read_shard(text); },
                                         "search one of N parts, I from 0 to N - 1, into the file of --keep")
          ->type_name("I/N")->needs(keep);
  c.add_option("--merge", o.merge, "put these files of all shards together; the same answer as of one process")
      ->type_name("FILE ...")->excludes(shard);
  for (const char* name : {"--json", "--why", "--export"}) shard->excludes(c.get_option(name));
}

}  // namespace

void add_search(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("search", "Find the fastest layouts of a model on a cluster");
  command->add_option("MODEL|PLAN", o->request.subject,
                      "model preset, Hugging Face config.json, or plan file, whose fields that say \"auto\" are searched")->required();
  command->add_option("--cluster", o->request.cluster, "cluster preset, or the file of one [the plan's]");
  command->add_option("--devices", o->request.devices, "devices [the plan's]")->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 22));
  command->add_option("--seq-length", o->request.sequence, "tokens of a sequence [the plan's, else at most 4096]")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 27));
  command->add_option("--global-batch", o->request.batch, "sequences of a step [the plan's, else some 4 M tokens]")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31));
  command->add_option("--axis", o->request.axes, "values of a field, \"tensor=1,2,4\"; may be given again, once for a field")
      ->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->type_name("NAME=VALUE,...");
  add_stack_option(*command, o->request.stack);
  command->add_flag("--any-stack", o->search.any_stack, "do not refuse what the stack cannot run");
  command->add_option("--best", o->search.best, "rows of the answer")->check(CLI::Range(1, 1000))->capture_default_str();
  command->add_option("--events", o->search.events, "simulations at most")->check(CLI::Range(1, 1000000))->capture_default_str();
  command->add_option("--jobs", o->jobs, "threads [processors]")->check(CLI::Range(1, 1024));
  command->add_option("--why", o->why, "say what became of these candidates, \"tensor=16,pipeline=1\"")->type_name("NAME=VALUE,...");
  command->add_option("--export", o->out, "write the fastest plan there");
  command->add_flag("--json", o->json, "one JSON object on stdout");
  add_parts(*command, *o);
  command->callback([o, &exit] { exit = search_plans(*o); });
}

}  // namespace tandem::program
