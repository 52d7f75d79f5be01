"""Gives exports to Megatron-LM's own parse_args, validate_args, configurations and model builders, and its printed arguments back to import."""
import contextlib
import io
import json
import os
import pathlib
import re
import shlex
import sys

import plans as P

ROOT = pathlib.Path(sys.argv[1]).resolve()  # a checkout of NVIDIA/Megatron-LM
ONLY = sys.argv[2] if len(sys.argv) > 2 else ""
FIXTURE_FILE = sys.argv[3] if len(sys.argv) > 3 else ""
sys.path.insert(0, str(ROOT))

import typing  # noqa: E402

import torch  # noqa: E402

if not hasattr(typing, "override"):
    typing.override = lambda function: function  # Python 3.11 has none
CAPABILITY = [9, 0]


class Properties:
    """Of a device that is not here."""
    major, minor, multi_processor_count, total_memory, name = 9, 0, 132, 80 << 30, "absent"


torch.cuda.get_device_capability = lambda *_: tuple(CAPABILITY)
torch.cuda.get_device_properties = lambda *_: Properties
torch.cuda.device_count = lambda: 8
torch.cuda.is_available = lambda: False

import megatron.core.utils as core_utils  # noqa: E402
from packaging.version import Version  # noqa: E402

core_utils._te_version = Version("2.12.0")  # validate_args asks Transformer Engine's version alone
core_utils._emerging_optimizers_version = Version("0.2.0")
from megatron.core.models.common.embeddings import rope_utils  # noqa: E402
from megatron.training import arguments as A  # noqa: E402

rope_utils.fused_apply_rotary_pos_emb = rope_utils.fused_apply_rotary_pos_emb_thd = len  # Transformer Engine's, only asked for

A.get_device_arch_version = lambda: CAPABILITY[0]


def command_of(text):
    """Environment, launcher's options, program and its options."""
    words = shlex.split(text.replace("\\\n", " "))
    environment = {}
    while "=" in words[0]:
        name, value = words.pop(0).split("=", 1)
        environment[name] = value
    program = next(i for i, word in enumerate(words) if word.endswith(".py"))
    return environment, words[1:program], words[program], words[program + 1:]


def parsed(text):
    """Arguments as parsed, as validated, and what was printed."""
    environment, launcher, program, options = command_of(text)
    ranks = {launcher[i]: int(launcher[i + 1]) for i in range(0, len(launcher), 2)}
    for name in ("CUDA_DEVICE_MAX_CONNECTIONS", "NCCL_ALGO", "NVTE_ALLOW_NONDETERMINISTIC_ALGO", "CUBLAS_WORKSPACE_CONFIG"):
        os.environ.pop(name, None)
    os.environ.update(environment)
    os.environ["WORLD_SIZE"] = str(ranks["--nnodes"] * ranks["--nproc-per-node"])
    sys.argv = [program, *options]
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            args = A.parse_args()
        except SystemExit:
            raise ValueError(out.getvalue()[-400:]) from None
        before = dict(vars(args))
        args.padded_vocab_size = None
        A.validate_args(args, {"tokenizer_type": "NullTokenizer"})
        torch.use_deterministic_algorithms(False)
        config = A.core_transformer_config_from_args(args)
    return before, args, config, out.getvalue(), options


def changed(before, args, options):
    """Options of the command whose argument validate_args changed."""
    given = {word[2:].replace("-", "_") for word in options if word.startswith("--")}
    plain = lambda v: v.value if hasattr(v, "value") else str(v).replace("torch.float32", "fp32").replace("torch.bfloat16", "bf16").replace("torch.float16", "fp16")
    after = vars(args)
    return {k: (str(before[k]), str(after.get(k))) for k in given & set(before) if plain(before[k]) not in (plain(after.get(k, before[k])), f"[{plain(after.get(k))}]", f"['{plain(after.get(k))}']")}


BESIDE = re.compile(r"(^|\.)(name|notes)$|^stack\.|^model\.family$|^cluster\.|^\$schema")


def read_back(folder, printed, plan, printed_program):
    """Fields of the plan that the framework's printed arguments, imported, say otherwise."""
    log = folder.write("train.log", printed)
    done = P.tandem("import", log, "--cluster", plan["cluster"]["preset"], "--out", str(folder.path / "again.json"))
    if done.returncode != 0:
        return {"import": done.stderr[-600:]}
    again = json.loads((folder.path / "again.json").read_text())
    here, there = (P.explained(folder, one) for one in (plan, again))
    if isinstance(there, str):
        return {"explain": there[-600:]}
    here, there = (P.leaves(P.in_one_way(one)) for one in (here, there))
    return {k: (here.get(k), there.get(k)) for k in sorted(set(here) | set(there)) if not BESIDE.search(k) and not P.same(here.get(k), there.get(k))}


PARALLEL = ("--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--num-virtual-stages-per-pipeline-rank", "--pipeline-model-parallel-layout",
            "--microbatch-group-size-per-virtual-pipeline-stage", "--context-parallel-size", "--cp-comm-type", "--expert-model-parallel-size",
            "--expert-tensor-parallel-size", "--num-distributed-optimizer-instances", "--attention-backend")
SWITCHES = ("--sequence-parallel", "--tp-comm-overlap", "--moe-grouped-gemm", "--moe-enable-deepep", "--overlap-moe-expert-parallel-comm", "--no-overlap-p2p-communication",
            "--use-megatron-fsdp", "--fp8-param-gather", "--delay-wgrad-compute")


