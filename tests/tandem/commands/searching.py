"""Questions for tests of searches."""
from tandem import SMALL, WithFolder, changed, tandem_json

AXES = ("--axis", "virtual_pipeline=1", "--axis", "schedule=1f1b", "--axis", "zero=0,1", "--axis", "context=1")

ONE_LAYOUT = ("--axis", "tensor=1", "--axis", "pipeline=1", "--axis", "context=1", "--axis", "micro_batch_size=1", "--axis", "schedule=1f1b",
              "--axis", "virtual_pipeline=1", "--axis", "zero=1", "--axis", "recompute=none", "--axis", "sequence_parallel=false")

# Nodes of four devices behind one slow NIC, where the last chunk of a mixture's pipeline waits for its experts.
SLOW = {"name": "slow", "fabric": {"nodes_per_leaf": 32, "oversubscription": 1, "switch_latency_s": "0.33 us"},
        "node": {"kind": "crossbar", "devices": 4, "scale_up": {"device_bytes_per_s": "25 GB/s", "hop_latency_s": "5 us"},
                 "scale_out": {"nics": 1, "nic_bytes_per_s": "12.5 GB/s", "latency_s": "20 us", "rails": False}},
        "device": {"name": "H100 PCIe", "generation": "hopper", "calibration": "h100", "compute_units": 114, "memory_bytes": "900 GiB",
                   "peak_flops_per_s": {"bf16": "756 TFLOP/s", "fp32": "51 TFLOP/s"}, "vector_flops_per_s": "51 TFLOP/s",
                   "memory_bytes_per_s": "2.0 TB/s", "host_launch_s": "5 us"}}


class Searching(WithFolder):
    def search(self, *arguments):
        return tandem_json("search", *arguments)

    def small(self, **changes):
        return self.folder.plan(changed(SMALL, **changes))
