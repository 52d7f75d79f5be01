// What a prediction says where nodes give a job less than their network or their devices.

#include "sim/result/network_note.hpp"

#include "sim/result/nodes_note.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

ClusterSpec cluster(const std::string& preset, std::int64_t devices) {
  ClusterSpec out;
  out.preset = preset;
  out.devices = devices;
  return out;
}

std::string note_of(const ClusterSpec& cluster) { return network_note(*make_topology(cluster)); }

}  // namespace

TEST_CASE("a note says that the link to the NIC is slower than the NIC") {
  ClusterSpec h200 = cluster("dgx-h200", 64);  // NICs of 50 GB/s on PCIe 5.0 x16 of 63 GB/s
  CHECK(note_of(h200).empty());
  h200.override.scale_out_per_node = Bandwidth::bytes_per_second(800e9);
  CHECK(note_of(h200) == "the link between device and NIC (63 GB/s) limits the network: the NIC has 100 GB/s");
  h200.devices = 8;
  CHECK(note_of(h200).empty());  // one node has no network
  ClusterSpec gaudi = cluster("hls-gaudi2", 64);  // its ports are the devices' own
  gaudi.override.scale_out_per_node = Bandwidth::bytes_per_second(3000e9);
  CHECK(note_of(gaudi).empty());
}

TEST_CASE("a note says how many devices of an NVLink rack a job over several has") {
  CHECK(nodes_note(cluster("gb200-nvl72", 2304)) ==
        "a part of each node: 36 nodes with 64 of their 72 devices; also 32 full nodes: cluster.override.devices_per_node 72");
  CHECK(nodes_note(cluster("gb200-nvl72", 256)) ==  // which 72 does not divide
        "a part of each node: 4 nodes with 64 of their 72 devices; cluster.override.devices_per_node sets another number");
  CHECK(nodes_note(cluster("gb200-nvl72", 72)).empty());
  CHECK(nodes_note(cluster("gb200-nvl72", 288)).empty());  // 4 x 72, which 64 do not divide
  CHECK(nodes_note(cluster("dgx-h200", 2304)).empty());
  ClusterSpec whole = cluster("gb200-nvl72", 2304);
  whole.override.devices_per_node = 72;
  CHECK(nodes_note(whole).empty());
}
