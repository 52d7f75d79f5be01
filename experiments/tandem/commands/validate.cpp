#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "experiments/tandem/base/interrupt.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/commands/arguments.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "experiments/tandem/validation/baseline.hpp"
#include "experiments/tandem/validation/errors.hpp"
#include "experiments/tandem/validation/left_out.hpp"
#include "experiments/tandem/validation/report.hpp"
#include "models/base/input.hpp"
#include "models/base/json.hpp"
#include "models/base/left_out.hpp"
#include "models/base/output.hpp"
#include "models/base/presets.hpp"
#include "models/base/threads.hpp"
#include "models/stack/stack_file.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {

namespace {

constexpr const char* kFooter =
    "A record's grade says how far it can be trusted: A and B are judged, C is printed apart. The means over sets give each set one vote, whatever its size. "
    "What the columns mean: experiments/tandem/validation/README.md.";

struct Options {
  std::vector<std::string> files;
  SummaryOptions options;
  MeasurementFilter filter;
  std::vector<std::string> leave_out;
  std::string html, csv, errors;
  std::optional<double> tolerance;
  int jobs = all_cores();
  bool json = false;
};

/// Records with their usual predictions, and copies predicted without their source.
struct Judged {
  std::vector<JudgedRecord> usual, without;
};

Judged split(std::vector<JudgedRecord> records) {
  Judged out;
  for (JudgedRecord& r : records) (r.measured.without.sets.empty() ? out.usual : out.without).push_back(std::move(r));
  return out;
}

/// True if the left-out source is the framework's own. The host's costs are then unknown, unlike for a plan that names its stack.
bool is_framework(const JudgedRecord& r) {
  constexpr std::string_view kStack = "stack ";
  const LeftOut without(r.measured.without);
  return std::ranges::any_of(r.plan.traits.words, [&](const std::string& word) {
    return word.starts_with(kStack) && load_stack(word.substr(kStack.size()))->stood_in;
  });
}

/// The predictions for the error book: those without their source, where they exist.
std::vector<JudgedRecord> for_ranges(const Judged& judged) {
  std::set<std::string> without;
  std::vector<JudgedRecord> out;
  for (const JudgedRecord& r : judged.without) {
    if (is_framework(r)) continue;
    without.insert(r.measured.id);
    out.push_back(r);
  }
  std::copy_if(judged.usual.begin(), judged.usual.end(), std::back_inserter(out),
               [&](const JudgedRecord& r) { return !without.contains(r.measured.id); });
  return out;
}

void write_files(const Options& o, const Summary& summary, const Judged& judged) {
  if (!o.html.empty()) write_text(o.html, to_html(summary, judged.usual));
  if (!o.csv.empty()) write_text(o.csv, to_csv(judged.usual));
  if (!o.errors.empty())
    write_text(o.errors, sim::to_json(error_book(for_ranges(judged), sim::load_error_book(), "tandem " TANDEM_VERSION)));
}

void print_report(const Options& o, const Summary& summary, Judged judged) {
  std::optional<LeftOutSummary> without;
  if (!o.leave_out.empty()) without = summarise_left_out(std::move(judged.without), summary, o.options);
  const LeftOutSummary* left_out = without ? &*without : nullptr;
  o.json ? print_json(to_json(summary, judged.usual, left_out)) : print(to_text(summary, judged.usual, left_out));
}

/// Options for the partial results of an interrupted command. No error book is made, as predictions take their ranges from it.
Options of_a_part(Options o) {
  for (std::string* path : {&o.html, &o.csv})
    if (const std::string named = std::exchange(*path, place_when_interrupted(*path)); *path != named)
      log(named + " is left as it was; what was judged is in " + *path);
  if (!o.errors.empty()) log(o.errors + " is not written: it takes all records");
  o.errors.clear();
  return o;
}

std::vector<JudgedRecord> judge_all(const std::vector<Measurement>& measurements, int jobs) {
  Progress progress(static_cast<std::int64_t>(measurements.size()));
  return judge(measurements, interruptible(jobs), [&](std::int64_t n) { progress.done(n); });
}

/// Reports why the first records have no prediction. Returns false if any record has one.
bool all_refused(const std::vector<JudgedRecord>& records) {
  if (records.empty() || std::ranges::any_of(records, [](const JudgedRecord& r) { return r.refused.empty(); })) return false;
  constexpr std::size_t kTold = 3;
  for (std::size_t i = 0; i < std::min(kTold, records.size()); ++i) log("tandem: error: " + records[i].refused);
  log("tandem: error: no record has a prediction: all " + std::to_string(records.size()) + " were refused");
  return true;
}

/// Tells which measured step times of a set have no prediction to hold against the tolerance.
void tell_unjudged(const SetSummary& s) {
  constexpr std::size_t kTold = 3;
  const std::size_t n = s.unjudged.size();
  for (std::size_t i = 0; i < std::min(kTold, n); ++i) print_error(s.name + ": not judged, so outside: " + s.unjudged[i]);
  if (n > kTold) print_error(s.name + ": " + std::to_string(n - kTold) + " more records were refused");
}

/// What the command ends with where all records were judged. Tells why each of the sets is outside of the tolerance.
ExitCode verdict_on(const Summary& summary, const std::vector<const SetSummary*>& sets) {
  const auto text = [](double share) { return number_text(share * 100, 1) + " %"; };
  for (const SetSummary* s : sets) {
    if (s->time.mape && *s->time.mape > *summary.tolerance)
      print_error(s->name + ": mean absolute error of step times " + text(*s->time.mape) + " is outside " + text(*summary.tolerance));
    tell_unjudged(*s);
  }
  return sets.empty() ? ExitCode::ok : ExitCode::tolerance;
}

ExitCode validate_files(const Options& o) {
  std::vector<Measurement> measurements = read_measurements(o.files, o.filter);
  if (const std::string unread = unread_text(measurements); !unread.empty()) log(unread);
  require_known_sets(o.options, measurements);
  const std::size_t given = measurements.size();
  if (!o.leave_out.empty()) std::ranges::copy(left_out(measurements, o.leave_out), std::back_inserter(measurements));
  for (const std::string& table : read_inputs(measurements, o.jobs))
    if (!o.errors.empty()) permit_replacing(o.errors, table);
  if (!o.errors.empty()) permit_replacing(o.errors, find_preset("topology/errors", "step_time"));  // tables are updated in place
  prepare_outputs({o.html, o.csv, o.errors}, o.files);
  const InterruptWatch watch;
  std::vector<JudgedRecord> records = judge_all(measurements, o.jobs);
  const bool whole = records.size() == measurements.size();
  if (!whole)
    log(std::to_string(records.size()) + " of " + std::to_string(measurements.size()) + " records were judged; the summary is of these");
  if (!whole && records.empty()) return ExitCode::interrupted;
  Judged judged = split(std::move(records));
  add_baseline(judged.usual);
  Summary summary = summarise(judged.usual, o.options);
  summary.records_given = given, summary.interrupted = !whole;
  write_files(whole ? o : of_a_part(o), summary, judged);
  const bool refused = whole && all_refused(judged.usual);
  if (whole && !refused) summary.tolerance = o.tolerance;
  const auto beyond = outside(summary);  // before anything is printed, as it refuses a tolerance without an error to judge
  print_report(o, summary, std::move(judged));
  return !whole ? ExitCode::interrupted : refused ? ExitCode::input : verdict_on(summary, beyond);
}

}  // namespace

