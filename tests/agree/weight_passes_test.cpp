// Weight passes that make the experts' inputs again train like one rank.

#include "tests/agree/closeness.hpp"
#include "tests/agree/covering.hpp"
#include "tests/agree/layouts.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using tests::Dim;

namespace {

void choose(tests::Case& c, Dim d, std::string_view wanted) {
  for (const tests::Feature& f : tests::features())
    for (std::size_t i = 0; f.dim == d && i < f.values.size(); ++i)
      if (f.values[i].label == wanted) return void(c[static_cast<std::size_t>(d)] = static_cast<std::uint8_t>(i));
  FAIL("no value " << wanted);
}

}  // namespace

TEST_CASE("weight passes dispatch again what recomputed experts read, weighed on its way or not") {
  const auto model = GENERATE("moe-llama4", "moe-top2", "moe-qwen2");
  const auto schedule = GENERATE("zb-h1", "zb-h2", "dualpipe-v", "zb-v", "v-half");
  CAPTURE(model, schedule);
  tests::Case c{};
  choose(c, Dim::model, model), choose(c, Dim::schedule, schedule);
  choose(c, Dim::recompute, "moe"), choose(c, Dim::pipeline, "2"), choose(c, Dim::micro_batches, "4");
  REQUIRE(tests::reasons_against(c).empty());
  const auto run = tests::train(parse_plan(tests::plan_json(c, "fp64"), "plan"), 2);
  const auto one = tests::train(parse_plan(tests::reference_json(c, "fp64"), "reference"), 2);
  CHECK(tests::gradient_error(run, one) <= 1e-12);
  CHECK(tests::loss_error(run, one) <= 1e-12);
}
