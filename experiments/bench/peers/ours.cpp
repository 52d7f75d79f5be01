// Tandem's side of this folder's cases: bench_ours ring DEVICES | flows | unfolded PLAN | estimate RECORDS. `estimate` reads
// records as `tandem validate` does. For each with a closed-form estimate it prints a JSON line: the step time, and the processor
// time of one estimate with warm caches, as in a search.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "experiments/bench/bars.hpp"
#include "experiments/bench/peak.hpp"
#include "models/plan/plan.hpp"
#include "sim/closed_form/closed_form.hpp"
#include "topology/plan_reader.hpp"

namespace {

using namespace tandem;

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

void estimate(const Plan& plan, const std::string& id) {
  constexpr int kBatches = 9, kTimes = 200;
  const auto topology = make_topology(plan.cluster);
  const auto cost = sim::make_cost_model(*topology);
  sim::ClosedForm form(*topology, *cost);
  const sim::Estimate first = form.estimate(plan);
  if (first.outside == sim::Outside::layout) return;  // no answer, so its time means nothing
  double step = first.step_time.seconds();
  std::array<double, kBatches> each{};
  for (double& seconds : each) {
    const double before = processor_seconds();
    for (int i = 0; i < kTimes; ++i) step = form.estimate(plan).step_time.seconds();
    seconds = (processor_seconds() - before) / kTimes;
  }
  std::sort(each.begin(), each.end());
  std::printf("{\"id\": \"%s\", \"step_time_s\": %.6f, \"processor_s\": %.9f}\n", id.c_str(), step, each[kBatches / 2]);
}

int estimates(const std::string& path) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const auto record = nlohmann::json::parse(line);
    const std::string id = record.at("id");
    estimate(parse_plan(record.at("plan").dump(), id), id);
  }
  return in.eof() ? 0 : 1;
}

/// Prints the peak memory after a case's own lines.
int with_peak(int status) {
  std::printf("{\"peak_mb\": %.1f}\n", bench::peak_megabytes());
  return status;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "ring" && argc == 3) return with_peak(bench::ring(std::atoi(argv[2])));
  if (what == "flows" && argc == 2) return with_peak(bench::desynchronised());
  if (what == "unfolded" && argc == 3) return with_peak(bench::unfolded(argv[2]));
  if (what == "estimate" && argc == 3) return estimates(argv[2]);
  std::fprintf(stderr, "usage: bench_ours ring DEVICES | flows | unfolded PLAN | estimate RECORDS\n");
  return 2;
} catch (const std::exception& e) {
  std::fprintf(stderr, "bench_ours: %s\n", e.what());
  return 1;
}
