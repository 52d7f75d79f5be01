#!/usr/bin/env python3
"""Writes options/: every option of a framework with the name and the default of its argument, and true where an option whose
default is no boolean may stand without a value; the kinds of values that the framework takes, where it says them.

Usage: options.py FRAMEWORK CHECKOUT... [--source TEXT]

The checkouts are the code that the framework's table names as its source, the main one first. Megatron-LM needs PyTorch and NumPy.
"""
import argparse
import ast
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import typing
from unittest import mock

import kinds
import yaml_options

if not hasattr(typing, "override"):  # before Python 3.12
    typing.override = lambda function: function

PLAIN = (int, float, str, bool, type(None))


def plain(value):
    """A default as JSON: an enumeration by its name, a list by its entries."""
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return getattr(value, "name", str(value))


def entries(parser):
    """The entries of a parser's options; with kinds in place of defaults where these are read."""
    out = {}
    for action in parser._actions:
        if yaml_options.KINDS is not None:
            out.update({option[2:].replace("_", "-"): [action.dest, kinds.of_action(action)] for option in action.option_strings})
            continue
        alone = action.nargs in (0, "?", "*") and not isinstance(action.default, bool)
        entry = [action.dest, plain(action.default)] + [True] * alone
        out.update({option[2:].replace("_", "-"): entry for option in action.option_strings if option.startswith("--") and option != "--help"})
    return out


def megatron(root):
    """From the parser itself."""
    sys.path.insert(0, str(root))
    from megatron.training.arguments import add_megatron_arguments

    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_megatron_arguments(parser)
    return entries(parser)


def added(path, options):
    """Options, with those that a file's calls of add_argument add."""
    tree = yaml_options.parsed(path)
    for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
        strings = [a.value for a in call.args if isinstance(a, ast.Constant) and str(a.value).startswith("--")]
        said = {k.arg: k.value for k in call.keywords}
        for option in (o[2:].replace("_", "-") for o in strings):
            if option in options:
                continue
            action = getattr(said.get("action"), "value", "store")
            default = {"store_true": False, "store_false": True}.get(action, literal(said["default"]) if "default" in said else None)
            if yaml_options.KINDS is not None:
                default = kinds.of_call(said, action)
            options[option] = [getattr(said.get("dest"), "value", option.replace("-", "_")), default]
    return options


def patched(path):
    """From the calls that add a fork's arguments, beside Megatron-LM's options."""
    core = json.loads((pathlib.Path(__file__).parent / "options" / "megatron-core.json").read_text())
    options = core["options"]
    if yaml_options.KINDS is not None:
        options = {option: [argument[0], core["kinds"].get(argument[0], [])] for option, argument in options.items()}
    return added(path, options)


# What the older parsers import and do not use while they add options.
UNUSED = ("torch", "torch.nn", "torch.nn.functional", "deepspeed", "deepspeed.accelerator", "packaging", "megatron", "megatron.global_vars",
          "megatron.model", "megatron.model.utils", "megatron.core", "megatron.core.transformer", "tools", "tools.retro", "tools.retro.utils")
# deepspeedai/DeepSpeed 0.19.8: deepspeed/__init__.py, add_config_arguments.
CORE = {"deepspeed": ["deepspeed", False], "deepspeed-config": ["deepspeed_config", None], "deepscale": ["deepscale", False],
        "deepscale-config": ["deepscale_config", None]}


def older_megatron(root):
    """From megatron/arguments.py of code before Megatron-Core's: the groups that its parse_args adds, in their order."""
    path = root / "megatron" / "arguments.py"
    spec = importlib.util.spec_from_file_location("older_arguments", path)
    module = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, {name: mock.MagicMock() for name in UNUSED}):
        spec.loader.exec_module(module)
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for group in re.findall(r"parser = (_add_\w+)\(parser\)", path.read_text()):
        getattr(module, group)(parser)
    return entries(parser)


