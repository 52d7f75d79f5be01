// Data ranks and devices that a plan leaves out.

#include "models/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/models/planfile/plan_text.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::test;

namespace {

const std::string kDegrees = "\"parallel\": {\"tensor\": 2, \"pipeline\": 2, \"data\": 2}", kDevices = ", \"devices\": 8";

Plan read(const std::string& text) { return parse_plan(text, "plan.json"); }
std::string degrees(const std::string& members, const std::string& text = kGoodPlan) {
  return bent(kDegrees, "\"parallel\": {" + members + "}", text);
}
std::string devices(const std::string& members, const std::string& text = kGoodPlan) { return bent(kDevices, members, text); }

template <class Error>
Problem only_problem(const std::string& text) {
  try {
    read(text);
  } catch (const Error& e) {
    REQUIRE(e.problems().size() == 1);
    return e.problems().front();
  }
  FAIL("is no such error: " << text);
  return {};
}

std::string member(const std::string& name, std::int64_t n) { return "\"" + name + "\": " + std::to_string(n); }

}  // namespace

TEST_CASE("data ranks that a plan leaves out are what the other degrees leave of the devices") {
  const std::string said = to_json(read(kGoodPlan));
  for (const char* data : {"", ", \"data\": \"auto\""}) CHECK(to_json(read(degrees(std::string("\"tensor\": 2, \"pipeline\": 2") + data))) == said);
  CHECK(read(bent(kDegrees + ",", "")).parallel.data == 8);
  CHECK(read(degrees("\"context\": 2, \"expert\": 1")).parallel.data == 4);
  CHECK(read(devices(", \"devices\": 1", bent(kDegrees + ",", ""))).parallel.data == 1);
  const std::string shared = devices(", \"devices\": 8, \"override\": {\"ranks_per_device\": 2}");
  CHECK(read(degrees("\"tensor\": 2", shared)).parallel.data == 8);
}

TEST_CASE("derived data ranks are the one number whose product with the other degrees is the ranks, or there is none") {
  for (std::int64_t tensor : {1, 2, 4})
    for (std::int64_t pipeline : {1, 2, 3})
      for (std::int64_t context : {1, 2})
        for (std::int64_t n = 1; n <= 22; ++n) {
          CAPTURE(tensor, pipeline, context, n);
          const std::string others = member("tensor", tensor) + ", " + member("pipeline", pipeline) + ", " + member("context", context);
          // Twice the least multiple of 1 to 22: micro-batches of 2 divide it among so many data ranks.
          const std::string text = bent("\"global_batch_size\": 16", "\"global_batch_size\": 465585120", devices(", " + member("devices", n)));
          std::int64_t found = 0;
          for (std::int64_t data = 1; data <= n; ++data)
            if (tensor * pipeline * context * data == n) found = data;
          if (found > 0)
            CHECK(to_json(read(degrees(others, text))) == to_json(read(degrees(others + ", " + member("data", found), text))));
          else
            CHECK_THROWS_AS(read(degrees(others, text)), InfeasibleError);
        }
}

TEST_CASE("devices that a plan leaves out are the product of its degrees") {
  CHECK(to_json(read(devices(""))) == to_json(read(kGoodPlan)));
  CHECK(read(devices("", degrees("\"data\": 4"))).cluster.devices == 4);
  CHECK(read(devices(", \"override\": {\"ranks_per_device\": 4}")).cluster.devices == 2);
}

TEST_CASE("derived data ranks obey the other rules of a plan") {
  // All 8 ranks are data-parallel, so a batch of 4 sequences does not divide.
  const Problem p = only_problem<InfeasibleError>(bent("\"global_batch_size\": 16", "\"global_batch_size\": 4", bent(kDegrees + ",", "")));
  CHECK(p.field == "training.global_batch_size");
  CHECK(p.reason.find("micro_batch_size x data = 2 x 8 = 16") != std::string::npos);
}

TEST_CASE("data ranks or devices that cannot be derived are one problem with its remedy") {
  const Problem odd = only_problem<InfeasibleError>(degrees("\"tensor\": 2, \"context\": 3, \"zero_group\": 4"));
  CHECK(odd.message() ==
        "plan.json: cluster.devices = 8: gives 8 ranks, which tensor x pipeline x context = 2 x 1 x 3 = 6 does not divide, so that "
        "parallel.data, left out, cannot follow; use 6 or 12, or degrees whose product divides 8");
  const Problem few = only_problem<InfeasibleError>(degrees("\"tensor\": 8, \"pipeline\": 4, \"data\": \"auto\""));
  CHECK(few.remedy.starts_with("use 32,"));
  const Problem shared = only_problem<InfeasibleError>(
      degrees("\"tensor\": 8, \"pipeline\": 2", devices(", \"devices\": 3, \"override\": {\"ranks_per_device\": 4}")));
  CHECK(shared.reason.starts_with("gives 3 x 4 = 12 ranks"));
  CHECK(shared.remedy.starts_with("use 4,"));
  const Problem split = only_problem<InfeasibleError>(devices(", \"override\": {\"ranks_per_device\": 3}"));
  CHECK(split.field == "parallel.data");
  CHECK(split.reason.find("= 8 ranks, from which cluster.devices, left out, cannot follow: there are 3 ranks on a device") != std::string::npos);
  CHECK(only_problem<InfeasibleError>(bent("\"data\": 2", "\"data\": 1048576", devices(""))).field == "training.global_batch_size");
  CHECK(only_problem<InfeasibleError>(bent("\"data\": 2", "\"data\": 4", devices(", \"devices\": 4"))).reason.find("2 x 2 x 4 x 1 = 16") !=
        std::string::npos);
}

TEST_CASE("a plan that gives neither data ranks nor devices lacks devices") {
  for (const char* data : {"", "\"data\": \"auto\""}) {
    const Problem p = only_problem<ConfigError>(devices("", degrees(data)));
    CHECK(p.field == "cluster.devices");
    CHECK(p.reason == "is missing and has no default");
    CHECK(p.remedy.ends_with("or parallel.data, from which they follow"));
  }
  CHECK(only_problem<ConfigError>(degrees("\"data\": \"automatic\"")).field == "parallel.data");
}
