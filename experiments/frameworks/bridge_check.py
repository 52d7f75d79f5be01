"""Gives recipes, as Megatron-Bridge itself resolves and saves them, to import, and exports to its ConfigContainer and back."""
import contextlib
import importlib
import inspect
import io
import json
import os
import pathlib
import re
import sys

import absent
import plans as P

BRIDGE, MEGATRON = (pathlib.Path(path).resolve() for path in sys.argv[1:3])  # checkouts of NVIDIA-NeMo/Megatron-Bridge and of the Megatron-LM that it pins
ONLY = sys.argv[3] if len(sys.argv) > 3 else ""
sys.path[:0] = [str(BRIDGE / "src"), str(MEGATRON)]
absent.stand_in_for("transformer_engine", "transformer_engine_torch", "nvidia_resiliency_ext", "modelopt", "megatron_energon", "megatron.energon", "flash_attn", "mamba_ssm",
                    "causal_conv1d", "fla", "qwen_vl_utils", "timm", "diffusers", "open_clip", "mlflow", "comet_ml", "decord", "av", "imageio", "megatron.bridge.diffusion")
os.environ["HF_HUB_OFFLINE"] = "1"
import torch  # noqa: E402

torch.cuda.get_device_capability = lambda *_: (9, 0)
torch.cuda.get_device_properties = lambda *_: type("Properties", (), {"major": 9, "minor": 0, "name": "absent", "total_memory": 80 << 30, "multi_processor_count": 132})
torch.cuda.current_device = lambda: 0

import megatron.core.utils as core_utils  # noqa: E402
from packaging.version import Version  # noqa: E402

core_utils._te_version = Version("2.12.0")
import transformer_engine.pytorch.optimizers as te_optimizers  # noqa: E402


class FusedAdam:
    """Megatron-Core asks for the names of the arguments alone."""

    def __init__(self, params, master_weight_dtype=None, exp_avg_dtype=None, exp_avg_sq_dtype=None, use_decoupled_grad=False, store_param_remainders=False):
        pass


te_optimizers.FusedAdam = FusedAdam
from megatron.bridge import AutoBridge  # noqa: E402

LLAMA3 = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 128256, "rope_theta": 500000.0, "rms_norm_eps": 1e-5, "max_position_embeddings": 8192,
          "num_key_value_heads": 8, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
