"""Plans whose exports the scripts of this folder give to the frameworks: every preset of a model in some layouts, and one plan for each feature."""
import copy
import json
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TANDEM = os.environ.get("TANDEM", str(ROOT / "build" / "tandem"))
PRESETS = sorted(path.stem for path in (ROOT / "models" / "presets").glob("*.json"))
TRAINING = {"seq_length": 2048, "micro_batch_size": 1, "global_batch_size": 512, "steps": 1000, "learning_rate": 3e-4, "min_learning_rate": 3e-5,
            "learning_rate_decay": "cosine", "warmup": 10}
ZERO1 = {"zero_stage": 1, "overlap_grad_reduce": True, "overlap_param_gather": True}
LAYOUTS = {"data": {"data": 8}, "zero1": {"data": 8, **ZERO1},
           "tensor": {"tensor": 2, "data": 4, "sequence_parallel": True, **ZERO1},
           "pipeline": {"tensor": 2, "pipeline": 4, "data": 4, "sequence_parallel": True, "zero_stage": 1}}
INTERLEAVED = {"pipeline": 4, "data": 4, "virtual_pipeline": 2, "schedule": "interleaved"}
MOE = {"data": 8, "expert": 8}

# Name: model, parallel, training, cluster.
MEGATRON_FEATURES = {
    "context ring": ("llama3-8b", {"context": 4, "data": 2}, {"seq_length": 8192}),
    "context all_gather": ("llama3-8b", {"context": 4, "context_mode": "all_gather", "data": 2}, {"seq_length": 8192}),
    "context ulysses": ("llama3-8b", {"context": 4, "context_mode": "ulysses", "data": 2}, {"seq_length": 8192}),
    "context levels": ("llama3-8b", {"context": 8, "ulysses": 4, "data": 2}, {"seq_length": 8192}),
    "fp8": ("llama3-8b", LAYOUTS["tensor"], {"precision": "fp8"}),
    "fp8 weights": ("llama3-8b", LAYOUTS["tensor"], {"precision": "fp8", "dtypes": {"weights": "fp8"}}),
    "fp8_block": ("llama3-8b", LAYOUTS["tensor"], {"precision": "fp8_block"}),
    "fp8_block weights": ("llama3-8b", LAYOUTS["tensor"], {"precision": "fp8_block", "dtypes": {"weights": "fp8_block"}}),
    "mxfp8": ("llama3-8b", LAYOUTS["tensor"], {"precision": "mxfp8"}, "dgx-b200"),
    "mxfp8 weights": ("llama3-8b", LAYOUTS["tensor"], {"precision": "mxfp8", "dtypes": {"weights": "mxfp8"}}, "dgx-b200"),
    "nvfp4": ("llama3-8b", LAYOUTS["tensor"], {"precision": "nvfp4"}, "dgx-b200"),
    "fp16": ("gpt3-175b", LAYOUTS["pipeline"], {"precision": "fp16"}),
    "fp16 wide": ("gpt-1.3b", LAYOUTS["data"], {"precision": "fp16", "dtypes": {"gradients": "fp32", "gradient_reduce": "fp32"}}),
    "fp32": ("gpt-1.3b", LAYOUTS["data"], {"precision": "fp32"}),
    "gradients bf16": ("llama3-8b", LAYOUTS["zero1"], {"dtypes": {"gradients": "bf16", "gradient_reduce": "bf16"}}),
    "states bf16": ("llama3-8b", LAYOUTS["zero1"], {"dtypes": {"optimizer_state": "bf16"}}),
    "recompute full": ("llama3-8b", LAYOUTS["tensor"], {"recompute": "full"}),
    "recompute block": ("llama3-8b", LAYOUTS["pipeline"], {"recompute": "full", "recompute_layers": 4}),
    "recompute block interleaved": ("llama3-8b", INTERLEAVED, {"recompute": "full", "recompute_layers": 4}),
    "recompute selective": ("gpt3-175b", LAYOUTS["pipeline"], {"recompute": "selective"}),
    "recompute modules": ("llama3-8b", LAYOUTS["tensor"], {"recompute": "selective", "recompute_modules": ["core_attention", "mlp"]}),
    "recompute norm": ("llama3-8b", LAYOUTS["tensor"], {"recompute": "selective", "recompute_modules": ["norm"]}),
    "expert tensor 1": ("qwen3-30b-a3b", {**MOE, "tensor": 2, "sequence_parallel": True, "expert_tensor": 1}, {}),
    "recompute moe": ("qwen3-30b-a3b", MOE, {"recompute": "selective", "recompute_modules": ["moe"]}),
    "recompute moe_act": ("deepseek-v2-lite", MOE, {"recompute": "selective", "recompute_modules": ["moe_activation", "mla_up_proj", "norm"]}),
    "interleaved": ("llama3-8b", INTERLEAVED, {}),
    "interleaved no overlap": ("llama3-8b", {**INTERLEAVED, "overlap_p2p": False}, {}),
    "interleaved groups": ("llama3-8b", INTERLEAVED, {"global_batch_size": 24}),
    "uneven": ("llama3-8b", {"pipeline": 4, "data": 4, "pipeline_split": [7, 9, 9, 7]}, {}),
    "uneven interleaved": ("llama3-8b", {**INTERLEAVED, "pipeline_split": [3, 4, 4, 4, 4, 4, 5, 4]}, {}),
    "uneven mtp": ("deepseek-v3", {"pipeline": 16, "data": 16, "expert": 16, "pipeline_split": [4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 3, 2]}, {}),
    "expert tensor": ("mixtral-8x7b", {"tensor": 4, "data": 4, "sequence_parallel": True, "expert": 2, "expert_tensor": 4}, {}),
    "expert overlap": ("qwen3-30b-a3b", {**MOE, "overlap_experts": True}, {}),
    "expert overlap interleaved": ("qwen3-30b-a3b", {**INTERLEAVED, **MOE, "overlap_experts": True}, {}),
    "deepep": ("deepseek-v3", {"pipeline": 2, "data": 32, "expert": 32, "token_dispatcher": "deepep"}, {}),
    "allgather": ("mixtral-8x7b", {"data": 8, "expert": 8, "token_dispatcher": "allgather"}, {}),
    "capacity": ("mixtral-8x7b", {"data": 8, "expert": 8}, {}, "dgx-h100", {"moe": {"capacity_factor": 1.25, "aux_loss": 0.01, "z_loss": 0.001}}),
    "zero2": ("llama3-8b", {"data": 8, "zero_stage": 2}, {}),
    "zero3": ("llama3-8b", {"data": 8, "zero_stage": 3}, {}),
    "zero3 tensor": ("llama3-8b", {"tensor": 2, "data": 8, "zero_stage": 3, "sequence_parallel": True}, {}),
    "zero3 experts": ("qwen3-30b-a3b", {"data": 16, "expert": 8, "zero_stage": 3}, {}),
    "zero3 blackwell": ("llama3-8b", {"data": 8, "zero_stage": 3}, {}, "dgx-b200"),
    "zero group": ("llama3-8b", {"data": 16, "zero_group": 8, **ZERO1}, {}),
    "pipeline before data": ("llama3-8b", {"tensor": 2, "pipeline": 2, "data": 4, "rank_order": "tp-cp-ep-pp-dp"}, {}),
    "buckets": ("llama3-8b", {"data": 8, **ZERO1, "bucket_bytes": "400 MB"}, {}),
    "tensor overlap": ("llama3-8b", {**LAYOUTS["tensor"], "tensor_overlap": True}, {}),
    "offload": ("llama3-8b", {"data": 8, **ZERO1, "offload": {"optimizer": True, "ratio": 0.5}}, {}),
    "muon": ("llama3-8b", {"data": 8}, {"optimizer": "muon"}),
    "muon zero1": ("llama3-8b", {"data": 8, **ZERO1}, {"optimizer": "muon"}),
    "muon tensor": ("llama3-8b", {"tensor": 2, "data": 4, "sequence_parallel": True}, {"optimizer": "muon", "muon": {"scale_mode": "shape", "nesterov": False}}),
    "sgd": ("gpt-1.3b", LAYOUTS["data"], {"optimizer": "sgd", "momentum": 0.9}),
    "samples": ("llama3-8b", LAYOUTS["zero1"], {"learning_rate_unit": "samples", "warmup": 5000, "decay_over": 400000}),
    "stable then decay": ("llama3-8b", LAYOUTS["zero1"], {"decay_start": 800}),
    "constant": ("llama3-8b", LAYOUTS["zero1"], {"learning_rate_decay": "constant"}),
    "ramp": ("gpt3-175b", LAYOUTS["pipeline"], {"batch_rampup": {"start": 64, "increment": 64, "samples": 200000}}),
    "documents": ("llama3-8b", LAYOUTS["zero1"], {"documents": "separate"}),
    "graphs of layers": ("llama3-8b", LAYOUTS["zero1"], {"cuda_graphs": "layers"}),
    "graph of the iteration": ("llama3-8b", LAYOUTS["zero1"], {"cuda_graphs": "iteration"}),
    "deterministic": ("llama3-8b", LAYOUTS["tensor"], {"deterministic": True}),
    "deterministic unfused": ("llama3-8b", LAYOUTS["tensor"], {"deterministic": True, "flash_attention": False}),
    "unfused attention": ("llama3-8b", LAYOUTS["tensor"], {"flash_attention": False}),
    "flash attention": ("llama3-8b", LAYOUTS["tensor"], {"attention_kernel": "flash2"}),
    "local": ("gpt-1.3b", LAYOUTS["data"], {"fusion": "megatron"}),
    "bridge's loss": ("llama3-8b", LAYOUTS["zero1"], {"fusion": "megatron-bridge"}),
    "dropout": ("gpt3-175b", LAYOUTS["pipeline"], {"dropout": {"hidden": 0.1, "attention": 0.1}}),
    "lora": ("llama2-70b", {"tensor": 8, "sequence_parallel": True}, {"lora": {"rank": 16}}),
    "float of a count": ("llama3-8b", LAYOUTS["data"], {"learning_rate": 1e-05, "min_learning_rate": 0, "clip_grad": 0}),
}