void add_validate(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("validate", "Predict measured runs and print the errors");
  command->footer(kFooter);
  command->add_option("FILE", o->files, "measurement files (JSON lines); a set is a file, its name the file's stem")->required();
  command->add_option("--html", o->html, "write an HTML page: predicted against measured, tables, every record")->type_name("FILE");
  command->add_option("--csv", o->csv, "write a line for every record")->type_name("FILE");
  command->add_flag("--json", o->json, "one JSON object on stdout");
  command->add_option("--tolerance", o->tolerance,
                      "largest mean absolute error of step times of a set (0.15 or 15%), its column \"mean\"; sets of --exclude do not count; "
                      "beyond it, or if a plan with a step time is refused, exit 6")
      ->type_name("FRACTION")->transform(share());
  command->add_option("--jobs", o->jobs, "records simulated at once [all cores]")->check(CLI::Range(1, 1024));
  command->add_option("--write-errors", o->errors,
                      "write the errors by device, situation and set; ranges of predictions come from them (topology/errors/step_time.json, "
                      "or a file that your own calibration names: \"errors\": \"FILE\")")
      ->type_name("FILE");
  command->option_defaults()->group("Which records");
  add_list(*command, "--only", o->filter.sets, "judge these sets only");
  add_list(*command, "--grade", o->filter.grades, "judge records of these grades (A, B, C) only");
  add_list(*command, "--exclude", o->options.excluded, "show these sets but leave them out of the means");
  add_lists(*command, "--pool", o->options.pools, "show the records of these sets together, too; may be given again");
  add_pairs(*command, "--cluster", o->filter.clusters, "SET=PRESET",
            "predict this set's plans on another cluster; may be given again");
  add_list(*command, "--leave-out", o->leave_out,
           "also predict records of these sources without the defaults, constants and errors that rest on them; each: every source in turn");
  command->callback([o, &exit] { exit = validate_files(*o); });
}

}  // namespace tandem::program
