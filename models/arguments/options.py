#!/usr/bin/env python3
"""Writes options/: every option of a framework with the name and the default of its argument.

Usage: options.py megatron-core|deepspeed CHECKOUT [SOURCE]

The checkout is the code that the framework's table names as its source. Megatron-LM needs PyTorch and NumPy.
"""
import argparse
import ast
import json
import pathlib
import re
import subprocess
import sys
import typing

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


def megatron(root):
    """From the parser itself."""
    sys.path.insert(0, str(root))
    from megatron.training.arguments import add_megatron_arguments

    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_megatron_arguments(parser)
    return {option[2:].replace("_", "-"): [action.dest, plain(action.default)]
            for action in parser._actions for option in action.option_strings if option.startswith("--") and option != "--help"}


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


def main():
    framework, root = sys.argv[1], pathlib.Path(sys.argv[2])
    options = {"megatron-core": megatron, "deepspeed": deepspeed}[framework](root)
    commit = subprocess.run(["git", "-C", root, "log", "-1", "--format=%h (%cs)"], capture_output=True, text=True, check=False).stdout.strip()
    source = sys.argv[3] if len(sys.argv) > 3 else commit
    lines = [f"    {json.dumps(name)}: {json.dumps(value)}" for name, value in sorted(options.items())]
    out = pathlib.Path(__file__).parent / "options" / f"{framework}.json"
    out.write_text('{\n  "source": ' + json.dumps(source) + ',\n  "options": {\n' + ",\n".join(lines) + "\n  }\n}\n")


if __name__ == "__main__":
    main()