def merged(base, over):
    out = copy.deepcopy(base)
    for key, value in over.items():
        out[key] = merged(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
    return out


def plan_of(stack, model, parallel, training, cluster="dgx-h100", own=None):
    parallel = {key: value for key, value in parallel.items()}
    devices = parallel.get("tensor", 1) * parallel.get("pipeline", 1) * parallel.get("context", 1) * parallel.get("data", 1)
    facts = json.loads((ROOT / "models" / "presets" / f"{model}.json").read_text())
    training = {"seq_length": min(2048, facts.get("max_position_embeddings", 2048)), **training}
    return {"stack": stack, "model": merged({"preset": model}, own or {}), "parallel": parallel, "training": merged(TRAINING, training),
            "cluster": {"preset": cluster, "devices": devices}}


def plans(stack, layouts, features):
    """Name and plan: every preset in every layout, then the features."""
    for model in PRESETS:
        for name, parallel in layouts.items():
            yield f"{model} {name}", plan_of(stack, model, parallel, {})
    for name, parts in features.items():
        yield name, plan_of(stack, *parts)


def tandem(*arguments):
    return subprocess.run([TANDEM, *arguments], capture_output=True, text=True, check=False)


class Folder:
    """A folder for files of one process."""

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="tandem_frameworks_"))

    def write(self, name, text):
        path = self.path / name
        path.write_text(text)
        return str(path)


