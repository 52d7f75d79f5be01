"""Gives exports to torchtitan's own ConfigManager, meshes, models and pipelines, and its resolved files and JSON back to import."""
import contextlib
import copy
import io
import json
import os
import pathlib
import re
import sys

import plans as P
import torchtitan_layouts as L

ROOT = pathlib.Path(sys.argv[1]).resolve()  # a checkout of pytorch/torchtitan, e347b1e5e (2026-02-15) or before
ONLY = sys.argv[2] if len(sys.argv) > 2 else ""
sys.argv = sys.argv[:1]
sys.path.insert(0, str(ROOT))
os.environ.update(LOCAL_RANK="0", RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="29578")

import torch  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402
from torchtitan.config import ConfigManager  # noqa: E402
from torchtitan.distributed import ParallelDims  # noqa: E402
from torchtitan.distributed.pipeline_parallel import pipeline_llm  # noqa: E402
from torchtitan.protocols.train_spec import get_train_spec  # noqa: E402

BESIDE = re.compile(r"(^|\.)(name|notes)$|^stack\.|^model\.|^cluster\.|^\$schema")


def config_of(path):
    with contextlib.redirect_stderr(io.StringIO()) as told:
        try:
            return ConfigManager().parse_args(["--job.config_file", path])
        except SystemExit:
            raise ValueError(told.getvalue()[-500:]) from None


def dims_of(config, ranks):
    q = config.parallelism
    return ParallelDims(dp_shard=q.data_parallel_shard_degree, dp_replicate=q.data_parallel_replicate_degree, cp=q.context_parallel_degree,
                        tp=q.tensor_parallel_degree, pp=q.pipeline_parallel_degree, ep=q.expert_parallel_degree, etp=q.expert_tensor_parallel_degree, world_size=ranks)


MODELS = {}


def model_of(config):
    spec = get_train_spec(config.model.name)
    args = copy.deepcopy(spec.model_args[config.model.flavor])
    args.update_from_config(config)
    if (config.model.name, config.model.flavor) not in MODELS:
        with torch.device("meta"):
            MODELS[config.model.name, config.model.flavor] = spec.model_cls(args)
    return MODELS[config.model.name, config.model.flavor], args


def world(ranks, rank):
    """A process group of ranks that are not here."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)


class Rank:
    """The mesh of the pipeline as one of its ranks sees it."""

    def __init__(self, rank, ranks):
        self.rank, self.ranks = rank, ranks

    def get_local_rank(self, *_):
        return self.rank

    def size(self, *_):
        return self.ranks

    def get_group(self, *_):
        return torch.distributed.group.WORLD


def split_of(config, dims, model, args):
    """Layers of every chunk, in the order of the model, as torchtitan cuts it."""
    layers = {}
    for rank in range(dims.pp):
        world(dims.pp, rank)
        view = type("Dims", (), {"pp": dims.pp, "get_mesh": lambda self, name, rank=rank: Rank(rank, dims.pp)})()
        schedule, parts, _, _ = pipeline_llm(model, view, config, torch.device("cpu"), args, lambda m, *_: m, lambda *_: None)
        stages = getattr(schedule, "_stages", None) or [schedule._stage]
        layers.update({stage.stage_index: len(part.layers or ()) for stage, part in zip(stages, parts)})
    return [layers[i] for i in sorted(layers)], type(schedule).__name__, schedule._n_microbatches


def main():
    folder, rows = P.Folder(), {}
    for name, plan in L.plans(L.FLAVORS, "torchtitan@2026-02"):
        if ONLY and not re.search(ONLY, name):
            continue
        text, error = P.exported(folder, plan, "torchtitan")
        if text is None:
            rows[name] = {"refused": re.sub(r"tandem: error: \S+: ", "", error)[:400]}
            continue
        row = rows[name] = {}
        model_name, flavor = L.FLAVORS[plan["model"]["preset"]]
        path = folder.write("run.toml", f'{text}\n[model]\nname = "{model_name}"\nflavor = "{flavor}"\n' if "[model]" not in text
                            else text.replace("[model]\n", f'[model]\nname = "{model_name}"\nflavor = "{flavor}"\n'))
        told = P.explained(folder, plan)
        try:
            config = config_of(path)
            ranks = plan["cluster"]["devices"]
            dims = dims_of(config, ranks)
            world(ranks, 0)
            dims.build_mesh()
            degree = dims.dp_replicate * dims.dp_shard
            assert config.training.global_batch_size % (config.training.local_batch_size * degree) == 0, "batch"
            model, args = model_of(config)
            count = sum(p.numel() for p in model.parameters())
            row["parameters"] = [count, told["parameters"]["total"]]
            if count != told["parameters"]["total"]:
                row["parameters differ"] = count - told["parameters"]["total"]
            if dims.pp > 1:
                split, schedule, micro_batches = split_of(config, dims, model, args)
                if split != told["layers_per_stage"]:
                    row["split"] = [split, told["layers_per_stage"]]
                if micro_batches != told["micro_batches"]:
                    row["micro-batches"] = [micro_batches, told["micro_batches"]]
                row["schedule"] = schedule
        except Exception as problem:
            row["error"] = f"{type(problem).__name__}: {problem}"[:500]
            continue
        saved = folder.write("config.json", json.dumps(config.to_dict() if hasattr(config, "to_dict") else __import__("dataclasses").asdict(config)))
        done = P.tandem("import", saved, "--cluster", plan["cluster"]["preset"], "--devices", str(ranks), "--out", str(folder.path / "again.json"))
        if done.returncode != 0:
            row["import"] = done.stderr[-500:]
            continue
        there = P.explained(folder, json.loads((folder.path / "again.json").read_text()))
        if isinstance(there, str):
            row["explain"] = there
            continue
        here, there = P.leaves(told["plan"]), P.leaves(there["plan"])
        if differ := {k: (here.get(k), there.get(k)) for k in sorted(set(here) | set(there)) if not BESIDE.search(k) and not P.same(here.get(k), there.get(k))}:
            row["read back"] = differ
    for name, row in rows.items():
        if problems := {k: v for k, v in row.items() if k not in ("parameters", "schedule")}:
            print(name, json.dumps(problems, default=str))
    print({"exported": sum("refused" not in r for r in rows.values()), "refused": sum("refused" in r for r in rows.values()),
           "wrong": sum(bool(set(r) - {"parameters", "refused", "schedule"}) for r in rows.values())})


main()
