"""What the attack damages: small plans, a study, presets, timelines, a checkpoint, results, cost tables and measurements, made once by
the program under attack."""
import json
import os
import pathlib
import subprocess

PROGRAM = os.path.abspath(os.environ.get("TANDEM", "build/tandem"))
SOURCE = pathlib.Path(os.environ.get("TANDEM_SOURCE", pathlib.Path(__file__).resolve().parents[2]))

PLAN = {"name": "attack", "model": {"num_layers": 2, "hidden_size": 16, "num_attention_heads": 2, "vocab_size": 256},
        "parallel": {"tensor": 2, "data": 2},
        "training": {"seq_length": 8, "micro_batch_size": 1, "global_batch_size": 4, "precision": "fp32"},
        "cluster": {"preset": "cpu-host", "devices": 4}}
EXPERTS = {**PLAN, "model": {**PLAN["model"], "moe": {"num_experts": 4, "experts_per_token": 2}}, "parallel": {"data": 2, "expert": 2},
           "cluster": {"preset": "cpu-host", "devices": 2}}
GPUS = {"model": {"preset": "gpt2-345m"}, "parallel": {"tensor": 2, "pipeline": 2, "data": 4},
        "training": {"seq_length": 512, "micro_batch_size": 1, "global_batch_size": 16, "precision": "fp16"},
        "cluster": {"preset": "dgx-a100-80gb", "devices": 16}}
STUDY = {"name": "attack", "base": PLAN, "axes": [{"field": "training.seed", "values": [1, 2]},
                                                   {"name": "batch", "values": [{"label": 4, "set": {}}, {"label": "8", "set": {"training.global_batch_size": 8}}]}],
         "points": [{"at": {"training.seed": 1, "batch": 4}, "step_time_s": 1, "source": "nobody"}], "view": {"x": "batch", "y": "mfu"},
         "goal": {"tokens": 1e9, "device_hour_price": 1}}
TABLE = {"schema_version": 1, "device": "cpu-host", "date": "2026-01-01", "host": "none", "compiler": "none", "notes": "made up", "launch_s": 1e-6,
         "slowdown": [1, 1.2], "runtime_bytes": 1 << 20, "entries": {"fp32": {"bias_grad": [
             {"rows": 8, "cols": 16, "seconds": 1e-6}, {"rows": 64, "cols": 64, "seconds": 4e-6}]}},
         "comm": [{"kind": "all_reduce", "ranks": 2, "bytes": 1024, "seconds": 1e-5}, {"kind": "all_reduce", "ranks": 2, "bytes": 65536, "seconds": 1e-4}]}
CONFIGS = {"config.json": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
                           "num_attention_heads": 8, "num_key_value_heads": 4, "num_hidden_layers": 4, "vocab_size": 1000, "hidden_act": "silu",
                           "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False}}
CONFIGS["mixtral.json"] = {**CONFIGS["config.json"], "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_local_experts": 4,
                           "num_experts_per_tok": 2, "sliding_window": None, "router_aux_loss_coef": 0.01}
TEXT = ("In the beginning was the word, and the word was with those who count. " * 40).encode()
PRESETS = ("topology/presets/cpu-host.json", "topology/presets/devices/cpu-core.json", "topology/presets/dgx-a100-80gb.json",
           "topology/presets/devices/a100-sxm4-80gb.json", "topology/calibration/a100.json", "topology/calibration/cpu.json",
           "topology/errors/step_time.json", "models/presets/gpt2-345m.json", "models/stacks/megatron-core.json", "models/stacks/tandem.json")


def environment(folder, **more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TANDEM", "XDG_"))}
    return kept | {"HOME": str(folder), "TANDEM_MEASURED": str(folder / "nothing-measured"), "NO_COLOR": "1", **more}


class Material:
    """Every kind of input as bytes, by name."""

    def __init__(self, folder):
        self.folder = folder
        self.files = {"plan.json": json.dumps(PLAN).encode(), "experts.json": json.dumps(EXPERTS).encode(), "gpus.json": json.dumps(GPUS).encode(),
                      "study.json": json.dumps(STUDY).encode(), "table.json": json.dumps(TABLE).encode(), "text.txt": TEXT,
                      "records.jsonl": b"".join(json.dumps({"id": f"r{i}", "plan": plan, "measured": {"step_time_s": 0.01, "peak_memory_bytes": 10**7},
                                                            "source": "nobody", "as_of": "2026-01"}).encode() + b"\n" for i, plan in enumerate((PLAN, EXPERTS)))}
        self.files |= {name: json.dumps(config).encode() for name, config in CONFIGS.items()}
        products = SOURCE / "topology/measured/a100-sxm4-80gb-best.json"
        self.files["products.json"] = products.read_bytes()
        for name, data in self.files.items():
            (folder / name).write_bytes(data)
        self.schema = json.loads(self._run("schema"))
        self._run("simulate", "plan.json", "--timeline", "simulated.json")
        self._run("train", "plan.json", "--data", "text.txt", "--steps", "3", "--timeline", "trained.json", "--save", "state.safetensors")
        self._run("train", "experts.json", "--data", "text.txt", "--steps", "2", "--timeline", "routed.json")
        self._run("sweep", "study.json", "--out", "rows")
        for name in ("simulated.json", "trained.json", "routed.json", "state.safetensors", "rows/results.jsonl", "rows/study.json", "rows/results.csv"):
            self.files[name] = (folder / name).read_bytes()
        for name in PRESETS:
            if (SOURCE / name).exists():
                self.files["presets/" + name] = (SOURCE / name).read_bytes()

    def _run(self, *arguments):
        done = subprocess.run([PROGRAM, *arguments], cwd=self.folder, env=environment(self.folder), capture_output=True, timeout=300, check=False)
        if done.returncode != 0:
            raise SystemExit(f"tandem {' '.join(arguments)}: exit {done.returncode}\n{done.stderr.decode()}")
        return done.stdout

    def json(self, name):
        return json.loads(self.files[name])

    def put(self, folder, *names):
        """Writes files as they are; returns nothing."""
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(self.files[name])
