#include <CLI/CLI.hpp>

#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/commands/arguments.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "experiments/tandem/validation/baseline.hpp"
#include "experiments/tandem/validation/errors.hpp"
#include "experiments/tandem/validation/parallel.hpp"
#include "experiments/tandem/validation/report.hpp"
#include "models/base/json.hpp"
#include "models/base/output.hpp"

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

ExitCode validate_files(const Options& o) {
  const std::vector<Measurement> measurements = read_measurements(o.files, o.filter);
  if (const std::string unread = unread_text(measurements); !unread.empty()) log(unread);
  prepare_outputs({o.html, o.csv, o.errors}, o.files);
  Progress progress(static_cast<std::int64_t>(measurements.size()));
  std::vector<JudgedRecord> records = judge(measurements, o.jobs, [&](std::int64_t n) { progress.done(n); });
  add_baseline(records);
  const Summary summary = summarise(records, o.wishes);
  write_files(o, summary, records);
  print(o.json ? to_json(summary, records) : to_text(summary, records));
  return ExitCode::ok;
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