def on_one_rank(text):
    """The command's model on one rank, with layers of PyTorch alone."""
    environment, _, program, options = command_of(text)
    out, i = [], 0
    while i < len(options):
        if options[i] in PARALLEL or options[i] == "--hierarchical-context-parallel-sizes" or options[i] in ("--moe-token-dispatcher-type", "--transformer-impl", "--global-batch-size", "--rampup-batch-size", "--ckpt-format", "--data-parallel-sharding-strategy", "--fp8-format", "--fp8-recipe", "--fp4-format", "--recompute-granularity", "--recompute-method", "--recompute-num-layers", "--recompute-modules", "--cuda-graph-impl"):
            i += 1
            while i < len(options) and not options[i].startswith("--"):
                i += 1
            continue
        if options[i] not in SWITCHES and options[i] != "--deterministic-mode":
            out.append(options[i])
        i += 1
    return " ".join(f"{k}={v}" for k, v in environment.items()) + f" torchrun --nnodes 1 --nproc-per-node 1 {program} " + shlex.join(
        [*out, "--transformer-impl", "local", "--use-cpu-initialization", "--no-initialization", "--no-gradient-accumulation-fusion", "--no-persist-layer-norm", "--no-masked-softmax-fusion"])


def parameters(text, pad):
    """Parameters of the model that Megatron-LM builds of the command, with a vocabulary padded to `pad`."""
    from megatron.core import parallel_state, tensor_parallel
    from gpt_builders import gpt_builder
    _, args, config, _, _ = parsed(on_one_rank(text))
    args.padded_vocab_size = pad
    if not torch.distributed.is_initialized():
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29577", RANK="0")
        torch.distributed.init_process_group("gloo", rank=0, world_size=1)
        parallel_state.initialize_model_parallel(1, 1)
    torch.cuda.current_device = lambda: "meta"
    with torch.device("meta"), contextlib.redirect_stdout(io.StringIO()):
        model = gpt_builder(args, True, True, config=config)
    return sum(p.numel() for p in model.parameters())


FIXTURE = ("llama3-8b zero1", "qwen3-30b-a3b tensor", "deepseek-v3 pipeline", "fp8_block", "fp16", "interleaved", "context levels", "zero3 blackwell", "muon zero1", "offload",
           "graph of the iteration", "recompute modules", "samples", "deterministic")


def write_fixture(path):
    """For tests/models/arguments: what Megatron-LM prints of some plans' commands, without its parser's defaults."""
    folder, cases = P.Folder(), []
    defaults = {name.replace("-", "_"): value for name, value in vars(A.add_megatron_arguments(A.argparse.ArgumentParser(allow_abbrev=False)).parse_args([])).items()}
    for name, plan in P.plans("megatron-core", P.LAYOUTS, P.MEGATRON_FEATURES):
        if name in FIXTURE:
            CAPABILITY[0] = Properties.major = 10 if plan["cluster"]["preset"].endswith("b200") else 9
            _, args, _, _, _ = parsed(P.exported(folder, plan, "megatron-core")[0])
            printed = {k: str(v) for k, v in sorted(vars(args).items()) if k not in defaults or str(v) != str(defaults[k])}
            cases.append({"name": name, "plan": plan, "printed": printed})
    commit = P.subprocess.run(["git", "-C", str(ROOT), "log", "-1", "--format=NVIDIA/Megatron-LM %h (%cs)"], capture_output=True, text=True, check=True).stdout.strip()
    lines = ",\n".join(json.dumps(case) for case in cases)
    pathlib.Path(path).write_text(f'{{"source": {json.dumps(commit)}, "cases": [\n{lines}\n]}}\n')


def main():
    folder, rows = P.Folder(), {}
    counted = {}
    for name, plan in P.plans("megatron-core", P.LAYOUTS, P.MEGATRON_FEATURES):
        if ONLY and not re.search(ONLY, name):
            continue
        text, error = P.exported(folder, plan, "megatron-core")
        if text is None:
            rows[name] = {"refused": re.sub(r"tandem: error: \S+: ", "", error)[:300]}
            continue
        CAPABILITY[0] = Properties.major = 10 if plan["cluster"]["preset"].endswith("b200") else 9
        row = rows[name] = {}
        try:
            before, args, _, printed, options = parsed(text)
        except Exception as problem:  # what the framework says of the command
            row["error"] = f"{type(problem).__name__}: {problem}"[:600]
            continue
        if change := changed(before, args, options):
            row["changed"] = change
        if back := read_back(folder, printed, plan, options):
            row["read back"] = back
        model = plan["model"]["preset"]
        if model not in counted and not os.environ.get("UNCOUNTED"):
            try:
                told = P.explained(folder, plan)
                counted[model] = parameters(text, told["padded_vocab_size"])
                ours = told["parameters"]["total_padded"]
                row["parameters"] = {"framework": counted[model], "tandem": ours}
                if counted[model] != ours:
                    row["parameters differ"] = counted[model] - ours
            except Exception as problem:
                row["not built"] = f"{type(problem).__name__}: {problem}"[:300]
    for name, row in rows.items():
        problems = {k: v for k, v in row.items() if k not in ("parameters", "refused")}
        if problems:
            print(name, json.dumps(problems, indent=1, default=str))
    print({"exported": sum("refused" not in r for r in rows.values()), "refused": sum("refused" in r for r in rows.values()),
           "counted": sum("parameters" in r for r in rows.values()), "wrong": sum(bool(set(r) - {"parameters", "refused"}) for r in rows.values())})


if ONLY == "--fixture":
    write_fixture(FIXTURE_FILE)
else:
    main()
