"""Gives exports to DeepSpeed's own DeepSpeedConfig, with a world size of the plan's."""
import contextlib
import io
import json
import pathlib
import re
import sys

import plans as P

ROOT = pathlib.Path(sys.argv[1]).resolve()  # a checkout of deepspeedai/DeepSpeed, or its unpacked sdist
ONLY = sys.argv[2] if len(sys.argv) > 2 else ""
sys.path.insert(0, str(ROOT))

with contextlib.redirect_stdout(io.StringIO()):
    import deepspeed.comm as dist
    from deepspeed.runtime import config as C
    from deepspeed.runtime.lr_schedules import VALID_LR_SCHEDULES

LAYOUTS = {"zero1": {"data": 8, "zero_stage": 1}, "zero2": {"data": 8, "zero_stage": 2, "overlap_grad_reduce": True},
           "zero3": {"data": 8, "zero_stage": 3, "overlap_grad_reduce": True}, "pipeline": {"pipeline": 4, "data": 2, "zero_stage": 1},
           "tensor": {"tensor": 2, "data": 4, "zero_stage": 1}}
FEATURES = {
    "fp16": ("gpt-1.3b", LAYOUTS["zero2"], {"precision": "fp16"}),
    "fp16 scale": ("gpt-1.3b", LAYOUTS["zero2"], {"precision": "fp16", "loss_scale": {"initial": 65536, "window": 500, "hysteresis": 4, "minimum": 1}}),
    "fp32": ("gpt-1.3b", LAYOUTS["zero2"], {"precision": "fp32"}),
    "reduce fp32": ("gpt-1.3b", LAYOUTS["zero2"], {"dtypes": {"gradients": "fp32", "gradient_reduce": "fp32"}}),
    "all-reduce": ("gpt-1.3b", {**LAYOUTS["zero2"], "reduce_scatter": False}, {}),
    "buckets": ("gpt-1.3b", {**LAYOUTS["zero2"], "bucket_bytes": "100 MB"}, {}),
    "reuse": ("gpt-1.3b", {**LAYOUTS["zero3"], "reuse_distance": 0}, {}),
    "offload": ("gpt-1.3b", {**LAYOUTS["zero2"], "offload": {"optimizer": True}}, {}),
    "offload some": ("gpt-1.3b", {**LAYOUTS["zero3"], "offload": {"optimizer": True, "ratio": 0.5}}, {}),
    "offload all": ("gpt-1.3b", {**LAYOUTS["zero3"], "offload": {"optimizer": True, "parameters": True}}, {}),
    "ulysses": ("gpt-1.3b", {"data": 4, "context": 2, "context_mode": "ulysses", "zero_stage": 3}, {}),
    "sgd": ("gpt-1.3b", {"data": 8}, {"precision": "fp16", "optimizer": "sgd", "momentum": 0.9}),
    "lamb": ("gpt-1.3b", {"data": 8}, {"precision": "fp16", "optimizer": "lamb"}),
    "muon": ("gpt-1.3b", LAYOUTS["zero1"], {"optimizer": "muon", "muon": {"scale_mode": "shape", "scale": 1}}),
    "linear": ("gpt-1.3b", LAYOUTS["zero1"], {"learning_rate_decay": "linear", "warmup": 100}),
    "constant": ("gpt-1.3b", LAYOUTS["zero1"], {"learning_rate_decay": "constant", "warmup": 100}),
    "cosine": ("gpt-1.3b", LAYOUTS["zero1"], {"learning_rate_decay": "cosine", "warmup": 100, "decay_over": 900}),
    "no clip": ("gpt-1.3b", LAYOUTS["zero1"], {"clip_grad": 0}),
}


def plans():
    for model in ("gpt-1.3b", "gpt2-345m", "llama2-7b", "llama3-8b", "bloom-176b", "gpt-neox-20b", "llama2-70b", "mistral-7b"):
        for name, parallel in LAYOUTS.items():
            yield f"{model} {name}", P.plan_of("megatron-deepspeed", model, parallel, {"min_learning_rate": 0})
    for name, (model, parallel, training) in FEATURES.items():
        yield name, P.plan_of("megatron-deepspeed", model, parallel, {"min_learning_rate": 0, **training})


