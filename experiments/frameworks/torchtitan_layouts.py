"""Plans whose exports are given to torchtitan."""
import json

import plans as P

TABLE = json.loads((P.ROOT / "models" / "arguments" / "torchtitan.json").read_text())
FLAVORS = {preset: (name, flavor) for name, flavors in TABLE["facts"]["presets"].items() if name != "llama2" for flavor, preset in flavors.items()}
SHARDED = {"data": 8, "zero_stage": 3}
STAGED = {"pipeline": 4, "data": 2, "zero_stage": 2}
LAYOUTS = {"zero3": SHARDED, "zero2": {"data": 8, "zero_stage": 2}, "copies": {"data": 8, "zero_stage": 0},
           "tensor": {"tensor": 2, **SHARDED}, "pipeline": STAGED, "interleaved": {**STAGED, "virtual_pipeline": 2, "schedule": "interleaved"}}
FEATURES = {
    "groups": ("llama3-8b", {**SHARDED, "data": 16, "zero_group": 8}, {}),
    "context ring": ("llama3-8b", {**SHARDED, "context": 2}, {}),
    "context all_gather": ("llama3-8b", {**SHARDED, "context": 2, "context_mode": "all_gather"}, {}),
    "gpipe": ("llama3-8b", {**STAGED, "schedule": "gpipe"}, {}),
    "breadth-first": ("llama3-8b", {**STAGED, "virtual_pipeline": 2, "schedule": "breadth-first"}, {}),
    "three chunks": ("llama3-8b", {**STAGED, "virtual_pipeline": 3, "schedule": "interleaved"}, {}),
    "four chunks": ("llama3-8b", {**STAGED, "virtual_pipeline": 4, "schedule": "interleaved"}, {}),
    "zb-v": ("llama3-8b", {**STAGED, "schedule": "zb-v", "virtual_pipeline": 2}, {}),
    "dualpipe-v": ("llama3-8b", {**STAGED, "zero_stage": 0, "schedule": "dualpipe-v", "virtual_pipeline": 2}, {}),
    "uneven": ("llama3-8b", {**STAGED, "pipeline_split": [7, 9, 9, 7]}, {}),
    "very uneven": ("llama3-8b", {**STAGED, "pipeline_split": [5, 9, 10, 8]}, {}),
    "balanced": ("llama3-8b", {**STAGED, "pipeline_split": "balanced"}, {}),
    "sums": ("llama3-8b", SHARDED, {"global_batch_size": 64}),
    "full": ("llama3-8b", SHARDED, {"recompute": "full"}),
    "full of some": ("llama3-8b", SHARDED, {"recompute": "full", "recompute_layers": 16}),
    "operations": ("llama3-8b", SHARDED, {"recompute": "selective", "recompute_modules": ["operations"]}),
    "early stop": ("llama3-8b", SHARDED, {"recompute": "full", "recompute_early_stop": True}),
    "compiled": ("llama3-8b", SHARDED, {"fusion": "compiled"}),
    "compiled blocks": ("llama3-8b", SHARDED, {"fusion": "compiled-blocks"}),
    "fp8": ("llama3-8b", SHARDED, {"precision": "fp8", "fusion": "compiled"}),
    "fp8 weights": ("llama3-8b", SHARDED, {"precision": "fp8", "dtypes": {"weights": "fp8"}, "fusion": "compiled"}),
    "mxfp8": ("llama3-8b", SHARDED, {"precision": "mxfp8", "fusion": "compiled"}, "dgx-b200"),
    "fp32": ("llama3-8b", SHARDED, {"precision": "fp32"}),
    "offload": ("llama3-8b", {**SHARDED, "offload": {"parameters": True, "optimizer": True}}, {}),
    "async tensor": ("llama3-8b", {"tensor": 2, **SHARDED, "tensor_overlap": True}, {"fusion": "compiled"}),
    "experts": ("deepseek-v2-lite", {**SHARDED, "expert": 8}, {}, "dgx-h100", {"mtp": {"num_layers": 0}}),
    "experts tensor": ("qwen3-30b-a3b", {"tensor": 2, **SHARDED, "expert": 4, "expert_tensor": 2}, {}),
    "experts tensor 1": ("qwen3-30b-a3b", {"tensor": 2, **SHARDED, "expert": 4, "expert_tensor": 1}, {}),
    "deepep": ("deepseek-v3", {**SHARDED, "data": 16, "expert": 16, "token_dispatcher": "deepep"}, {}),
    "decay": ("llama3-8b", SHARDED, {"decay_over": 5000, "decay_start": 4000, "warmup": 100}),
    "constant": ("llama3-8b", SHARDED, {"learning_rate_decay": "constant"}),
    "float": ("llama3-8b", SHARDED, {"learning_rate": 1, "min_learning_rate": 0, "clip_grad": 0, "weight_decay": 0}),
}


def plans(flavors, stack):
    for model in sorted(flavors):
        for name, parallel in LAYOUTS.items():
            yield f"{model} {name}", P.plan_of(stack, model, parallel, {})
    for name, parts in FEATURES.items():
        yield name, P.plan_of(stack, *parts)
