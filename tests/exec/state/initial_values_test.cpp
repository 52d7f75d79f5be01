// Initial values, apart from any training: they do not depend on the layout.
#include <cmath>

#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/exec/state/state_world.hpp"

using namespace tandem;
using namespace tandem::exec;
using namespace tandem::exec::test;

namespace {

std::vector<GatheredTensor> initialised(const Lay& lay) {
  World w(lay, mixed(lay));
  initialise(w.ranks, plan(), {});
  return w.gather("weights");
}

}  // namespace

TEST_CASE("Initial values do not depend on the layout") {
  const auto whole = initialised({});
  Lay lay = GENERATE(Lay{2}, Lay{3}, Lay{6}, Lay{2, 2, 2, 1, 4}, Lay{3, 4, 1, 1, 2, true}, Lay{1, 3, 2, 1, 6, true, true});
  const auto shared = initialised(lay);
  REQUIRE(shared.size() == whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) CHECK(shared[i].values == whole[i].values);
}

TEST_CASE("Initial deviations are the model's, and smaller for residual projections by the root of twice the layers") {
  Param p = cut("big", 200, 100, -1, 1);
  const auto deviation = [&] {
    double sum = 0, squares = 0;
    const auto values = initial_values(p, plan());
    for (const auto v : values) sum += v, squares += v * v;
    const auto n = static_cast<double>(values.size());
    CHECK(std::abs(sum / n) < 0.02);  // five standard errors of the mean at deviation 0.5
    return std::sqrt(squares / n);
  };
  // Five standard errors of a deviation from 20,000 values: 5 / sqrt(2 * 20000) = 2.5 %.
  CHECK(deviation() == Approx(0.5).epsilon(0.025));
  p.init = Param::Init::normal_scaled;
  CHECK(deviation() == Approx(0.5 / 4).epsilon(0.025));  // sqrt(2 * 8 layers) = 4
}

TEST_CASE("Tied copies share their initial values, other parameters and seeds do not") {
  Param p = cut("a", 4, 4, -1, 1), copy = p, other = p;
  p.init_id = copy.init_id = 1, other.init_id = 2;
  copy.name = "b", copy.global_index = 7, copy.in_norm = false;
  auto seeded = plan();
  CHECK(initial_values(p, seeded) == initial_values(copy, seeded));
  CHECK(initial_values(p, seeded) != initial_values(other, seeded));
  seeded.training.seed = 100;
  CHECK(initial_values(p, plan()) != initial_values(p, seeded));
}

TEST_CASE("Values of another size are refused") {
  World w({}, mixed({}));
  CHECK_THROWS_AS(initialise(w.ranks, plan(), [](const std::string&, std::vector<double>& v) { v.pop_back(); }), ContractError);
}

TEST_CASE("Every data and context rank starts equal and optimizer state starts at zero") {
  World w({2, 3, 2}, mixed({2, 3, 2}));
  initialise(w.ranks, plan(), {});
  for (std::size_t r = 2; r < 12; ++r)
    for (std::size_t i = 0; i < 26; ++i) REQUIRE(w.buffer(r, "weights")[i] == w.buffer(r % 2, "weights")[i]);
  for (const auto* name : {"exp_avg", "gradients"})
    for (const auto& t : w.gather(name))
      for (const auto v : t.values) REQUIRE(v == 0);
}

TEST_CASE("A recurrence starts with decays and steps within their ranges, at the same values in every layout") {
  Param p = cut("decay", 2000, 1, -1, 1);
  const auto within = [&](Param::Init init, double low, double high, auto meaning) {
    p.init = init;
    double least = high, most = low;
    for (const double v : initial_values(p, plan())) least = std::min(least, meaning(v)), most = std::max(most, meaning(v));
    CHECK(least > low);
    CHECK(most < high);
    return std::pair(least, most);
  };
  // The extremes of 2,000 uniform numbers are in the outer hundredths, except once in 5e8 draws.
  const auto [slow, fast] = within(Param::Init::log_uniform, 0, 16, [](double v) { return std::exp(v); });
  CHECK((slow < 0.16 && fast > 15.84));
  const auto softplus = [](double v) { return std::log1p(std::exp(v)); };
  const auto [brief, longest] = within(Param::Init::log_step, 0.001 * (1 - 1e-12), 0.1, softplus);
  CHECK((brief < 0.00105 && longest > 0.095));
  p.init = Param::Init::log_index;
  CHECK(initial_values(p, plan())[0] == 0);
  CHECK(initial_values(p, plan())[7] == std::log(8.0));
}