# Sections of a DeepSpeed configuration and the classes that read them.
SECTIONS = {"zero_optimization": ("zero/config.py", "DeepSpeedZeroConfig"),
            "zero_optimization.offload_optimizer": ("zero/offload_config.py", "DeepSpeedZeroOffloadOptimizerConfig"),
            "zero_optimization.offload_param": ("zero/offload_config.py", "DeepSpeedZeroOffloadParamConfig"),
            "bf16": ("precision_config.py", "DeepSpeedBF16Config"), "fp16": ("precision_config.py", "DeepSpeedFP16Config")}
# Keys whose defaults the engine computes.
OTHERS = {"sequence_parallel_size": 1, "tensor_parallel.autotp_size": 0, "pipeline.stages": None, "optimizer.type": None,
          "scheduler.type": None, "zero_optimization.mics_shard_size": -1}


def literal(node):
    """A class' default: a literal, or the first argument of Field and pp_int."""
    while isinstance(node, ast.Call) and node.args:
        node = node.args[0]
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return int(value) if isinstance(value, float) and value >= 1e3 else value


def deepspeed(root):
    """From the classes of the configuration, and the constants of its other keys."""
    runtime = root / "deepspeed" / "runtime"
    options = {}
    constants = (runtime / "constants.py").read_text()
    for name, key in re.findall(r"^([A-Z_]+) = ['\"]([a-z_0-9]+)['\"]$", constants, re.MULTILINE):
        default = re.search(rf"^{name}_DEFAULT = (.*)$", constants, re.MULTILINE)
        if default:
            value = literal(ast.parse(default.group(1)).body[0].value)
            options[{"grad_accum_dtype": "data_types.grad_accum_dtype"}.get(key, key)] = value
    for section, (file, name) in SECTIONS.items():
        tree = yaml_options.parsed(runtime / file)
        body = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name).body
        for field in (n for n in body if isinstance(n, ast.AnnAssign)):
            alias = next((k.value.value for k in getattr(field.value, "keywords", []) if k.arg == "alias"), field.target.id)
            options[f"{section}.{alias}"] = literal(field.value)
    return {name: [name, value] for name, value in {**options, **OTHERS}.items()}


def config_fields(classes, name, prefix):
    """Fields of a dataclass with their dotted paths; those whose type is a dataclass of the file are sections."""
    out = {}
    for field in (n for n in classes[name].body if isinstance(n, ast.AnnAssign)):
        path, kind = prefix + field.target.id, ast.unparse(field.annotation)
        if kind in classes:
            out.update(config_fields(classes, kind, path + "."))
            continue
        factory = next((k.value for k in getattr(field.value, "keywords", []) if k.arg == "default_factory"), None)
        if isinstance(factory, ast.Lambda):
            out[path] = ast.literal_eval(factory.body)
        else:
            out[path] = [] if factory is not None else ast.literal_eval(field.value)
    return out


def torchtitan(root):
    """From the dataclasses of the configuration, as they were while it was a TOML file."""
    tree = yaml_options.parsed(root / "torchtitan" / "config" / "job_config.py")
    classes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)}
    return {name: [name, value] for name, value in config_fields(classes, "JobConfig", "").items()}


# Sections of torchtitan's configuration since it is Python code, and their classes.
TITAN = {"training": ("config/configs.py", "TrainingConfig"), "parallelism": ("config/configs.py", "ParallelismConfig"), "compile": ("config/configs.py", "CompileConfig"),
         "comm": ("config/configs.py", "CommConfig"), "debug": ("config/configs.py", "DebugConfig"), "loss": ("components/loss.py", "ChunkedLossWrapper.Config"),
         "optimizer": ("components/optimizer/optimizer.py", "OptimizersContainer.Config"),
         "lr_scheduler": ("components/optimizer/lr_scheduler.py", "LRSchedulersContainer.Config")}


