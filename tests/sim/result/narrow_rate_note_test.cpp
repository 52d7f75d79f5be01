// What a prediction says where a device multiplies no faster in a narrower type.

#include "sim/result/narrow_rate_note.hpp"

#include "tests/catch.hpp"
#include "topology/topology.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

std::string note_on(const std::string& preset, DType compute) {
  ClusterSpec cluster;
  cluster.preset = preset, cluster.devices = 8;
  return narrow_rate_note(make_topology(cluster)->device(), compute);
}

}  // namespace

// Intel's slides of Hot Chips 2024 print 1,835 TFLOP/s for bf16 and for fp8 on Gaudi 3; on Gaudi 2 it is 432 and 865.
TEST_CASE("A note says that a device multiplies no faster in 8 bits") {
  CHECK(note_on("hls-gaudi3", DType::fp8) ==
        "products in fp8 compute no faster than in bf16: Gaudi3 HL-325L (OAM) has no higher peak rate for them");
  CHECK(note_on("hls-gaudi2", DType::fp8).empty());
  CHECK(note_on("dgx-h100", DType::fp8).empty());
}

TEST_CASE("No note is on types of 16 bits, or on types without a rate") {
  CHECK(note_on("hls-gaudi3", DType::bf16).empty());
  CHECK(note_on("hls-gaudi3", DType::fp32).empty());
  CHECK(note_on("dgx-a100-80gb", DType::fp8).empty());
}