def explained(folder, plan):
    """What explain says of a plan; a text with its error where it is refused."""
    done = tandem("explain", folder.write("plan.json", json.dumps(plan)), "--json")
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr


def exported(folder, plan, framework, *more):
    """The exported text, or None and why."""
    done = tandem("export", folder.write("plan.json", json.dumps(plan)), "--to", framework, *more)
    return (done.stdout, "") if done.returncode == 0 else (None, done.stderr)


def same(a, b):
    """Equal, but for the rounding of a quotient."""
    return a == b or isinstance(a, float) and isinstance(b, float) and abs(a - b) <= 1e-14 * max(abs(a), abs(b))


def leaves(value, prefix=""):
    """The fields of nested objects by their dotted paths."""
    if isinstance(value, dict):
        return {k: v for key, one in value.items() for k, v in leaves(one, f"{prefix}.{key}" if prefix else key).items()}
    return {prefix: value}


def in_one_way(told):
    """The plan that explain prints, with what two fields can say said by one."""
    plan = copy.deepcopy(told["plan"])
    if moe := plan["model"].get("moe"):
        shared = moe.get("num_shared_experts", 0)
        moe["shared_ffn_hidden_size"] = moe.get("shared_ffn_hidden_size", 0) or shared * (moe.get("ffn_hidden_size") or plan["model"]["ffn_hidden_size"])
        moe["num_shared_experts"] = min(shared, 1)
    plan["parallel"]["pipeline_split"] = told["layers_per_stage"]
    return plan
