"""Fields and defaults of frameworks whose YAML file is read into classes of fields, for options.py."""
import ast
import json
import pathlib

import kinds

KINDS = None  # kinds.Kinds while kinds are read in place of defaults


def parsed(path):
    """A Python file's tree; its fields have their kinds as defaults where these are read."""
    tree = ast.parse(path.read_text())
    if KINDS is None:
        return tree
    KINDS.see(tree)
    return kinds.InPlaceOfDefaults(KINDS).visit(tree)


# Sections of a nanotron file, and the dataclasses that read them; the first that has a field counts.
NANOTRON = {
    "general": ["GeneralArgs"], "parallelism": ["ParallelismArgs"], "tokens": ["TokensArgs"], "tokenizer": ["TokenizerArgs"],
    "checkpoints": ["CheckpointsArgs"], "logging": ["LoggingArgs"], "metrics_logging": ["MetricsLoggingArgs"], "profiler": ["ProfilerArgs"],
    "s3_upload": ["S3UploadArgs"], "model": ["ModelArgs"], "model.init_method": ["RandomInit", "SpectralMupInit", "ExistingCheckpointInit"],
    "model.model_config": ["LlamaConfig", "Qwen2Config", "Starcoder2Config"], "model.model_config.moe_config": ["MoEConfig"],
    "optimizer": ["OptimizerArgs"], "optimizer.optimizer_factory": ["AdamWOptimizerArgs", "SGDOptimizerArgs"],
    "optimizer.learning_rate_scheduler": ["LRSchedulerArgs"],
}


def classes_of(*files):
    """Classes of Python files by name."""
    return {n.name: n for file in files for n in parsed(file).body if isinstance(n, ast.ClassDef)}


def default_of(value):
    """A field's default: a literal, that of field(default=...), or what its factory makes."""
    if isinstance(value, ast.Call):
        given = {k.arg: k.value for k in value.keywords}
        given.update({"default": value.args[0]} if value.args else {})
        value = given.get("default", given.get("default_factory"))
        value = value.body if isinstance(value, ast.Lambda) else value
        if isinstance(value, ast.Name) and value.id in ("list", "dict"):
            return [] if value.id == "list" else {}
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError):
        return None


def fields_of(node):
    """A dataclass' own fields."""
    return {n.target.id: default_of(n.value) for n in node.body if isinstance(n, ast.AnnAssign)}


def nanotron(root):
    """From the dataclasses of nanotron's configuration."""
    folder = root / "src" / "nanotron" / "config"
    classes = classes_of(*(folder / f"{name}.py" for name in ("config", "models_config", "parallelism_config")))
    options = {f"{section}.{field}": value for section, names in NANOTRON.items() for name in reversed(names) for field, value in fields_of(classes[name]).items()}
    return {name: [name, value] for name, value in options.items() if name not in NANOTRON}


def gpt_neox(root):
    """From the dataclasses of GPT-NeoX's arguments; a later class' field counts. Fields of sections are DeepSpeed's."""
    folder = root / "megatron" / "neox_arguments"
    sections = json.loads((pathlib.Path(__file__).parent / "options" / "deepspeed.json").read_text())["options"]
    options = {name: value for name, (_, value) in sections.items() if "." in name}
    for file in ("deepspeed_args.py", "neox_args.py"):
        for node in classes_of(folder / file).values():
            options.update(fields_of(node))
    return {name: [name, value] for name, value in options.items()}


def all_fields(*files):
    """Fields of every class of Python files; the first that has a field counts."""
    options = {}
    for node in classes_of(*files).values():
        options = {**fields_of(node), **options}
    return options


def llama_factory(root):
    """From LLaMA-Factory's dataclasses; of transformers, those of its Trainer."""
    if (root / "transformers").exists():
        options = all_fields(*(root / "transformers" / f"{name}.py" for name in ("training_args", "training_args_seq2seq")))
    else:
        folder = root / "src" / "llamafactory" / "hparams"
        options = all_fields(*(folder / f"{name}_args.py" for name in ("model", "data", "finetuning", "generating", "training")))
    return {name: [name, value] for name, value in options.items()}


def trainer(root):
    """From the dataclass of transformers' Trainer."""
    options = all_fields(root / "transformers" / "training_args.py")
    return {name: [name, value] for name, value in options.items()}


def trl(root):
    """From the dataclasses that `trl sft` reads; of transformers, those of its Trainer."""
    if (root / "transformers").exists():
        return trainer(root)
    folder = root / "trl"
    options = all_fields(*(folder / "trainer" / f"{name}_config.py" for name in ("sft", "base", "model")))
    scripts = classes_of(folder / "scripts" / "utils.py")
    for name in ("ScriptArguments", "DatasetMixtureConfig"):
        options = {**fields_of(scripts[name]), **options}
    return {name: [name, value] for name, value in options.items() if not name.startswith("_")}


def ms_swift(root):
    """From the dataclasses that `swift sft` reads; of transformers, those of its Trainer."""
    if (root / "transformers").exists():
        return llama_factory(root)
    folder = root / "swift" / "arguments"
    base = [folder / "base_args" / f"{name}_args.py" for name in ("base", "generation", "quant", "data", "template", "model")]
    options = all_fields(folder / "sft_args.py", folder / "tuner_args.py", *base, root / "swift" / "trainers" / "arguments.py")
    return {name: [name, value] for name, value in options.items()}


# Files of Axolotl's schemas with fields of the whole file; those of fsdp.py stand in a section.
AXOLOTL = ("config", "model", "peft", "training", "integrations", "multimodal", "deprecated", "quantization", "dynamic_checkpoint", "validation")


def axolotl(root):
    """From the classes of Axolotl's schemas."""
    folder = root / "src" / "axolotl" / "utils" / "schemas"
    options = all_fields(*(folder / f"{name}.py" for name in AXOLOTL))
    options.update({f"fsdp_config.{name}": value for name, value in all_fields(folder / "fsdp.py").items()})
    return {name: [name, value] for name, value in options.items() if name != "model_config"}
