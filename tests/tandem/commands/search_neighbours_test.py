#!/usr/bin/env python3
"""No layout one step away from the first row of a search is faster, whichever field of the layout the step changes."""
import json

import tandem
from tandem import WithFolder, changed, run, tandem_json

TOLERANCE = 0.005  # a search does not look at what gains less

QUESTIONS = {
    "megatron-core on Ampere": ("llama2-70b", "dgx-a100-80gb", 128, "megatron-core"),
    "megatron-core on Hopper with experts": ("mixtral-8x7b", "dgx-h100", 64, "megatron-core"),
    "megatron-core on CDNA3": ("llama3-8b", "mi300x-8x400g", 32, "megatron-core"),
    "nemo": ("llama3-8b", "dgx-h100", 32, "nemo"),
    "torchtitan": ("olmo2-7b", "dgx-h100", 64, "torchtitan"),
    "pytorch-fsdp": ("llama3-8b", "dgx-h100", 64, "pytorch-fsdp"),
    "megatron-deepspeed on Ampere": ("llama2-13b", "dgx-a100-80gb", 32, "megatron-deepspeed"),
    "megatron-deepspeed on Gaudi": ("llama2-7b", "hls-gaudi2", 32, "megatron-deepspeed"),
}

DEGREES = ("tensor", "pipeline", "context", "expert")
FLAGS = ("sequence_parallel", "overlap_grad_reduce", "overlap_param_gather", "tensor_overlap", "overlap_tensor_sum", "overlap_p2p",
         "scatter_gather_tensors_in_pipeline", "root_unit")


def steps(plan):
    """Changes of the fields of a plan, each to a value beside its own."""
    layout, training = plan["parallel"], plan["training"]
    for degree in DEGREES:
        own = layout.get(degree, 1)
        for value in {own // 2, own * 2} - {0, own}:
            yield {"parallel." + degree: value, "parallel.data": None, "parallel.pipeline_split": None}
    own = training["micro_batch_size"]
    for value in {own // 2, own * 2} - {0, own}:
        yield {"training.micro_batch_size": value}
    if layout.get("pipeline", 1) > 1:
        yield {"parallel.schedule": "1f1b", "parallel.virtual_pipeline": 1, "parallel.pipeline_split": None}
        for chunks in {layout.get("virtual_pipeline", 1) + 1, layout.get("virtual_pipeline", 1) - 1, 2} - {0, 1}:
            yield {"parallel.schedule": "interleaved", "parallel.virtual_pipeline": chunks, "parallel.pipeline_split": None}
    for flag in FLAGS:
        for value in (True, False):
            yield {"parallel." + flag: value}
    yield {"parallel.sequence_parallel": True, "parallel.tensor_overlap": True}
    yield {"parallel.overlap_grad_reduce": True, "parallel.overlap_param_gather": True}
    yield {"parallel.overlap_grad_reduce": False, "parallel.overlap_param_gather": False}
    for stage in range(4):
        yield {"parallel.zero_stage": stage}
        yield {"parallel.zero_stage": stage, "parallel.overlap_param_gather": True}
    for layers in (0, 1, 2, 3):
        yield {"parallel.prefetch_layers": layers}
        yield {"parallel.zero_stage": 3, "parallel.prefetch_layers": layers}
    for ranks in (4, 8, 16):
        yield {"parallel.zero_group": ranks}
    for dispatcher in ("alltoall", "allgather", "deepep"):
        yield {"parallel.token_dispatcher": dispatcher}
    for again in ("none", "selective", "full"):
        yield {"training.recompute": again}
    for flash in (True, False):
        yield {"training.flash_attention": flash}


class Neighbours(WithFolder):
    def test_no_neighbour_of_the_first_row_is_faster(self):
        for name, (model, cluster, devices, stack) in QUESTIONS.items():
            with self.subTest(name):
                first = self.folder.path / "first.json"
                tandem_json("search", model, "--cluster", cluster, "--devices", devices, "--stack", stack, "--best", 1, "--out", first)
                plan = json.loads(first.read_text())
                own = tandem_json("simulate", first)["step_time_s"]
                ran = 0
                for step in steps(plan):
                    code, out, _ = run("simulate", self.folder.plan(changed(plan, **step), "neighbour.json"), "--json")
                    if code != 0:  # refused by the layout, the stack or the lowering
                        continue
                    neighbour = json.loads(out)
                    ran += 1
                    if neighbour["fits"]:
                        self.assertGreater(neighbour["step_time_s"], (1 - TOLERANCE) * own, step)
                self.assertGreater(ran, 20)


if __name__ == "__main__":
    tandem.main()
