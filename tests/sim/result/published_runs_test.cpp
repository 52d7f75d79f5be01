// Step times that were published outside of the measurements that constants were fitted to: experiments/corpus/published_runs.jsonl.

#include <sstream>

#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/text.hpp"
#include "sim/result/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/source_dir.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

using nlohmann::json;

std::vector<json> published() {
  const std::string path = tests::source_dir() + "/experiments/corpus/published_runs.jsonl";
  std::istringstream lines(read_text(path));
  std::vector<json> out;
  for (std::string line; std::getline(lines, line);) out.push_back(parse_json(line, path));
  return out;
}

double predicted(const json& run) {
  const Plan plan = parse_plan(run.at("plan").dump(), "published_runs.jsonl");
  return simulate(plan, lower(plan), *make_topology(plan.cluster)).step_time.seconds();
}

}  // namespace

TEST_CASE("published runs take as long as was published, within what each says") {
  const std::vector<json> runs = published();
  REQUIRE(runs.size() >= 54);
  std::size_t close = 0;
  for (const json& run : runs) {
    INFO(run.at("id") << ": " << run.at("because"));
    const auto [low, high] = run.at("error").get<std::pair<double, double>>();
    const double error = predicted(run) / run.at("measured").at("step_time_s").get<double>() - 1;
    CHECK(error >= low);
    CHECK(error <= high);
    close += error > -0.1 && error < 0.1;
  }
  CHECK(close * 3 >= runs.size() * 2);  // two of three within a tenth
}