def torchtitan_code(root):
    """From the dataclasses of sections; the model and the class of recomputation are read where a file has them."""
    out = {}
    for section, (path, names) in TITAN.items():
        body = yaml_options.parsed(root / "torchtitan" / path).body
        for name in names.split("."):
            body = next(n for n in body if isinstance(n, ast.ClassDef) and n.name == name).body
        for field in (n for n in body if isinstance(n, ast.AnnAssign)):
            factory = next((k.value for k in getattr(field.value, "keywords", []) if k.arg == "default_factory"), None)
            try:
                out[f"{section}.{field.target.id}"] = ast.literal_eval(factory.body if isinstance(factory, ast.Lambda) else field.value)
            except ValueError:
                out[f"{section}.{field.target.id}"] = None
    return {name: [name, value] for name, value in out.items()}


def dataclass_fields(root, path, names):
    """Fields of dataclasses with their defaults; null where a function makes it."""
    classes = {n.name: n for n in yaml_options.parsed(root / path).body if isinstance(n, ast.ClassDef)}
    out = {}
    for field in (n for name in names for n in classes[name].body if isinstance(n, ast.AnnAssign)):
        value = field.value
        if isinstance(value, ast.Call):
            value = next((k.value for k in value.keywords if k.arg == "default"), None)
        try:
            out[field.target.id] = ast.literal_eval(value)
        except (ValueError, TypeError):
            out[field.target.id] = None
    return out


def asked(path, base):
    """Keys that code asks a configuration for (cfg.get("x", default), cfg.x) with the first default that it names."""
    out = {}
    for node in ast.walk(yaml_options.parsed(path)):
        call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args
        owner = node.func.value if call else node.value if isinstance(node, ast.Attribute) else None
        if owner is None or ast.unparse(owner) not in base:
            continue
        key = literal(node.args[0]) if call else node.attr
        if isinstance(key, str) and key not in ("get", "keys", "items"):
            default = literal(node.args[1]) if call and len(node.args) > 1 else None
            if yaml_options.KINDS is not None:
                default = kinds.of_value(default)
            out[key] = default if out.get(key) is None else out[key]
    return out


def leaves(node, prefix=""):
    """Dotted names of a YAML file's fields, with the kinds of their values."""
    if not isinstance(node, dict) or not node:
        return {prefix: kinds.of_value(node) if yaml_options.KINDS is not None else None}
    return {name: kind for key, value in node.items() for name, kind in leaves(value, f"{prefix}.{key}" if prefix else str(key)).items()}


CORE_CONFIGS = (("model_parallel_config.py", ["ModelParallelConfig"]), ("transformer/transformer_config.py", ["TransformerConfig", "MLATransformerConfig"]))


def core_fields(root):
    """Fields of Megatron-Core's configuration of a model."""
    return {k: v for file, names in CORE_CONFIGS for k, v in dataclass_fields(root / "megatron" / "core", file, names).items()}


def nemo(root):
    """From what NeMo 1's model of GPT asks its configuration for, and its example; of Megatron-LM, the fields that NeMo hands on."""
    if (root / "megatron").exists():
        return {f"model.{name}": [f"model.{name}", plain(value)] for name, value in core_fields(root).items()}
    import yaml

    models = root / "nemo" / "collections" / "nlp" / "models" / "language_modeling"
    example = yaml.safe_load((root / "examples" / "nlp" / "language_modeling" / "conf" / "megatron_gpt_config.yaml").read_text())
    options = {}
    for file in ("megatron_gpt_model.py", "megatron_base_model.py"):
        for section in ("", ".optim", ".data", ".tokenizer"):
            names = asked(models / file, {f"{owner}{section}" for owner in ("self.cfg", "self._cfg", "cfg", "model.cfg")})
            options.update({f"model{section}.{name}": value for name, value in names.items() if value is not None or f"model{section}.{name}" not in options})
    options.update({name: kind for name, kind in leaves(example).items() if not options.get(name)})
    return {name: [name, value] for name, value in options.items()}


# Sections of an NxD Training file.
NXDT_SECTIONS = ("model", "model.optim", "model.moe", "model.fusions", "distributed_strategy", "data", "precision", "trainer", "exp_manager")


