#!/usr/bin/env python3
"""Writes options/: every option of a framework with the name and the default of its argument, and true where an option whose
default is no boolean may stand without a value.

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
    """The entries of a parser's options."""
    out = {}
    for action in parser._actions:
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
        tree = ast.parse((runtime / file).read_text())
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
    tree = ast.parse((root / "torchtitan" / "config" / "job_config.py").read_text())
    classes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)}
    return {name: [name, value] for name, value in config_fields(classes, "JobConfig", "").items()}


READERS = {"megatron-core": megatron, "deepspeed": deepspeed, "torchtitan": torchtitan, "megatron-deepspeed": lambda root: {**CORE, **older_megatron(root)},
           "neuron-megatron": older_megatron}


def commit_of(root):
    return subprocess.run(["git", "-C", root, "log", "-1", "--format=%h (%cs)"], capture_output=True, text=True, check=False).stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", choices=sorted(READERS))
    parser.add_argument("checkout", nargs="+", type=pathlib.Path)
    parser.add_argument("--source")
    wanted = parser.parse_args()
    options = {}
    for root in reversed(wanted.checkout):  # the main one's defaults count
        options.update(READERS[wanted.framework](root))
    source = wanted.source or " and ".join(commit_of(root) for root in wanted.checkout)
    lines = [f"    {json.dumps(name)}: {json.dumps(value)}" for name, value in sorted(options.items())]
    out = pathlib.Path(__file__).parent / "options" / f"{wanted.framework}.json"
    out.write_text('{\n  "source": ' + json.dumps(source) + ',\n  "options": {\n' + ",\n".join(lines) + "\n  }\n}\n")


if __name__ == "__main__":
    main()
