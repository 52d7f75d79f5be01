#include <CLI/CLI.hpp>
#include <utility>

#include "experiments/tandem/base/interrupt.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/commands/arguments.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "experiments/tandem/validation/baseline.hpp"
#include "experiments/tandem/validation/errors.hpp"
#include "experiments/tandem/validation/report.hpp"
#include "models/base/input.hpp"
#include "models/base/json.hpp"
#include "models/base/output.hpp"
#include "models/base/presets.hpp"
#include "models/base/threads.hpp"

namespace tandem::program {

namespace {

constexpr const char* kFooter =
    "Grades A and B are judged, C is printed apart. The means over sets give each set one vote, whatever its size.\n"
    "What the columns mean: experiments/tandem/validation/README.md.";

struct Options {
  std::vector<std::string> files;
  Wishes wishes;
  MeasurementFilter filter;
  std::string html, csv, errors;
  int jobs = all_cores();
  bool json = false;
};

void write_files(const Options& o, const Summary& summary, const std::vector<JudgedRecord>& records) {
  if (!o.html.empty()) write_text(o.html, to_html(summary, records));
  if (!o.csv.empty()) write_text(o.csv, to_csv(records));
  if (!o.errors.empty()) write_text(o.errors, sim::to_json(error_book(records, sim::load_error_book(), "tandem " TANDEM_VERSION)));
}

/// What is kept of an interrupted command. Predictions take their ranges from a book of errors, so none is made of a part.
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

ExitCode validate_files(const Options& o) {
  const std::vector<Measurement> measurements = read_measurements(o.files, o.filter);
  if (const std::string unread = unread_text(measurements); !unread.empty()) log(unread);
  require_known_sets(o.wishes, measurements);
  if (!o.errors.empty()) permit_replacing(o.errors, find_preset("topology/errors", "step_time"));  // the book goes on from itself
  read_inputs(measurements, o.jobs);
  prepare_outputs({o.html, o.csv, o.errors}, o.files);
  const InterruptWatch watch;
  std::vector<JudgedRecord> records = judge_all(measurements, o.jobs);
  const bool whole = records.size() == measurements.size();
  if (!whole)
    log(std::to_string(records.size()) + " of " + std::to_string(measurements.size()) + " records were judged; the summary is of these");
  if (!whole && records.empty()) return ExitCode::interrupted;
  add_baseline(records);
  const Summary summary = summarise(records, o.wishes);
  write_files(whole ? o : of_a_part(o), summary, records);
  o.json ? print_json(to_json(summary, records)) : print(to_text(summary, records));
  return whole ? ExitCode::ok : ExitCode::interrupted;
}

}  // namespace

void add_validate(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("validate", "Predict published measurements and print the errors");
  command->footer(kFooter);
  command->add_option("FILE", o->files, "measurement files (JSON lines); a set is a file, its name the file's stem")->required();
  add_list(*command, "--only", o->filter.sets, "judge these sets only");
  add_list(*command, "--grade", o->filter.grades, "judge records of these grades (A, B, C) only");
  add_list(*command, "--apart", o->wishes.apart, "show these sets but leave them out of the means");
  add_lists(*command, "--pool", o->wishes.pools, "show the records of these sets together, too; may be given again");
  add_pairs(*command, "--cluster", o->filter.clusters, "SET=PRESET",
            "run this set's plans on another cluster than they name; may be given again");
  command->add_option("--jobs", o->jobs, "records simulated at once [all cores]")->check(CLI::Range(1, 1024));
  command->add_option("--html", o->html, "write one page: predicted against measured, tables, every record");
  command->add_option("--csv", o->csv, "write a line for every record");
  command->add_option("--write-errors", o->errors,
                      "write the errors by device, situation and set, from which predictions have their ranges "
                      "(topology/errors/step_time.json)");
  command->add_flag("--json", o->json, "one JSON object on stdout");
  command->callback([o, &exit] { exit = validate_files(*o); });
}

}  // namespace tandem::program
