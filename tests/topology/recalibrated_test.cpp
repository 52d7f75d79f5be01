#include "tests/catch.hpp"
#include "tests/topology/clusters.hpp"

using namespace tandem;

TEST_CASE("a recalibrated topology differs in its device's calibration and in nothing else") {
  ClusterSpec spec;
  spec.preset = "dgx-a100-80gb";
  spec.devices = 16;
  const auto before = make_topology(spec);
  const auto after = recalibrated(before, "h100");
  CHECK(before->device().calibration == "a100");
  CHECK(after->device().calibration == "h100");
  CHECK(after->device().name == before->device().name);
  CHECK(after->link_count() == before->link_count());
  CHECK(after->route(DeviceId(0), DeviceId(9)) == before->route(DeviceId(0), DeviceId(9)));
  CHECK(after->device_of(Rank(9)) == before->device_of(Rank(9)));
}
