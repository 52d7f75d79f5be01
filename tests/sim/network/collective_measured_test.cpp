// Collectives alone on their machine, as the cost model and the links have them, beside published nccl-tests.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include <nlohmann/json.hpp>

#include "sim/cost/cost_model.hpp"
#include "sim/engine/simulate_step.hpp"
#include "tests/catch.hpp"
#include "tests/sim/engine/graphs.hpp"
#include "tests/source_dir.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;

namespace {

/// The device's costs without the host: a benchmark's loop is issued long before it runs.
class WithoutHost : public CostModel {
 public:
  explicit WithoutHost(const Device& d) : costs_(make_cost_model(d)) {}
  Duration duration(const Op& op, DType t) const override { return costs_->duration(op, t); }
  Duration launch() const override { return {}; }
  bool covered(const Op& op, DType t) const override { return costs_->covered(op, t); }
  double slowdown(std::int64_t n) const override { return costs_->slowdown(n); }
  std::optional<Duration> communication(const Op& op, std::int64_t n) const override { return costs_->communication(op, n); }
  CommFit comm_fit() const override {
    CommFit fit = costs_->comm_fit();
    fit.in_step_share = fit.in_step_across_share = 1;
    fit.in_step_overhead = {};
    return fit;
  }
  std::vector<std::string> notes() const override { return {}; }

 private:
  std::unique_ptr<CostModel> costs_;
};

CollectiveKind kind_of(const std::string& name) {
  if (name == "all_gather") return CollectiveKind::all_gather;
  return name == "reduce_scatter" ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
}

double predicted_us(const Topology& topology, std::int64_t ranks, CollectiveKind kind, std::int64_t bytes) {
  GraphBuilder graph(1);
  graph.add(0, graph.one("collective", Stream::tensor,
                         Collective{kind, Group::tensor, bytes / 2, DType::bf16, Reduce::sum}));
  const TaskGraph g = graph.take();
  const Mesh m = mesh(ranks, 1, 1);
  const WithoutHost cost(topology.device());
  return simulate_step({g, m, topology, cost}, {}).step_time.seconds() * 1e6;
}

struct Errors {
  std::vector<double> large, small;  ///< from 1 MiB up, and below: |log(predicted / measured)|
};

std::map<std::string, Errors> by_family() {
  std::map<std::string, Errors> all;
  std::ifstream file(tests::source_dir() + "/experiments/corpus/collectives.jsonl");
  for (std::string line; std::getline(file, line);) {
    const auto record = nlohmann::json::parse(line);
    ClusterSpec spec;
    spec.preset = record["preset"];
    spec.devices = record["ranks"];
    const auto topology = make_topology(spec);
    for (const auto& point : record["points"]) {
      const auto bytes = point[0].get<std::int64_t>();
      const double us = predicted_us(*topology, record["ranks"], kind_of(record["collective"]), bytes);
      const double error = std::abs(us / point[1].get<double>() - 1);
      UNSCOPED_INFO(record["id"].get<std::string>() << " " << bytes << ": " << us << " us, measured " << point[1]);
      auto& errors = all[record["family"].get<std::string>()];
      (bytes >= (1 << 20) ? errors.large : errors.small).push_back(error);
    }
  }
  return all;
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v[v.size() / 2];
}

}  // namespace

// Bounds are what is reached, a little above: a change that makes a family worse has to say so. Below 1 MiB the fixed time of a
// collective in training, launch and skew included, stands against a benchmark's tight loop. Three constants of devices are fitted
// to records of this file: V100's link rate, A100's last copy, GB200's in-switch rate (topology/calibration); the latencies of
// p4de and p5 come from their 1 KiB here. The 1,440 GB200 of twenty racks take twice what is predicted, for which nothing
// published says why; the 144 of two racks do not. NCCL 2.27.7, which measured the B200, let the switch reduce from six devices
// on; the rule modelled here, of a later one, from seven: 9 % for six.
// RCCL's records begin at 16 MiB: below that those ran algorithms (MSCCL) that RCCL has since given up.
// Omni-Path's share is that of 16 nodes, so its row there says only that the share means what it says; 4 nodes took two thirds of it.
TEST_CASE("collectives take about what nccl-tests measured") {
  struct Bound {
    double large, small;
  };
  const std::map<std::string, Bound> bounds{
      {"A100", {0.03, 0.10}}, {"V100", {0.07, 0}}, {"Hopper", {0.04, 0.17}}, {"Blackwell", {0.08, 0}}, {"Omni-Path", {0.1, 0}},
      {"CDNA", {0.01, 0}}};
  const auto families = by_family();
  REQUIRE(families.size() == bounds.size());
  for (const auto& [family, errors] : families) {
    CAPTURE(family, errors.large.size(), errors.small.size(), median(errors.large), median(errors.small));
    CHECK(median(errors.large) <= bounds.at(family).large);
    if (errors.small.empty()) CHECK(bounds.at(family).small == 0);  // none published
    else CHECK(median(errors.small) <= bounds.at(family).small);
  }
}
