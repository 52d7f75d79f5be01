#include "exec/measure/measure.hpp"

#include <CLI/CLI.hpp>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "exec/measure/measure_cuda.hpp"
#include "experiments/tandem/base/interrupt.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "models/base/error.hpp"
#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"
#include "reports/prediction/text.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::program {

namespace {

using nlohmann::json;

struct Options {
  std::string output, name;
  std::string device = "cpu";
  std::vector<std::string> precisions{"fp32"};
  std::vector<std::string> plans;
  double seconds = 0;
  bool quick = false;
  bool json = false;
};

constexpr std::int64_t kProgressSteps = 1000;

constexpr double kCudaSeconds = 240, kCudaQuickSeconds = 60;

/// Shows what is being measured, and the progress.
class MeasureLog {
 public:
  void operator()(const std::string& what, double done) {
    if (what != last_) log("measuring " + what);
    last_ = what;
    progress_.done(std::llround(done * static_cast<double>(kProgressSteps)));
  }

 private:
  Progress progress_{kProgressSteps};
  std::string last_;
};

CostTable measure_cpu(const Options& o) {
  exec::MeasureOptions options;
  options.quick = o.quick;
  options.dtypes.clear();
  for (const std::string& p : o.precisions) options.dtypes.push_back(*dtype_from_name(p));
  MeasureLog progress_log;
  options.progress = std::ref(progress_log);
  options.stop = [] { return InterruptWatch::pressed(); };
  return exec::measure_cpu(options);
}

/// All computations of the plans' graphs.
std::vector<CostSample> operations_of(const std::vector<std::string>& plans) {
  std::vector<CostSample> out;
  for (const std::string& path : plans)
    for (const TaskGraph graph = lower(load_plan(path)); const Template& t : graph.templates)
      for (const Task& task : t.tasks)
        if (!is_communication(task.op)) out.push_back({task.op, task.dtype});
  return out;
}

CostTable measure_cuda(const Options& o) {
  exec::CudaMeasureOptions options;
  options.device = o.name;
  options.seconds = o.seconds > 0 ? o.seconds : o.quick ? kCudaQuickSeconds : kCudaSeconds;
  options.wanted = operations_of(o.plans);
  MeasureLog progress_log;
  options.progress = std::ref(progress_log);
  options.stop = [] { return InterruptWatch::pressed(); };
  return exec::measure_cuda(options);
}

std::string to_text(const CostTable& t, const std::string& path) {
  std::string out = t.device + ": " + t.host + "\n";
  out += "  " + std::to_string(t.samples.size()) + " computations, " + std::to_string(t.comm.size()) + " communications, " +
         time_text(t.launch_s) + " between two tasks\n";
  for (const auto& [key, value] : t.facts) out += "  " + key + ": " + value + "\n";
  if (!t.facts.empty()) return out + path + "\n";
  out += "  slowdown with 1, 2, ... busy cores:";
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

/// Throws ConfigError for options of the other kind of device.
void require_sensible(const Options& o) {
  const auto only_cuda = [&](bool given, const char* what) {
    if (given && o.device != "cuda")
      throw ConfigError(Problem{"", what, "", "is for --device cuda only", "leave it out, or measure a CUDA device"});
  };
  only_cuda(!o.plans.empty(), "PLAN");
  only_cuda(!o.name.empty(), "--name");
  only_cuda(o.seconds > 0, "--seconds");
  if (o.device == "cuda" && o.precisions != Options().precisions)
    throw ConfigError(Problem{"", "--precision", o.precisions.front(), "is for --device cpu only", "leave it out: every precision is measured"});
}

/// Throws Interrupted if nothing useful for simulate was measured before.
CostTable measured_table(const Options& o) {
  try {
    return o.device == "cuda" ? measure_cuda(o) : measure_cpu(o);
  } catch (const exec::MeasuringStopped&) {
    log("no table is written: not everything has been timed yet");
    throw Interrupted{};
  }
}

ExitCode measure(const Options& o) {
  require_sensible(o);
  prepare_outputs({o.output}, o.plans);
  const InterruptWatch watch;
  const CostTable table = measured_table(o);
  std::string path = o.output.empty() ? measured_table_path(table.device) : o.output;
  if (InterruptWatch::pressed()) path = place_when_interrupted(path);
  prepare_output(path);
  save_cost_table(table, path);
  o.json ? print_json(to_json(table, path)) : print(to_text(table, path));
  if (InterruptWatch::pressed()) return ExitCode::interrupted;
  const auto stopped = table.facts.find("stopped");
  if (stopped == table.facts.end()) return ExitCode::ok;
  print_error("the table is incomplete: " + stopped->second);
  return ExitCode::world;
}

}  // namespace

void add_measure(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("measure", "Time this machine, or its GPU, and write a table that simulate reads");
  command->add_option("PLAN", o->plans, "cuda: plan files (JSON) whose operations are timed first");
  command->add_option("--device", o->device,
                      "what is measured: cpu, or cuda (matrix products, memory-bound kernels, copies, launches; flash attention where "
                      "Tandem was built with cuDNN's frontend headers) [cpu]")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command->add_option("--precision", o->precisions, "cpu: element types to measure; plans in 16 bits also need fp32 (fp32,bf16) [fp32]")
      ->delimiter(',')
      ->check(CLI::IsMember({"fp64", "fp32", "bf16", "fp16"}));
  command->add_option("-o,--out,--output", o->output,
                      "cost table to write (JSON) [" + measured_table_path("NAME") + ", NAME cpu-host or the card's]")
      ->type_name("FILE");
  command->add_flag("--quick", o->quick, "coarser grids, about a quarter of the time");
  command->add_flag("--json", o->json, "one JSON object on stdout");
  command->option_defaults()->group("With --device cuda");
  command->add_option("--name", o->name, "device that the table describes, such as h200-sxm-141gb [after the card]")->type_name("NAME");
  command->add_option("--seconds", o->seconds, "time for the whole measurement, about [240; with --quick 60]")
      ->type_name("SECONDS")->check(CLI::Range(20.0, 36000.0));
  command->callback([o, &exit] { exit = measure(*o); });
}

}  // namespace tandem::program