class Ranks:
    """DeepSpeed asks a model-parallel unit for the number of data-parallel ranks."""

    def __init__(self, ranks):
        self.ranks = ranks

    def get_data_parallel_world_size(self):
        return self.ranks


def said(parsed, plan, document):
    """Pairs of what DeepSpeed understood and what the plan says."""
    p, q, z = plan["training"], plan["parallel"], parsed.zero_config
    stage = 2 if q["zero_stage"] == 3 and q["tensor"] > 1 else q["zero_stage"]
    yield "micro-batch", parsed.train_micro_batch_size_per_gpu, p["micro_batch_size"]
    yield "batch", parsed.train_batch_size, p["global_batch_size"]
    yield "sums", parsed.gradient_accumulation_steps, p["global_batch_size"] // p["micro_batch_size"] // q["data"]
    yield "stage", int(z.stage), stage
    yield "clip", parsed.gradient_clipping, p["clip_grad"]
    yield "bf16", parsed.bfloat16_config.enabled, p["precision"] == "bf16"
    yield "fp16", parsed.float16_config.enabled, p["precision"] == "fp16"
    yield "accumulates in", parsed.grad_accum_dtype, p["dtypes"]["gradients"]
    if stage:
        yield "overlap", bool(z.overlap_comm), q.get("overlap_grad_reduce", False)
        yield "bucket", z.reduce_bucket_size * (4 if p["precision"] == "fp32" else 2), q["bucket_bytes"]
        yield "offloads", z.offload_optimizer is not None and str(getattr(z.offload_optimizer.device, "value", z.offload_optimizer.device)) == "cpu", q.get("offload", {}).get("optimizer", False)
    if stage in (1, 2):
        yield "reduce_scatter", z.reduce_scatter, q.get("reduce_scatter", True)
    if stage == 3:
        yield "reuse", z.max_reuse_distance, q.get("reuse_distance")
    if p["precision"] == "fp16":
        yield "scale", 2**parsed.float16_config.initial_scale_power, p["loss_scale"]["initial"]
        yield "scale's window", parsed.float16_config.loss_scale_window, p["loss_scale"]["window"]
        yield "scale's hysteresis", parsed.float16_config.hysteresis, p["loss_scale"]["hysteresis"]
        yield "scale's minimum", parsed.float16_config.min_loss_scale, p["loss_scale"]["minimum"]
    yield "scheduler known", parsed.scheduler_name is None or parsed.scheduler_name in VALID_LR_SCHEDULES, True


def main():
    folder, rows = P.Folder(), {}
    for name, plan in plans():
        if ONLY and not re.search(ONLY, name):
            continue
        text, error = P.exported(folder, plan, "deepspeed")
        if text is None:
            rows[name] = {"refused": re.sub(r"tandem: error: \S+: ", "", error)[:400]}
            continue
        row = rows[name] = {}
        told = P.explained(folder, plan)["plan"]
        ranks = told["parallel"]["data"]
        dist.get_rank, dist.get_world_size = lambda *_: 0, lambda *_: ranks
        log = io.StringIO()
        try:
            with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
                parsed = C.DeepSpeedConfig(json.loads(text), mpu=Ranks(ranks))
            if differ := {k: (a, b) for k, a, b in said(parsed, told, json.loads(text)) if a != b}:
                row["differs"] = differ
        except Exception as problem:
            row["error"] = f"{type(problem).__name__}: {problem}"[:500]
        if odd := re.findall(r".*(?:deprecated|WARNING|nknown|ignor).*", log.getvalue()):
            row["told"] = sorted(set(odd))[:4]
    for name, row in rows.items():
        if row:
            print(name, json.dumps(row, default=str))
    print({"exported": sum("refused" not in r for r in rows.values()), "refused": sum("refused" in r for r in rows.values()),
           "wrong": sum(bool(set(r) - {"refused", "told"}) for r in rows.values())})


main()