def nxdt(root):
    """From what NxD Training's models ask their configuration for, and its examples."""
    import yaml

    options = {}
    for file in sorted((root / "src").rglob("*.py")):
        for section in NXDT_SECTIONS:
            for name, value in asked(file, {f"self.config.{section}", f"cfg.{section}"}).items():
                if value is not None or f"{section}.{name}" not in options:
                    options[f"{section}.{name}"] = value
        for name, value in asked(file, {"moe_config"}).items():
            options.setdefault(f"model.moe.{name}", value)
    for file in sorted((root / "examples" / "conf").glob("*.yaml")):
        for name, kind in leaves(yaml.safe_load(file.read_text())).items():
            options[name] = kinds.joined(options.get(name), kind) if yaml_options.KINDS is not None else options.get(name)
    return {name: [name, value] for name, value in options.items()}


def torchtune(root):
    """From the recipes' files, and what the recipes ask these for."""
    import yaml

    options = {}
    for file in sorted((root / "recipes" / "configs").rglob("*.yaml")):
        for name, kind in leaves(yaml.safe_load(file.read_text())).items():
            options[name] = kinds.joined(options.get(name), kind) if yaml_options.KINDS is not None else options.get(name)
    for file in sorted((root / "recipes").glob("*.py")):
        options.update({name: value for name, value in asked(file, {"cfg"}).items() if not options.get(name)})
    return {name: [name, value] for name, value in options.items()}


# Sections of Megatron-Bridge's file, and the dataclasses of Megatron-LM and Megatron-Bridge that they are.
BRIDGE_SECTIONS = {
    "model": [("megatron/core/model_parallel_config.py", ["ModelParallelConfig"]), ("megatron/core/transformer/transformer_config.py", ["TransformerConfig", "MLATransformerConfig"]),
              ("src/megatron/bridge/models/transformer_config.py", ["TransformerConfig"]), ("src/megatron/bridge/models/gpt_provider.py", ["GPTModelProvider"])],
    "optimizer": [("megatron/core/optimizer/optimizer_config.py", ["OptimizerConfig"]), ("src/megatron/bridge/training/config.py", ["OptimizerConfig"])],
    "ddp": [("megatron/core/distributed/distributed_data_parallel_config.py", ["DistributedDataParallelConfig"]), ("src/megatron/bridge/training/config.py", ["DistributedDataParallelConfig"])],
    "scheduler": [("megatron/training/config/training_config.py", ["SchedulerConfig"]), ("src/megatron/bridge/training/config.py", ["SchedulerConfig"])],
    "train": [("megatron/training/config/training_config.py", ["TrainingConfig"]), ("src/megatron/bridge/training/config.py", ["TrainingConfig"])],
    "mixed_precision": [("src/megatron/bridge/training/mixed_precision.py", ["MixedPrecisionConfig"])],
    "comm_overlap": [("src/megatron/bridge/training/comm_overlap.py", ["_CommOverlapConfig", "CommOverlapConfig"])],
    "dist": [("megatron/training/config/common_config.py", ["DistributedInitConfig"]), ("src/megatron/bridge/training/config.py", ["DistributedInitConfig"])],
    "rng": [("megatron/training/config/common_config.py", ["RNGConfig"])],
    "dataset": [("src/megatron/bridge/training/config.py", ["GPTDatasetConfig"])],
}


def bridge(root):
    """From the dataclasses of the sections, those that this checkout has."""
    out = {}
    for section, places in BRIDGE_SECTIONS.items():
        for file, names in places:
            if (root / file).exists():
                out.update({f"{section}.{k}": v for k, v in dataclass_fields(root, file, names).items() if not k.startswith("_")})
    return {name: [name, value] for name, value in out.items()}


# Prefixes of the launcher's options, and the group of the file that has them; the name there is without the prefix where the third is true.
LAUNCHED = [("fsdp_", "fsdp_config", False), ("fp8_", "fp8_config", True), ("parallelism_config_", "parallelism_config", False), ("dynamo_", "dynamo_config", False),
            *((name, "deepspeed_config", False) for name in ("deepspeed_", "zero", "offload_", "gradient_"))]
