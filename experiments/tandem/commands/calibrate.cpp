#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>

#include "experiments/tandem/base/interrupt.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/calibration/fit.hpp"
#include "experiments/tandem/commands/arguments.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "experiments/tandem/validation/errors.hpp"
#include "experiments/tandem/validation/left_out.hpp"
#include "models/base/files.hpp"
#include "models/base/input.hpp"
#include "models/base/output.hpp"
#include "models/base/presets.hpp"
#include "models/base/threads.hpp"
#include "sim/result/error_book.hpp"

namespace tandem::program {

namespace {

constexpr const char* kFooter =
    "Fits those numbers of a calibration that carry \"fit\": {\"low\", \"high\"} to the step times of grades A and B measured on "
    "its devices. It minimises the mean over sets (files) of the mean absolute log error. Nothing is "
    "fitted for a model, a plan or a set. Afterwards write the table of errors anew: tandem validate FILE... --write-errors F. For a "
    "calibration of your own write \"errors\": \"F\" into it, a path from its folder: predictions take their ranges from there.";

constexpr int kTellEvery = 10;

struct Options {
  std::string device, output;
  std::vector<std::string> files;
  MeasurementFilter filter;
  FitOptions fit;
  bool write = false, leave_out_each = false, json = false;
};

/// The output path: the given one, else DEVICE.fitted.json, beside a user's own calibration, but never among the presets.
std::string output_of(const Options& o, const ConstantsFile& file) {
  if (!o.output.empty()) return o.output;
  if (o.write) return file.path();
  const auto fitted = std::filesystem::path(file.path()).replace_extension(".fitted.json");
  return (is_preset_path(o.device) ? fitted : fitted.filename()).string();
}

void require_free(const Options& o, const std::string& output) {
  if (o.write || !file_exists(output)) return;
  throw ConfigError(Problem{output, "", "", "exists already",
                            o.output.empty()
                                ? "remove it, or name it or another with -o (--write alone overwrites the device's own calibration)"
                                : "overwrite it with --write, or give another file with -o"});
}

std::vector<double> fitted_values(const Fit& fit) {
  std::vector<double> out;
  for (const ConstantFit& c : fit.constants) out.push_back(c.fitted);
  return out;
}

/// The fit, or the best result of an interrupted search. Throws Interrupted if there is none.
Fit fit_to(const std::vector<Measurement>& measurements, const Options& o, const ConstantsFile& file) {
  FitOptions options = o.fit;
  options.jobs = interruptible(o.fit.jobs.most);
  try {
    return fit_device(file, fit_cases(measurements, o.device, options.jobs), options);
  } catch (const FitStopped&) {
    log("no set of constants was tried: nothing is written");
    throw Interrupted{};
  }
}

/// Writes the unchanged file plus the constants that fits without a source give.
ExitCode add_left_out_each(const std::vector<Measurement>& measurements, const Options& o, const ConstantsFile& file,
                          const std::string& output) {
  FitOptions options = o.fit;
  options.jobs = interruptible(o.fit.jobs.most);
  std::map<std::string, std::vector<double>> values;
  try {
    const FitCases cases = fit_cases(measurements, o.device, options.jobs);
    for (FitWithout& fit : fit_without_each(file, cases, one_source(measurements), options))
      values[fit.sets] = std::move(fit.values);
  } catch (const FitStopped&) {
    log("nothing is written");
    throw Interrupted{};
  }
  write_text(output, file.with_without(values));
  log("wrote " + output);
  return ExitCode::ok;
}

ExitCode calibrate(const Options& o) {
  const ConstantsFile file(o.device);
  const std::string output = output_of(o, file);
  require_free(o, output);
  permit_replacing(output, file.path());  // a calibration may be replaced by its own fit
  prepare_outputs({output}, o.files);
  const std::vector<Measurement> measurements = read_measurements(o.files, o.filter);
  if (const std::string unread = unread_text(measurements); !unread.empty()) log(unread);
  const InterruptWatch watch;
  if (o.leave_out_each) return add_left_out_each(measurements, o, file, output);
  const Fit fit = fit_to(measurements, o, file);
  const std::string place = fit.stopped ? place_when_interrupted(output) : output;
  const bool better = !(fit.stopped && fit.kept);
  if (better) write_text(place, file.with(fitted_values(fit), fit.kept ? "" : fitted_on(fit, today())));
  o.json ? print_json(to_json(fit)) : print(to_text(fit));
  log(better ? "wrote " + place : "nothing is written");
  if (const std::string table = sim::own_error_table(file.path()); better && !table.empty())
    log(table + " holds the errors of the old constants: write it anew with tandem validate FILE... --write-errors " + table);
  return fit.stopped ? ExitCode::interrupted : ExitCode::ok;
}

}  // namespace

void add_calibrate(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<Options>();
  o->fit.jobs.most = all_cores();
  o->fit.tell = [](int tried) {
    if (tried % kTellEvery == 0) log(std::to_string(tried) + " sets of constants tried");
  };
  CLI::App* command = app.add_subcommand("calibrate", "Fit a device's few constants to measured step times");
  command->footer(kFooter);
  command->add_option("DEVICE", o->device, "name in topology/calibration (a100, h100 ...), or a path as a device preset names it")->required();
  command->add_option("FILE", o->files, "measurement files (JSON lines); records of other devices are skipped")->required();
  command->add_option("-o,--out,--output", o->output,
                      "the new calibration file [DEVICE.fitted.json here, or beside DEVICE where that is a path]")
      ->type_name("FILE");
  command->add_flag("--write", o->write, "overwrite the device's own calibration file, or the file of -o");
  CLI::Option* each = command->add_flag("--leave-out-each", o->leave_out_each,
                                        "keep the constants; beside each one write its values fitted without each source (for validate --leave-out)");
  command->add_flag("--json", o->json, "one JSON object on stdout")->excludes(each);
  command->add_option("--jobs", o->fit.jobs.most, "records simulated at once [all cores]")->check(CLI::Range(1, 1024));
  command->option_defaults()->group("Which records");
  add_list(*command, "--only", o->filter.sets, "use these sets only");
  add_list(*command, "--exclude", o->filter.excluded, "leave these sets out");
  add_pairs(*command, "--cluster", o->filter.clusters, "SET=PRESET",
            "predict this set's plans on another cluster; may be given again");
  command->add_option("--per-source", o->fit.per_source, "records per set used in the search, evenly spread; 0: all [12]")
      ->check(CLI::Range(0, 1'000'000));
  command->callback([o, &exit] {
    Progress bar(1);
    exit = calibrate(*o);
  });
}

}  // namespace tandem::program