STRETCHED = {"max_position_embeddings": 131072,
             "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}}
QWEN3 = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 151936, "rope_theta": 1e6, "rms_norm_eps": 1e-6, "max_position_embeddings": 40960, "head_dim": 128,
         "num_key_value_heads": 8, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
QWEN2 = {**QWEN3, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": 152064, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "head_dim": None}
EXPERTS = {**QWEN3, "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [],
           "norm_topk_prob": True, "router_aux_loss_coef": 0.001, "num_key_value_heads": 4}


def sizes(base, layers, hidden, heads, ffn, **more):
    return {**base, "num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads, "intermediate_size": ffn, **more}


# The hub's config.json files, as far as Megatron-Bridge reads them.
HUB = {
    "meta-llama/Meta-Llama-3-8B": sizes(LLAMA3, 32, 4096, 32, 14336), "meta-llama/Meta-Llama-3-70B": sizes(LLAMA3, 80, 8192, 64, 28672),
    "meta-llama/Meta-Llama-3.1-8B": sizes({**LLAMA3, **STRETCHED}, 32, 4096, 32, 14336), "meta-llama/Meta-Llama-3.1-70B": sizes({**LLAMA3, **STRETCHED}, 80, 8192, 64, 28672),
    "meta-llama/Meta-Llama-3.1-405B": sizes({**LLAMA3, **STRETCHED}, 126, 16384, 128, 53248),
    "meta-llama/Llama-3.2-1B": sizes({**LLAMA3, **STRETCHED}, 16, 2048, 32, 8192, tie_word_embeddings=True), "meta-llama/Llama-3.2-3B": sizes({**LLAMA3, **STRETCHED}, 28, 3072, 24, 8192, tie_word_embeddings=True),
    "meta-llama/Llama-2-7b-hf": sizes({**LLAMA3, "vocab_size": 32000, "rope_theta": 1e4, "max_position_embeddings": 4096, "num_key_value_heads": 32}, 32, 4096, 32, 11008),
    "Qwen/Qwen3-0.6B": sizes(QWEN3, 28, 1024, 16, 3072, tie_word_embeddings=True), "Qwen/Qwen3-1.7B": sizes(QWEN3, 28, 2048, 16, 6144, tie_word_embeddings=True),
    "Qwen/Qwen3-4B": sizes(QWEN3, 36, 2560, 32, 9728, tie_word_embeddings=True), "Qwen/Qwen3-8B": sizes(QWEN3, 36, 4096, 32, 12288),
    "Qwen/Qwen3-14B": sizes(QWEN3, 40, 5120, 40, 17408), "Qwen/Qwen3-32B": sizes(QWEN3, 64, 5120, 64, 25600),
    "Qwen/Qwen3-30B-A3B": sizes(EXPERTS, 48, 2048, 32, 6144, moe_intermediate_size=768), "Qwen/Qwen3-235B-A22B": sizes(EXPERTS, 94, 4096, 64, 12288, moe_intermediate_size=1536),
    "Qwen/Qwen2.5-7B": sizes(QWEN2, 28, 3584, 28, 18944, num_key_value_heads=4), "Qwen/Qwen2.5-14B": sizes(QWEN2, 48, 5120, 40, 13824),
    "Qwen/Qwen2.5-32B": sizes(QWEN2, 64, 5120, 40, 27648), "Qwen/Qwen2.5-72B": sizes(QWEN2, 80, 8192, 64, 29568),
    "Qwen/Qwen2-7B": sizes(QWEN2, 28, 3584, 28, 18944, num_key_value_heads=4), "Qwen/Qwen2-72B": sizes(QWEN2, 80, 8192, 64, 29568),
}
FOLDER = P.Folder()
of_the_hub = AutoBridge.from_hf_pretrained.__func__


def from_here(cls, path, **named):
    if str(path) not in HUB:
        raise LookupError(f"no config.json of {path}")
    here = FOLDER.path / str(path).replace("/", "_")
    here.mkdir(exist_ok=True)
    (here / "config.json").write_text(json.dumps({k: v for k, v in HUB[str(path)].items() if v is not None}))
    return of_the_hub(cls, str(here), **named)


AutoBridge.from_hf_pretrained = classmethod(from_here)
PACKAGES = ("megatron.bridge.perf_recipes.llama", "megatron.bridge.perf_recipes.qwen", "megatron.bridge.recipes.llama", "megatron.bridge.recipes.qwen", "megatron.bridge.recipes.gpt")
DEVICES = {"h100": ("dgx-h100", 9), "b200": ("dgx-b200", 10), "b300": ("dgx-b300", 10), "gb200": ("gb200-nvl72", 10), "gb300": ("gb300-nvl72", 10)}


def recipes():
    """Recipes of pretraining: name, function, devices and generation."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        for root in (module, *(importlib.import_module(f"{package}.{p.stem if p.is_file() else p.name}") for p in pathlib.Path(module.__file__).parent.iterdir()
                               if p.name in DEVICES)):
            for name, made in sorted(vars(root).items()):
                found = re.search(r"pretrain_(\d+)gpu_(\w+?)_", name)
                if found and found[2] in DEVICES and inspect.isfunction(made):
                    yield name, made, int(found[1]), found[2]


def resolved(config, ranks, major):
    """The configuration as Megatron-Bridge runs it."""
    os.environ.update(WORLD_SIZE=str(ranks), RANK="0", LOCAL_RANK="0")
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    torch.cuda.get_device_capability = lambda *_: (major, 0)
    from megatron.bridge.training.config import runtime_config_update
    runtime_config_update(config)
    return config


# Fields of the plan and what they must be by the configuration that Megatron-Bridge resolved.
def said(config, ranks):
    m, t, d = config.model, config.train, config.ddp
    yield "model.num_layers", m.num_layers
    yield "model.hidden_size", m.hidden_size
    yield "model.num_attention_heads", m.num_attention_heads
    yield "model.num_kv_heads", m.num_query_groups
    yield "model.ffn_hidden_size", m.ffn_hidden_size
    yield "model.tie_embeddings", m.share_embeddings_and_output_weights
    yield "parallel.tensor", m.tensor_model_parallel_size
    yield "parallel.pipeline", m.pipeline_model_parallel_size
    yield "parallel.context", m.context_parallel_size
    yield "parallel.sequence_parallel", m.sequence_parallel
    yield "parallel.virtual_pipeline", m.virtual_pipeline_model_parallel_size or 1
    yield "parallel.data", ranks // (m.tensor_model_parallel_size * m.pipeline_model_parallel_size * m.context_parallel_size)
    yield "parallel.overlap_grad_reduce", d.overlap_grad_reduce
    yield "parallel.overlap_param_gather", d.overlap_param_gather
    yield "parallel.tensor_overlap", bool(m.tp_comm_overlap)
    yield "parallel.zero_stage", ({"optim_grads_params": 3, "optim_grads": 2, "optim": 1}.get(d.data_parallel_sharding_strategy, 0) if d.use_megatron_fsdp else int(d.use_distributed_optimizer))
    yield "training.micro_batch_size", t.micro_batch_size
    yield "training.global_batch_size", t.global_batch_size
    yield "training.seq_length", config.dataset.seq_length
    yield "training.recompute", m.recompute_granularity or "none"
    yield "training.dtypes.gradient_reduce", "fp32" if d.grad_reduce_in_fp32 else "bf16"
    yield "training.learning_rate", config.optimizer.lr
    yield "training.min_learning_rate", config.optimizer.min_lr
    yield "training.warmup", config.scheduler.lr_warmup_iters
    yield "training.steps", t.train_iters
    yield "training.weight_decay", config.optimizer.weight_decay
    yield "training.clip_grad", config.optimizer.clip_grad
    yield "training.seed", config.rng.seed
    if m.num_moe_experts:
        yield "model.moe.num_experts", m.num_moe_experts
        yield "model.moe.experts_per_token", m.moe_router_topk
        yield "model.moe.ffn_hidden_size", m.moe_ffn_hidden_size
        yield "parallel.expert", m.expert_model_parallel_size
        yield "parallel.expert_tensor", m.expert_tensor_parallel_size


def entry(tree, path):
    for key in path.split("."):
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def import_of(config, cluster, ranks):
    path = str(FOLDER.path / "run_config.yaml")
    config.to_yaml(path)
    done = P.tandem("import", path, "--cluster", cluster, "--devices", str(ranks), "--out", str(FOLDER.path / "again.json"))
    if done.returncode != 0:
        return done.stderr[-700:]
    return P.explained(FOLDER, json.loads((FOLDER.path / "again.json").read_text()))


def check_recipes(rows):
    for name, made, ranks, device in recipes():
        if ONLY and not re.search(ONLY, name):
            continue
        row = rows[f"recipe {name}"] = {}
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                config = resolved(made(), ranks, DEVICES[device][1])
        except Exception as problem:
            row["not resolved"] = f"{type(problem).__name__}: {problem}"[:300]
            continue
        told = import_of(config, DEVICES[device][0], ranks)
        if isinstance(told, str):
            row["import"] = told
        elif differ := {k: (entry(told["plan"], k), v) for k, v in said(config, ranks) if entry(told["plan"], k) != v}:
            row["differs"] = differ


# Megatron-Bridge sets the decay's end where a file says none, and the longest sequence to that of the data.
BESIDE = re.compile(r"(^|\.)(name|notes)$|^stack\.|^model\.family$|^cluster\.|^\$schema|^model\.max_position_embeddings$")


def check_exports(rows):
    """Exports as ConfigContainer reads and validates them, and what it saves as import reads it."""
    from megatron.bridge.training.config import ConfigContainer
    for name, plan in P.plans("nemo", P.LAYOUTS, P.MEGATRON_FEATURES):
        if ONLY and not re.search(ONLY, f"export {name}"):
            continue
        text, error = P.exported(FOLDER, plan, "megatron-bridge")
        row = rows[f"export {name}"] = {}
        if text is None:
            row["refused"] = re.sub(r"tandem: error: \S+: ", "", error)[:300]
            continue
        ranks, cluster = plan["cluster"]["devices"], plan["cluster"]["preset"]
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                config = resolved(ConfigContainer.from_yaml(FOLDER.write("exported.yaml", text)), ranks, 10 if cluster.endswith("b200") else 9)
        except Exception as problem:  # what the framework says of the file
            row["error"] = f"{type(problem).__name__}: {problem}"[:500]
            continue
        there = import_of(config, cluster, ranks)
        if isinstance(there, str):
            row["import"] = there
            continue
        here, there = (P.leaves(P.in_one_way(one)) for one in (P.explained(FOLDER, plan), there))
        there["training.decay_over"] = 0 if there["training.decay_over"] == there["training.steps"] and not here["training.decay_over"] else there["training.decay_over"]
        if differ := {k: (here.get(k), there.get(k)) for k in sorted(set(here) | set(there)) if not BESIDE.search(k) and not P.same(here.get(k), there.get(k))}:
            row["read back"] = differ


def main():
    rows = {}
    if not ONLY.startswith("export"):
        check_recipes(rows)
    check_exports(rows)
    for name, row in rows.items():
        if set(row) - {"refused"}:
            print(name, json.dumps(row, default=str))
    print({"checked": len(rows), "exports refused": sum("refused" in r for r in rows.values()), "not resolved": sum("not resolved" in r for r in rows.values()), "wrong": sum(bool(set(r) - {"refused", "not resolved"}) for r in rows.values())})


main()
