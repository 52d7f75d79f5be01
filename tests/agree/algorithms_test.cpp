// Times of products that a run on a CUDA device keeps, as the simulator reads them.

#include "exec/device/product_choices.hpp"
#include "exec/device/product_shape.hpp"
#include "sim/cost/cost_model.hpp"
#include "sim/cost/product_table.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"
#include "topology/topology.hpp"

using namespace tandem;

TEST_CASE("the simulator takes the times of a file of algorithms for measured ones") {
  const tests::TemporaryFolder folder;
  const std::string path = folder.at("algorithms.json");
  const MatMul forward{4096, 3072, 768, false, true, true}, gradient{3072, 768, 4096, true, false, false, true, DType::fp32, true};
  MatMul fused = forward;
  fused.activation = ProductActivation::gelu;
  exec::device::ProductChoices choices({"NVIDIA H100 80GB HBM3", "cuBLASLt 13.1.0", "h100-sxm5-80gb", "2026-11-26"}, path);
  const auto keep = [&](const MatMul& op, DType result, double seconds) {
    choices.keep({exec::device::shape_of(op, DType::bf16, result)}, {"an algorithm", seconds});
  };
  keep(forward, DType::bf16, 1e-4);
  keep(fused, DType::bf16, 2e-4);
  keep(gradient, DType::fp32, 3e-4);
  choices.save();
  ClusterSpec spec;
  spec.preset = "dgx-h100";
  spec.devices = 1;
  const auto costs = sim::make_cost_model(make_topology(spec, path)->device());
  CHECK(costs->duration(forward, DType::bf16).seconds() == Approx(1e-4));
  CHECK(costs->duration(fused, DType::bf16).seconds() == Approx(2e-4));
  CHECK(costs->duration(gradient, DType::bf16).seconds() == Approx(3e-4));
  CHECK(costs->covered(fused, DType::bf16));
  CHECK(costs->products()->card() == "NVIDIA H100 80GB HBM3");
}
