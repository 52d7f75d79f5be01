#include "exec/measure.hpp"

#include <CLI/CLI.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "experiments/program/commands.hpp"
#include "experiments/program/terminal.hpp"
#include "models/base/error.hpp"
#include "reports/text.hpp"

namespace tandem::program {

namespace {

using nlohmann::json;

struct Options {
  std::string output = measured_table_path("cpu-host");
  std::string device = "cpu", precision = "fp32";
  bool quick = false;
  bool json = false;
};

constexpr std::int64_t kProgressSteps = 1000;

CostTable measure_with_progress(const Options& o) {
  exec::MeasureOptions options;
  options.quick = o.quick;
  options.dtype = *dtype_from_name(o.precision);
  Progress progress(kProgressSteps);
  std::string last;
  options.progress = [&](const std::string& what, double done) {
    if (what != last) log("measuring " + what);
    last = what;
    progress.done(std::llround(done * static_cast<double>(kProgressSteps)));
  };
  return exec::measure_cpu(options);
}

std::string to_text(const CostTable& t, const std::string& path) {
  std::string out = t.device + ": " + t.host + "\n";
  out += "  " + std::to_string(t.samples.size()) + " computations, " + std::to_string(t.comm.size()) + " communications, " +
         time_text(t.launch_s) + " between two tasks\n  slowdown with 1, 2, ... busy cores:";
  for (double s : t.slowdown) out += " " + number_text(s, 2);
  return out + "\n" + path + "\n";
}

std::string to_json(const CostTable& t, const std::string& path) {
  const json out = {{"schema_version", 1},         {"device", t.device},
                    {"host", t.host},              {"computations", t.samples.size()},
                    {"communications", t.comm.size()}, {"launch_s", t.launch_s},
                    {"slowdown", t.slowdown},      {"runtime_bytes", t.runtime_bytes.count()},
                    {"file", path}};
  return out.dump(2) + "\n";
}

ExitCode measure(const Options& o) {
  if (o.device != "cpu")
    throw InfeasibleError(Problem{"", "--device", o.device, "not implemented in this version", "use cpu"});
  prepare_output(o.output);
  const CostTable table = measure_with_progress(o);
  save_cost_table(table, o.output);
  print(o.json ? to_json(table, o.output) : to_text(table, o.output));
  return ExitCode::ok;
}

}  // namespace

void add_measure(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("measure", "Time this machine into a cost table that simulate reads");
  command->add_option("--device", o->device, "what is measured [cpu]")->check(CLI::IsMember({"cpu", "cuda"}));
  command->add_option("--precision", o->precision, "element type [fp32]")->check(CLI::IsMember({"fp32", "fp64"}));
  command->add_option("-o,--output", o->output, "cost table to write (JSON) [" + o->output + "]");
  command->add_flag("--quick", o->quick, "coarser grids, about a quarter of the time");
  command->add_flag("--json", o->json, "one JSON object on stdout");
  command->callback([o, &exit] { exit = measure(*o); });
}

}  // namespace tandem::program