# accelerate/utils/dataclasses.py reads these of the file, and the launcher has no option for them.
GROUPED = {"deepspeed_config.seq_parallel_communication_data_type": None, "fsdp_config.fsdp_ignored_modules": None, "mpirun_config.mpirun_hostfile": None, "mpirun_config.mpirun_ccl": None}


def accelerate(root):
    """From the classes that read the file, and the launcher's options for its groups."""
    commands = root / "src" / "accelerate" / "commands"
    classes = yaml_options.classes_of(commands / "config" / "config_args.py")
    options = {k: v for name in ("BaseConfig", "ClusterConfig") for k, v in yaml_options.fields_of(classes[name]).items()}
    for call in (n for n in ast.walk(yaml_options.parsed(commands / "launch.py")) if isinstance(n, ast.Call) and getattr(n.func, "attr", "") == "add_argument"):
        said = {k.arg: k.value for k in call.keywords}
        name = getattr(call.args[0], "value", "").removeprefix("--") if call.args else ""
        for prefix, group, without in LAUNCHED:
            if name.startswith(prefix):
                action = getattr(said.get("action"), "value", "store")
                default = {"store_true": False}.get(action, literal(said["default"]) if "default" in said else None)
                default = kinds.of_call(said, action) if yaml_options.KINDS is not None else default
                options[f"{group}.{name.removeprefix(prefix) if without else name}"] = default
    return {name: [name, value] for name, value in {**options, **GROUPED}.items()}


READERS = {"accelerate": accelerate, "axolotl": yaml_options.axolotl, "gpt-neox": yaml_options.gpt_neox, "llama-factory": yaml_options.llama_factory, "ms-swift": yaml_options.ms_swift,
           "nanotron": yaml_options.nanotron, "megatron-bridge": bridge, "nemo": nemo, "neuronx": nxdt, "megatron-core": megatron, "pai-megatron-patch": lambda root: patched(root / "megatron_patch" / "arguments.py"),
           "zero-bubble": lambda root: patched(root / "megatron" / "core" / "zbpp_utils.py"), "deepspeed": deepspeed, "deepspeed-bert": lambda root: {**CORE, **added(root / "run_pretraining.py", {})}, "torchtitan": torchtitan, "torchtitan-2026": torchtitan_code, "torchtune": torchtune, "transformers": yaml_options.trainer, "trl": yaml_options.trl, "megatron-deepspeed": lambda root: {**CORE, **older_megatron(root)},
           "neuron-megatron": older_megatron}


def commit_of(root):
    return subprocess.run(["git", "-C", root, "log", "-1", "--format=%h (%cs)"], capture_output=True, text=True, check=False).stdout.strip()


def lines_of(section):
    return ",\n".join(f"    {json.dumps(name)}: {json.dumps(value)}" for name, value in sorted(section.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", choices=sorted(READERS))
    parser.add_argument("checkout", nargs="+", type=pathlib.Path)
    parser.add_argument("--source")
    wanted = parser.parse_args()
    options, said = {}, {}
    for root in reversed(wanted.checkout):  # the main one's defaults count
        options.update(READERS[wanted.framework](root))
    yaml_options.KINDS = kinds.of_files(wanted.checkout)
    for root in reversed(wanted.checkout):
        found = {entry[0]: entry[1] if isinstance(entry[1], list) else kinds.of_value(entry[1]) for entry in READERS[wanted.framework](root).values()}
        said.update({name: kinds.joined(said.get(name), some) for name, some in found.items() if some})
    source = wanted.source or " and ".join(commit_of(root) for root in wanted.checkout)
    out = pathlib.Path(__file__).parent / "options" / f"{wanted.framework}.json"
    out.write_text('{\n  "source": ' + json.dumps(source) + ',\n  "options": {\n' + lines_of(options) + '\n  },\n  "kinds": {\n' + lines_of(said) + "\n  }\n}\n")


if __name__ == "__main__":
    main()
