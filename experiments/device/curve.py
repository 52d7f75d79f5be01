#!/usr/bin/env python3
"""GPT-2 124M on real text by Tandem and by PyTorch from the same weights on the same batches: the loss of every step.

    curve.py TANDEM OUT.json [--steps N] [--plan PLAN.json] [--backend cpu --device cpu]

Tandem trains one step and saves its state; both go on from there. PyTorch's training is bf16 weights with fp32 masters, gradients
and moments, compiled, flash attention and fused AdamW; with precision fp32 all is fp32. `--plot OUT.json PICTURE.png` draws.
"""
import argparse
import json
import math
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import cluster

ROOT = Path(__file__).resolve().parent.parent.parent
TEXT = ROOT / "experiments/data/kjv-new-testament.txt"
BITS = (1 << 64) - 1
WEYL = 0x9E3779B97F4A7C15


def mix(x):
    """The mixing function of SplitMix64."""
    x = (x + WEYL) & BITS
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & BITS
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & BITS
    return x ^ (x >> 31)


def window(index, windows, seed):
    """The window of the text for sequence `index`, in the order of exec/data/permutation.hpp."""
    key = seed ^ ((index // windows) * 0xD1342543DE82EF95 & BITS)
    keys = [mix((key + i * WEYL) & BITS) for i in range(4)]
    half = max(1, ((windows - 1).bit_length() + 1) // 2)
    value, mask = index % windows, (1 << half) - 1
    while True:
        left, right = value >> half, value & mask
        for k in keys:
            left, right = right, left ^ (mix(right ^ k) & mask)
        value = left << half | right
        if value < windows:
            return value


def batch(text, step, training, seed):
    """Returns rows of seq + 1 bytes."""
    seq, size = training["seq_length"], training["global_batch_size"]
    windows = (len(text) - 1) // seq
    return [text[w * seq:w * seq + seq + 1] for w in (window(i, windows, seed) for i in range(step * size, (step + 1) * size))]


def tensors_of(path):
    """Reads the tensors of a safetensors file."""
    import torch
    types = {"F32": torch.float32, "F64": torch.float64, "BF16": torch.bfloat16, "I64": torch.int64}
    raw = Path(path).read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    out = {}
    for name, t in json.loads(raw[8:8 + size]).items():
        if name not in ("__metadata__", "checksum"):
            begin, end = t["data_offsets"]
            out[name] = torch.frombuffer(bytearray(raw[8 + size + begin:8 + size + end]), dtype=types[t["dtype"]]).reshape(t["shape"])
    return out


def learning_rate(training, step, steps):
    peak, least, warmup = training["learning_rate"], training["min_learning_rate"], training["warmup"]
    if step < warmup:
        return peak * min(1.0, (step + 1) / warmup)
    x = min(1.0, (step - warmup) / max(steps - warmup, 1))
    return least + (peak - least) * 0.5 * (1 + math.cos(math.pi * x))


def model_of(plan, torch):
    F, model = torch.nn.functional, plan["model"]
    heads, dim = model["num_attention_heads"], model["hidden_size"] // model["num_attention_heads"]

    class Gpt2(torch.nn.Module):
        def __init__(self, tensors):
            super().__init__()
            self.names = list(tensors)
            self.p = torch.nn.ParameterDict({n.replace(".", "/"): torch.nn.Parameter(t) for n, t in tensors.items()})

        def of(self, name):
            return self.p[name.replace(".", "/")]

        def norm(self, name, x):
            return F.layer_norm(x, (x.shape[-1],), self.of(name + ".weight"), self.of(name + ".bias"), 1e-5)

        def linear(self, name, x):
            return F.linear(x, self.of(name + ".weight"), self.of(name + ".bias"))

        def attention(self, n, x):
            rows, seq, _ = x.shape
            q, k, v = self.linear(n + "qkv", x).view(rows, seq, heads, 3, dim).permute(3, 0, 2, 1, 4)
            if hasattr(F, "scaled_dot_product_attention"):
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            else:
                scores = (q @ k.transpose(-1, -2) / math.sqrt(dim)).masked_fill(torch.ones(seq, seq, dtype=torch.bool).triu(1), float("-inf"))
                y = scores.softmax(-1) @ v
            return self.linear(n + "proj", y.transpose(1, 2).reshape(rows, seq, -1))

        def forward(self, tokens, targets):
            x = F.embedding(tokens, self.of("embedding.word.weight")) + self.of("embedding.position.weight")[:tokens.shape[1]]
            for i in range(model["num_layers"]):
                n = f"layer{i}."
                x = x + self.attention(n, self.norm(n + "ln1", x))
                x = x + self.linear(n + "fc2", F.gelu(self.linear(n + "fc1", self.norm(n + "ln2", x)), approximate="tanh"))
            logits = F.linear(self.norm("final_norm", x), self.of("embedding.word.weight"))
            return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.reshape(-1))

    return Gpt2


def copy_all(torch, to, sources):
    """Copies tensors, in few kernels where PyTorch has such."""
    if hasattr(torch, "_foreach_copy_"):
        return torch._foreach_copy_(to, sources)
    for t, s in zip(to, sources):
        t.copy_(s)


class Masters:
    """AdamW with fp32 master weights, gradients and moments. Weight decay applies only to matrices."""

    def __init__(self, model, saved, training, torch, device):
        self.torch, self.clip = torch, 1.0
        self.weights = list(model.parameters())
        names = model.names
        main = [saved.get("master." + n, saved[n]).to(device, torch.float32).clone() for n in names]
        for m in main:
            m.grad = torch.zeros_like(m)
        decay = training["weight_decay"]
        groups = [{"params": [m for m in main if m.dim() > 1], "weight_decay": decay}, {"params": [m for m in main if m.dim() == 1], "weight_decay": 0.0}]
        fused = {"fused": True} if device == "cuda" else {}
        self.adam = torch.optim.AdamW(groups, lr=0.0, betas=(training["beta1"], training["beta2"]), eps=training["epsilon"], **fused)
        for n, m in zip(names, main):
            self.adam.state[m] = {"step": torch.tensor(1.0, device=device if fused else "cpu"), "exp_avg": saved["exp_avg." + n].to(device).clone(),
                                  "exp_avg_sq": saved["exp_avg_sq." + n].to(device).clone()}
        self.main = main
        self.copy()

    def copy(self):
        with self.torch.no_grad():
            copy_all(self.torch, [w.data for w in self.weights], self.main)

    def step(self, rate):
        torch = self.torch
        grads = [m.grad for m in self.main]
        copy_all(torch, grads, [w.grad for w in self.weights])
        for w in self.weights:
            w.grad = None
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
        torch._foreach_mul_(grads, torch.clamp(self.clip / norm, max=1.0))
        for group in self.adam.param_groups:
            group["lr"] = rate
        self.adam.step()
        self.copy()
        return norm


def by_pytorch(plan, saved, steps, device):
    """Returns [{step, loss, grad_norm}] of steps 1 ... steps - 1, the median step's seconds, and the device and versions."""
    import torch
    training = plan["training"]
    wide = torch.bfloat16 if training["precision"] == "bf16" else torch.float32
    names = [n for n in saved if not n.startswith(("exp_avg", "master."))]
    model = model_of(plan, torch)({n: saved[n].to(device, wide) for n in names})
    masters = Masters(model, saved, training, torch, device)
    call = torch.compile(model) if device == "cuda" else model
    text, out, times = TEXT.read_bytes(), [], []
    batches = [torch.tensor([list(r) for r in batch(text, s, training, training.get("seed", 1234))]) for s in range(1, steps)]
    if device == "cuda":
        batches = [b.pin_memory() for b in batches]
    for step, rows in enumerate(batches, 1):
        begin = time.time()
        rows = rows.to(device, non_blocking=True)
        loss = call(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())
        loss.backward()
        norm = masters.step(learning_rate(training, step, steps))
        out.append({"step": step, "loss": loss.item(), "grad_norm": norm.item()})
        times.append(time.time() - begin)
    return out, sorted(times)[len(times) // 2], f"PyTorch {torch.__version__}"


def default_plan(steps):
    return {"model": {"preset": "gpt2-124m"}, "cluster": {"preset": cluster(), "devices": 1},
            "training": {"seq_length": 1024, "micro_batch_size": 16, "global_batch_size": 16, "precision": "bf16", "steps": steps, "learning_rate": 6e-4,
                         "min_learning_rate": 6e-5, "warmup": min(100, steps // 4), "learning_rate_decay": "cosine", "beta1": 0.9, "beta2": 0.95,
                         "epsilon": 1e-8, "weight_decay": 0.1, "clip_grad": 1.0}}


def by_tandem(tandem, plan_file, folder, steps, backend):
    """Returns the state after the first step, and the report of a run of all steps."""
    command = [tandem, "train", str(plan_file), "--data", str(TEXT), "--backend", backend, "--json", "--schedule-steps", str(steps)]
    state = folder / "first.safetensors"
    state.unlink(missing_ok=True)  # of an earlier run: train replaces none
    for more in (["--steps", "1", "--save", str(state)], ["--steps", str(steps)]):
        done = subprocess.run([*command, *more], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"curve.py: tandem train ended with {done.returncode}: {done.stderr[-1500:]}")
    return tensors_of(state), json.loads(done.stdout)


def plot(source, picture):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    data = json.loads(Path(source).read_text(encoding="utf-8"))
    steps, ours, theirs = ([s[i] for s in data["steps"]] for i in range(3))
    fig, (top, low) = plt.subplots(2, 1, figsize=(8, 6), sharex=True, gridspec_kw={"height_ratios": [3, 1]})
    top.plot(steps, theirs, label=data["pytorch"], color="tab:orange", linewidth=2.5, alpha=0.6)
    top.plot(steps, ours, label="Tandem", color="tab:blue", linewidth=0.8)
    top.set_ylabel("loss of a step, nats per byte")
    top.legend()
    top.set_title(f"GPT-2 124M, bf16, on one {data['card']}: same weights, same batches")
    low.plot(steps, [a - b for a, b in zip(ours, theirs)], color="tab:gray", linewidth=0.8)
    low.set_ylabel("difference")
    low.set_xlabel("step")
    fig.tight_layout()
    fig.savefig(picture, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tandem")
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--plan", type=Path, help="another plan: a GPT in fp32 or bf16 with the same fields")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--device", default="cuda", help="PyTorch's")
    parser.add_argument("--plot", action="store_true", help="draw OUT of the record that stands in the first argument's place")
    args = parser.parse_args()
    if args.plot:
        return plot(args.tandem, args.out)
    plan = json.loads(args.plan.read_text(encoding="utf-8")) if args.plan else default_plan(args.steps)
    with tempfile.TemporaryDirectory() as folder:
        plan_file = Path(folder) / "plan.json"
        plan_file.write_text(json.dumps(plan), encoding="utf-8")
        saved, report = by_tandem(args.tandem, plan_file, Path(folder), args.steps, args.backend)
    if "preset" in plan["model"]:
        plan["model"] = json.loads((ROOT / f"models/presets/{plan['model']['preset']}.json").read_text(encoding="utf-8"))["model"]
    theirs, seconds, what = by_pytorch(plan, saved, args.steps, args.device)
    ours = {s["step"]: s for s in report["steps"]}
    record = {"card": "", "pytorch": what, "plan": plan, "tandem_step_s": report["step_time_s"], "pytorch_step_s": seconds, "mfu": report.get("mfu"),
              "columns": ["step", "tandem", "pytorch", "tandem_norm", "pytorch_norm"],
              "steps": [[t["step"], ours[t["step"]]["loss"], t["loss"], ours[t["step"]]["grad_norm"], t["grad_norm"]] for t in theirs]}
    if args.device == "cuda":
        import torch
        record["card"] = torch.cuda.get_device_name()
    args.out.write_text(json.dumps(record) + "\n", encoding="utf-8")
    last = record["steps"][-1]
    print(f"{args.steps} steps: Tandem {last[1]:.4f}, {1e3 * report['step_time_s']:.1f} ms; {what} {last[2]:.4f}, {1e3 * seconds:.1f} ms")


if __name__ == "__main__":
    main()
