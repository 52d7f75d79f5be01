// Time of a step whose activations travel to the host and back.

#include <algorithm>

#include "models/graph/task_graph.hpp"
#include "sim/closed_form/closed_form.hpp"
#include "sim/result/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/sim/closed_form/estimated_cluster.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

/// A model of 2 B parameters on one device; `rate`: of the host's link.
Plan plan_of(const std::string& offload, const std::string& rate) {
  return parse_plan(R"({"stack": "tandem", "model": {"family": "llama", "num_layers": 8, "hidden_size": 2048, "num_attention_heads": 16,
                        "ffn_hidden_size": 8192, "vocab_size": 32000},
                        "parallel": {"offload": )" + offload + R"(}, "training": {"seq_length": 2048, "micro_batch_size": 2,
                        "global_batch_size": 8, "precision": "bf16", "flash_attention": true},
                        "cluster": {"preset": "dgx-h100", "devices": 1, "override": {"host_link_bytes_per_s": )" + rate + "}}}",
                    "offloaded.json");
}

Prediction predicted(const Plan& plan) { return simulate(plan, lower(plan), *make_topology(plan.cluster)); }

double seconds(const Plan& plan) { return predicted(plan).step_time.seconds(); }

/// Bytes that cross the host's link in a step.
double copied(const Plan& plan) {
  const TaskGraph graph = lower(plan);
  double bytes = 0;
  for (const Instance& i : graph.programs[0].instances)
    for (const Task& t : graph.of(i).tasks)
      if (const auto* o = std::get_if<HostCopy>(&t.op)) bytes += static_cast<double>(bytes_of(o->dtype, o->elements).count());
  return bytes;
}

const char* const kAll = R"({"activations": ["all"]})";

}  // namespace

TEST_CASE("copies of activations take the time of their bytes on the host's link where that is slow, and hide where it is fast") {
  const double plain = seconds(plan_of("{}", "\"64 GB/s\""));
  const Plan slow = plan_of(kAll, "\"1 GB/s\"");
  const double link = copied(slow) / 1e9;
  CHECK(link > 10 * plain);
  CHECK(seconds(slow) > link);
  CHECK(seconds(slow) < link + plain);
  CHECK(seconds(plan_of(kAll, "\"10000 GB/s\"")) < 1.02 * plain);
}

TEST_CASE("a step with offloaded activations needs less memory") {
  const Plan plain = plan_of("{}", "\"64 GB/s\""), offloaded = plan_of(kAll, "\"64 GB/s\"");
  const Bytes without = predicted(plain).roles[0].live_peak_bytes, with = predicted(offloaded).roles[0].live_peak_bytes;
  CHECK(with < without);
  // Three of eight layers are on the device at most: one that computes, one that leaves or comes back, and the last.
  const double left = copied(offloaded) / 2 / 4;  // of seven layers of one of four micro-batches, one way
  CHECK(static_cast<double>((without - with).count()) > left * 4 / 7);
  const auto told = [](const Prediction& p) {
    return std::any_of(p.notes.begin(), p.notes.end(), [](const std::string& n) { return n.find("of the host's memory") != n.npos; });
  };
  CHECK(told(predicted(offloaded)));
  CHECK_FALSE(told(predicted(plain)));
}

TEST_CASE("the closed form estimates a step with offloaded activations from short plans") {
  Plan plan = plan_of(kAll, "\"20 GB/s\"");
  plan.model.num_layers = 24;
  plan.training.global_batch_size = 48;
  const Prediction events = predicted(plan);
  test::EstimatedCluster cluster(plan.cluster);
  const Estimate estimate = cluster.form.estimate(plan);
  CHECK(estimate.way != Way::recurrences);
  CHECK(estimate.step_time.seconds() == Approx(events.step_time.seconds()).epsilon(0.01));
}
