"""Runs exports as torchtitan's configurations in Python, validates and saves them, and gives the saved files, and those of its own configurations, to import."""
import contextlib
import importlib
import inspect
import io
import json
import os
import pathlib
import re
import sys

import plans as P
import torchtitan_layouts as L

ROOT = pathlib.Path(sys.argv[1]).resolve()  # a checkout of pytorch/torchtitan, 9810191bb (2026-02-23) or later
ONLY = sys.argv[2] if len(sys.argv) > 2 else ""
sys.path.insert(0, str(ROOT))
os.environ.update(LOCAL_RANK="0", RANK="0", WORLD_SIZE="1")

import torch  # noqa: E402

torch.cuda.get_device_capability = lambda *_: (9, 0)
import torchtitan.tools.utils as tools  # noqa: E402

tools.has_cuda_capability = lambda *_: True
from torchtitan.trainer import Trainer  # noqa: E402

MODELS = {"llama3": "llama3_8b", "qwen3": "qwen3_14b", "deepseek_v3": "deepseek_v3_16b", "gpt_oss": "gpt_oss_20b"}
FLAVORS = {preset: (name, flavor) for preset, (name, flavor) in L.FLAVORS.items() if name in MODELS}
# What export leaves to the program.
BESIDE = re.compile(r"(^|\.)(name|notes)$|^stack\.|^model\.|^cluster\.|^\$schema|^training\.documents$|^parallel\.rank_order$|^training\.expandable_segments$")

OF_THE_MODEL = re.compile(BESIDE.pattern + r"|^training\.(precision|dtypes\.)|^parallel\.token_dispatcher$")  # converters and dispatchers


def registry(name):
    return importlib.import_module(f"torchtitan.models.{name}.config_registry")


def saved(folder, config, name="saved.json"):
    """What torchtitan saves of a configuration that it takes."""
    config.__post_init__()
    for section in (config.training, config.parallelism, config.compile):
        if hasattr(section, "__post_init__"):
            section.__post_init__()
    return folder.write(name, json.dumps(config.to_dict()))


def import_of(folder, path, cluster, ranks):
    done = P.tandem("import", path, "--cluster", cluster, "--devices", str(ranks), "--out", str(folder.path / "again.json"))
    return done.stderr[-700:] if done.returncode else P.explained(folder, json.loads((folder.path / "again.json").read_text()))


def check_exports(folder, rows):
    for name, plan in L.plans(FLAVORS, "torchtitan"):
        if ONLY and not re.search(ONLY, f"export {name}"):
            continue
        text, error = P.exported(folder, plan, "torchtitan")
        row = rows[f"export {name}"] = {}
        if text is None:
            row["refused"] = re.sub(r"tandem: error: \S+: ", "", error)[:400]
            continue
        module, flavor = FLAVORS[plan["model"]["preset"]]
        try:
            config = getattr(registry(module), MODELS[module])()
            config.model_spec = registry(module).model_registry(flavor)
            code = {}
            exec(compile(text, name, "exec"), code)  # our own text
            path = saved(folder, code["plan"](config))
        except Exception as problem:  # what the framework says of the configuration
            row["error"] = f"{type(problem).__name__}: {problem}"[:500]
            continue
        there = import_of(folder, path, plan["cluster"]["preset"], plan["cluster"]["devices"])
        if isinstance(there, str):
            row["import"] = there
            continue
        here, there = (P.leaves(P.in_one_way(one)) for one in (P.explained(folder, plan), there))
        beside = OF_THE_MODEL if name in ("fp8", "fp8 weights", "mxfp8", "deepep") else BESIDE
        if differ := {k: (here.get(k), there.get(k)) for k in sorted(set(here) | set(there)) if not beside.search(k) and not P.same(here.get(k), there.get(k))}:
            row["read back"] = differ


def check_configurations(folder, rows):
    """torchtitan's own configurations of models that have a preset."""
    for module in MODELS:
        for name, made in sorted(vars(registry(module)).items()):
            if not inspect.isfunction(made) or inspect.signature(made).parameters or not name.startswith(module.split("_v")[0]) or ONLY and not re.search(ONLY, f"own {name}"):
                continue
            row = rows[f"own {name}"] = {}
            config = made()
            if not isinstance(config, Trainer.Config) or config.model_spec.flavor not in {flavor for _, flavor in FLAVORS.values()}:
                row["refused"] = "no preset"
                continue
            config.parallelism.data_parallel_shard_degree = -1
            told = import_of(folder, saved(folder, config), "dgx-h100", 64)
            if isinstance(told, str):
                row["import"] = told
                continue
            plan, t = told["plan"], config.training
            tokens = plan["training"]["micro_batch_size"] * plan["training"]["seq_length"]
            said = {"tokens": (tokens, t.num_tokens_per_microbatch_per_dp_rank), "layers": (plan["model"]["num_layers"], len(config.model_spec.model.layers)),
                    "recompute": (plan["training"]["recompute"], {"SelectiveAC": "selective", "FullAC": "full"}.get(type(config.activation_checkpoint).__qualname__.split(".")[0], "none")),
                    "rate": (plan["training"]["learning_rate"], config.optimizer.param_groups[-1].optimizer_kwargs["lr"])}
            if differ := {k: pair for k, pair in said.items() if pair[0] != pair[1]}:
                row["differs"] = differ


def main():
    folder, rows = P.Folder(), {}
    with contextlib.redirect_stderr(io.StringIO()):
        check_configurations(folder, rows)
        check_exports(folder, rows)
    for name, row in rows.items():
        if set(row) - {"refused"}:
            print(name, json.dumps(row, default=str))
    print({"checked": len(rows), "refused": sum("refused" in r for r in rows.values()), "wrong": sum(bool(set(r) - {"refused"}) for r in rows.values())})


main()
