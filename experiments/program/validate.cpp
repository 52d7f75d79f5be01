#include <CLI/CLI.hpp>

#include "experiments/program/commands.hpp"
#include "experiments/program/terminal.hpp"
#include "experiments/program/validation.hpp"

namespace tandem::program {

namespace {

struct Options {
  std::vector<std::string> files;
  bool json = false;
};

ExitCode validate_files(const Options& o) {
  std::vector<Measurement> measurements;
  for (const std::string& file : o.files)
    for (Measurement& m : read_measurements(file)) measurements.push_back(std::move(m));
  Progress progress(static_cast<std::int64_t>(measurements.size()));
  std::vector<ValidatedRecord> records;
  for (const Measurement& m : measurements) {
    records.push_back(validate(m));
    progress.done(static_cast<std::int64_t>(records.size()));
  }
  const std::vector<SetSummary> sets = summarise(records);
  print(o.json ? to_json(sets, records) : to_text(sets));
  return ExitCode::ok;
}

}  // namespace

void add_validate(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("validate", "Predict published measurements and print the errors");
  command->add_option("FILE", o->files, "measurement files (JSON lines)")->required();
  command->add_flag("--json", o->json, "one JSON object on stdout");
  command->callback([o, &exit] { exit = validate_files(*o); });
}

}  // namespace tandem::program
