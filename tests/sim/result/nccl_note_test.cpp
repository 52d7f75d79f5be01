// Ladders of networks: what a faster one does to a step, and what a prediction says where NCCL's choice makes it slower.

#include <algorithm>

#include <nlohmann/json.hpp>

#include "sim/result/simulate.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

struct Site {
  const char* cluster;
  std::int64_t devices;
  const char* model = "gpt2-345m";
  std::int64_t tensor = 1;
};

Prediction step(const Site& site, double gigabytes_s, const std::string& nccl_algo) {
  const std::int64_t data = site.devices / site.tensor;
  nlohmann::json plan = {
      {"model", {{"preset", site.model}}},
      {"parallel", {{"data", data}, {"tensor", site.tensor}, {"bucket_bytes", 160'000'000}}},  // several sizes of collectives
      {"training", {{"seq_length", 512}, {"micro_batch_size", 1}, {"global_batch_size", data}, {"precision", "fp16"}}},
      {"cluster",
       {{"preset", site.cluster},
        {"devices", site.devices},
        {"override", {{"scale_out_per_node", std::to_string(gigabytes_s) + " GB/s"}}}}}};
  if (!nccl_algo.empty()) plan["cluster"]["override"]["nccl_algo"] = nccl_algo;
  const Plan parsed = parse_plan(plan.dump(), "ladder.json");
  return simulate(parsed, lower(parsed), *make_topology(parsed.cluster));
}

bool tells_of_nccl(const Prediction& p) {
  return std::any_of(p.notes.begin(), p.notes.end(), [](const std::string& n) { return n.starts_with("NCCL chooses "); });
}

/// A rung may also be fewer NICs instead of slower ones.
bool tells_of_nics(const Prediction& p) {
  return std::any_of(p.notes.begin(), p.notes.end(), [](const std::string& n) { return n.find(" NICs, not as ") != std::string::npos; });
}

constexpr double kRungs[] = {1,  2,  5,  10, 12.5, 15,  20,  25,  30,  40,  45,  50,  55,  60, 70,
                             80, 90, 95, 100, 110, 125, 150, 175, 200, 250, 300, 350, 400, 450, 600};
/// What integer picoseconds and choices of protocols may add.
constexpr double kEqual = 1.0005;

}  // namespace

TEST_CASE("a faster network is never slower with rings alone, and where NCCL's choice makes it slower a note tells it") {
  const Site sites[] = {{"jean-zay-a100", 16}, {"dgx-a100-80gb", 16}, {"dgx-b200", 32}, {"jean-zay-v100", 8, "megatron-18b", 2},
                        {"dgx-h100", 32},      {"dgx-h100", 64},      {"dgx-h100", 256}};
  int slower = 0;
  for (const Site& site : sites) {
    double ring_before = 1e9, before = 1e9;
    for (const double rung : kRungs) {
      CAPTURE(site.cluster, site.devices, rung);
      const double ring = step(site, rung, "ring").step_time.seconds();
      const Prediction chosen = step(site, rung, "");
      const double seconds = chosen.step_time.seconds();
      CHECK(ring <= ring_before * kEqual);
      if (seconds > 1.01 * ring) CHECK(tells_of_nccl(chosen));
      if (seconds > before * kEqual) {
        CHECK((tells_of_nccl(chosen) || tells_of_nics(chosen)));
        ++slower;
      }
      ring_before = ring, before = seconds;
    }
  }
  CHECK(slower > 3);  // so there was something to tell
}

TEST_CASE("the note of NCCL's choice has both algorithms and what each would take") {
  // Four NICs of 25 GB/s: NCCL counts on 4 channels of 24, of which a tree of two nodes carries 23.6.
  const Prediction p = step({"jean-zay-a100", 16}, 100, "");
  const auto note = std::find_if(p.notes.begin(), p.notes.end(), [](const auto& n) { return n.starts_with("NCCL chooses "); });
  REQUIRE(note != p.notes.end());
  CAPTURE(*note);
  CHECK(note->starts_with("NCCL chooses ring for all_reduce of "));
  CHECK(note->find(" among 16 ranks: ") != std::string::npos);
  CHECK(note->find("; tree would take ") != std::string::npos);
  CHECK_FALSE(tells_of_nccl(step({"jean-zay-a100", 16}, 100, "ring")));
  CHECK_FALSE(tells_of_nccl(step({"jean-zay-a100", 16}, 90, "")));
}
