#!/usr/bin/env python3
"""Training steps of whole models on one GPU, measured with plain PyTorch, as records that `tandem validate` reads.

    python3 train_gpt.py OUT.jsonl [--seconds 420] [--kernels KERNELS.json] [--only NAME]

Each case is a plan (one device, no parallelism): mixed precision with 16-bit weights, fp32 main gradients and an fp32
AdamW, written the way a trainer writes it (gradients are added to the main ones parameter by parameter as the backward pass
makes them; the optimizer is PyTorch's fused one; weights are copied back). A record holds the median time of the steps after
warm-up, the allocator's peaks, and the driver's count. --kernels also profiles a step of each and sums time by kernel.
"""
import argparse
import gc
import json
import math
import re
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

STEPS, WARM_UP = 5, 3
SMALL = 1e-3  # kernels that take less of the time in kernels are one row, "other"
CARD = "h200"  # prefix of the records' names and end of their cluster's; main() takes the card that is there


class Norm(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.rms = c["normalization"] == "rmsnorm"
        self.weight = nn.Parameter(torch.ones(c["hidden_size"]))
        self.bias = None if self.rms else nn.Parameter(torch.zeros(c["hidden_size"]))

    def forward(self, x):
        if self.rms:
            return F.rms_norm(x, (x.shape[-1],), self.weight, 1e-5)
        return F.layer_norm(x, (x.shape[-1],), self.weight, self.bias, 1e-5)


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class Layer(nn.Module):
    def __init__(self, c, t):
        super().__init__()
        h, f, b = c["hidden_size"], c["ffn_hidden_size"], c["linear_bias"]
        self.n, self.kv, self.d = c["num_attention_heads"], c["num_kv_heads"], h // c["num_attention_heads"]
        self.gated = c["activation"] == "swiglu"
        self.flash = t["flash_attention"]
        self.norm1, self.norm2 = Norm(c), Norm(c)
        self.qkv = nn.Linear(h, (self.n + 2 * self.kv) * self.d, bias=b)
        self.proj = nn.Linear(h, h, bias=b)
        self.up = nn.Linear(h, (2 if self.gated else 1) * f, bias=b)
        self.down = nn.Linear(f, h, bias=b)

    def attention(self, x, rope):
        B, S, _ = x.shape
        q, k, v = self.qkv(x).split([self.n * self.d, self.kv * self.d, self.kv * self.d], dim=-1)
        q, k, v = (y.view(B, S, -1, self.d).transpose(1, 2) for y in (q, k, v))
        if rope is not None:
            q, k = rotate(q, *rope), rotate(k, *rope)
        if self.flash:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.kv != self.n)
        else:
            if self.kv != self.n:
                k, v = (y.repeat_interleave(self.n // self.kv, dim=1) for y in (k, v))
            s = (q @ k.transpose(-2, -1)) / math.sqrt(self.d)
            mask = torch.ones(S, S, dtype=torch.bool, device=x.device).triu(1)
            y = F.softmax(s.masked_fill(mask, float("-inf")), dim=-1) @ v
        return self.proj(y.transpose(1, 2).reshape(B, S, -1))

    def forward(self, x, rope):
        x = x + self.attention(self.norm1(x), rope)
        y = self.up(self.norm2(x))
        if self.gated:
            a, b = y.chunk(2, dim=-1)
            y = F.silu(a) * b
        else:
            y = F.gelu(y, approximate="tanh")
        return x + self.down(y)


class Model(nn.Module):
    def __init__(self, c, t):
        super().__init__()
        self.recompute = t["recompute"] == "full"
        h, v, s = c["hidden_size"], c["vocab_size"], t["seq_length"]
        self.tokens = nn.Embedding(v, h)
        self.rope = c["position_embedding"] == "rope"
        self.positions = None if self.rope else nn.Embedding(s, h)
        self.layers = nn.ModuleList(Layer(c, t) for _ in range(c["num_layers"]))
        self.norm = Norm(c)
        self.head = nn.Linear(h, v, bias=False)
        if c["tie_embeddings"]:
            self.head.weight = self.tokens.weight
        if self.rope:
            d = h // c["num_attention_heads"]
            angle = torch.outer(torch.arange(s).float(), 10000.0 ** (-torch.arange(0, d, 2).float() / d)).repeat(1, 2)
            self.register_buffer("cos", angle.cos())
            self.register_buffer("sin", angle.sin())

    def forward(self, tokens, targets):
        x = self.tokens(tokens)
        rope = None
        if self.rope:
            rope = (self.cos.to(x.dtype), self.sin.to(x.dtype))
        else:
            x = x + self.positions.weight
        for layer in self.layers:
            x = checkpoint(layer, x, rope, use_reentrant=False) if self.recompute else layer(x, rope)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.view(-1))


class MixedAdamW:
    """An optimizer with fp32 main weights and gradients for 16-bit weights."""

    def __init__(self, model):
        self.weights = list(model.parameters())
        self.main = [p.detach().float() for p in self.weights]
        for p, m in zip(self.weights, self.main):
            m.grad = torch.zeros_like(m)
            p.register_post_accumulate_grad_hook(self.accumulate(m))
        self.adam = torch.optim.AdamW(self.main, lr=1e-4, fused=True)

    @staticmethod
    def accumulate(main):
        def hook(p):
            main.grad.add_(p.grad)
            p.grad = None
        return hook

    def step(self):
        grads = [m.grad for m in self.main]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
        torch._foreach_mul_(grads, torch.clamp(1.0 / (norm + 1e-6), max=1.0))
        self.adam.step()
        torch._foreach_copy_([p.data for p in self.weights], self.main)
        torch._foreach_zero_(grads)


def gpt(name, layers, hidden, heads, vocab=51200, **more):
    return dict(dict(name=name, family="gpt", num_layers=layers, hidden_size=hidden, num_attention_heads=heads, num_kv_heads=heads,
                     ffn_hidden_size=4 * hidden, vocab_size=vocab, activation="gelu", normalization="layernorm",
                     position_embedding="learned", tie_embeddings=True, linear_bias=True), **more)


def llama(name, layers, hidden, heads, kv, ffn, vocab=32000):
    return dict(name=name, family="llama", num_layers=layers, hidden_size=hidden, num_attention_heads=heads, num_kv_heads=kv,
                ffn_hidden_size=ffn, vocab_size=vocab, activation="swiglu", normalization="rmsnorm", position_embedding="rope",
                tie_embeddings=False, linear_bias=False)


def cases():
    def case(model, seq, micro, batches=1, recompute="none", flash=True, compiled=False):
        yield dict(model=model, seq=seq, micro=micro, batches=batches, recompute=recompute, flash=flash, compiled=compiled)

    g = {n: gpt(f"GPT {n}", *s) for n, s in {"125M": (12, 768, 12), "355M": (24, 1024, 16), "1.3B": (24, 2048, 16), "2.7B": (32, 2560, 32),
         "6.7B/12": (12, 4096, 32), "13B/8": (8, 5120, 40), "30B/4": (4, 7168, 56), "175B/2": (2, 12288, 96)}.items()}
    l = {"7B/12": llama("LLaMA-2 7B, 12 layers", 12, 4096, 32, 32, 11008), "8B/10": llama("LLaMA-3 8B, 10 layers", 10, 4096, 32, 8, 14336, 128256),
         "70B/3": llama("LLaMA-2 70B, 3 layers", 3, 8192, 64, 8, 28672), "1.1B": llama("LLaMA 1.1B", 22, 2048, 32, 4, 5632)}
    for m, seq, micro in (("125M", 1024, 1), ("125M", 1024, 16), ("125M", 1024, 64), ("355M", 1024, 4), ("355M", 2048, 8), ("1.3B", 2048, 1), ("1.3B", 2048, 4),
                          ("1.3B", 2048, 16), ("2.7B", 2048, 4), ("2.7B", 2048, 8), ("6.7B/12", 2048, 1), ("6.7B/12", 2048, 4), ("6.7B/12", 8192, 1),
                          ("13B/8", 2048, 4), ("30B/4", 2048, 4), ("175B/2", 2048, 2)):
        yield from case(g[m], seq, micro)
    for m, seq, micro in (("1.1B", 2048, 8), ("7B/12", 4096, 1), ("7B/12", 4096, 4), ("8B/10", 8192, 1), ("70B/3", 4096, 1), ("70B/3", 4096, 2)):
        yield from case(l[m], seq, micro)
    yield from case(g["1.3B"], 2048, 4, batches=8)
    yield from case(g["6.7B/12"], 2048, 2, batches=4)
    yield from case(g["1.3B"], 2048, 4, recompute="full")
    yield from case(g["1.3B"], 2048, 16, recompute="full")
    yield from case(g["6.7B/12"], 2048, 8, recompute="full")
    yield from case(l["7B/12"], 4096, 4, recompute="full")
    yield from case(g["355M"], 1024, 8, flash=False)
    yield from case(g["1.3B"], 2048, 2, flash=False)
    yield from case(g["6.7B/12"], 2048, 2, flash=False)
    yield from case(g["1.3B"], 2048, 4, compiled=True)
    yield from case(l["7B/12"], 4096, 2, compiled=True)
    yield from case(l["8B/10"], 8192, 1, compiled=True)
    yield from case(g["6.7B/12"], 2048, 4, compiled=True)
    yield from case(g["125M"], 1024, 16, compiled=True)


def name_of(k):
    words = [k["model"]["name"].replace(",", "").replace(" ", "-").lower(), f"s{k['seq']}", f"b{k['micro']}"]
    words += [f"m{k['batches']}"] * (k["batches"] > 1) + ["recompute"] * (k["recompute"] == "full")
    words += ["scores"] * (not k["flash"]) + ["compiled"] * k["compiled"]
    return CARD + "-" + "-".join(words).replace("/", "-")


def plan_of(k):
    training = dict(seq_length=k["seq"], micro_batch_size=k["micro"], global_batch_size=k["micro"] * k["batches"], precision="bf16",
                    recompute=k["recompute"], flash_attention=k["flash"], optimizer="adamw")
    if k["flash"]:
        training["attention_kernel"] = "tuned"  # PyTorch 2.11 takes cuDNN's on this device
    if k["compiled"]:
        training["fusion"] = "compiled"
    elif k["model"]["normalization"] == "rmsnorm":
        training["fusion"] = "eager-fused-rmsnorm"  # F.rms_norm is one kernel since PyTorch 2.9
    return dict(name=name_of(k), model=k["model"], parallel=dict(tensor=1, pipeline=1, data=1, zero_stage=0), training=training,
                cluster=dict(devices=1, preset="dgx-" + CARD), stack="pytorch-ddp")


def short_name(kernel):
    """A kernel's name without common namespaces, so that truncation keeps what differs."""
    return re.sub(r"^void |\bat(_cuda_detail|::native)?::|\bc10::|\(anonymous namespace\)::", "", kernel)[:110]


def kernel_rows(events):
    """Converts a step's (name, calls, seconds) to [{kernel, calls, seconds}], longest first."""
    small = SMALL * sum(e[2] for e in events)
    rows = [(short_name(n), calls, s) for n, calls, s in sorted(events, key=lambda e: -e[2]) if s >= small]
    rest = [e for e in events if e[2] < small]
    rows += [("other", sum(e[1] for e in rest), sum(e[2] for e in rest))] * bool(rest)
    return [dict(kernel=n, calls=calls, seconds=float(f"{s:.5g}")) for n, calls, s in rows]


def run(k, kernels):
    torch.manual_seed(0)
    torch.cuda.reset_peak_memory_stats()
    c, t = k["model"], plan_of(k)["training"]
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = Model(c, t)
        torch.set_default_dtype(torch.float32)
        for p in model.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
    optimizer = MixedAdamW(model)
    call = torch.compile(model) if k["compiled"] else model
    data = torch.randint(c["vocab_size"], (k["micro"], k["seq"] + 1), device="cuda")

    def step():
        for _ in range(k["batches"]):
            (call(data[:, :-1].contiguous(), data[:, 1:].contiguous()) / k["batches"]).backward()
        optimizer.step()

    for _ in range(WARM_UP):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    times, host = [], []
    until = time.time() + 1.5  # the card under load, as a run of hours has it
    while len(times) < STEPS or (time.time() < until and len(times) < 200):
        begin = time.time()
        step()
        host.append(time.time() - begin)
        torch.cuda.synchronize()
        times.append(time.time() - begin)
    record = dict(id=name_of(k), source="experiments/corpus/measured/train_gpt.py", grade="A", plan=plan_of(k),
                  measured=dict(step_time_s=statistics.median(times), peak_memory_bytes=torch.cuda.max_memory_allocated(), peak_memory_kind="allocated",
                                peak_memory_rank="heaviest"),
                  details=dict(steps=len(times), fastest_s=min(times), slowest_s=max(times), host_s=statistics.median(host),
                               reserved_bytes=torch.cuda.max_memory_reserved(), device_bytes=torch.cuda.mem_get_info()[1] - torch.cuda.mem_get_info()[0],
                               static_bytes=torch.cuda.memory_allocated()))
    if kernels is not None:
        from torch.profiler import ProfilerActivity, profile
        with profile(activities=[ProfilerActivity.CUDA]) as p:
            step()
            torch.cuda.synchronize()
        kernels[record["id"]] = kernel_rows([(e.key, e.count, e.device_time_total * 1e-6) for e in p.key_averages() if e.device_time_total > 0])
    return record


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--seconds", type=float, default=420, help="no new case is begun after this long")
    parser.add_argument("--kernels", help="time by kernel of a step of every case, as JSON")
    parser.add_argument("--only", help="cases whose name contains this")
    parser.add_argument("--names", help="the cases of these names, without the card's, with commas between them")
    parser.add_argument("--list", action="store_true", help="print the plans and stop")
    parser.add_argument("--card", choices=("h100", "h200"), help="without a GPU: whose plans are listed")
    o = parser.parse_args()
    global CARD
    CARD = o.card or torch.cuda.get_device_name().split()[1].lower()
    names = o.names.split(",") if o.names else None
    todo = [k for k in cases() if (not o.only or o.only in name_of(k)) and (names is None or name_of(k).removeprefix(CARD + "-") in names)]
    if o.list:
        for k in todo:
            print(json.dumps(plan_of(k)))
        return
    begin = time.time()
    torch.backends.cuda.matmul.allow_tf32 = True
    where = dict(card=torch.cuda.get_device_name(), torch=torch.__version__, cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version(),
                 date=time.strftime("%Y-%m-%d"), context_bytes=torch.cuda.mem_get_info()[1] - torch.cuda.mem_get_info()[0])
    print(json.dumps(where), flush=True)
    kernels = {} if o.kernels else None
    with open(o.out, "w") as out:
        for k in todo:
            if time.time() - begin > o.seconds:
                print("not measured for want of time:", name_of(k), flush=True)
                continue
            try:
                record = run(k, kernels)
                record["details"].update(where)
                out.write(json.dumps(record) + "\n")
                out.flush()
                print(f"{time.time() - begin:6.1f} {record['id']:52s} {1e3 * record['measured']['step_time_s']:9.2f} ms (host {1e3 * record['details']['host_s']:8.2f}) "
                      f"{record['measured']['peak_memory_bytes'] / 2**30:7.2f} GiB", flush=True)
            except torch.OutOfMemoryError as e:
                print(name_of(k), "out of memory", flush=True)
            except Exception as e:  # one case must not lose the others
                print(name_of(k), "failed:", repr(e)[:200], flush=True)
            gc.collect()
            torch.cuda.empty_cache()
            torch._dynamo.reset()
    if o.kernels:
        with open(o.kernels, "w") as f:
            rows = {name: ",\n  ".join(map(json.dumps, found)) for name, found in kernels.items()}
            f.write("{\n" + ",\n".join(f" {json.dumps(name)}: [\n  {text}\n ]" for name, text in rows.items()) + "\n}\n")


if __name__ == "__main__":
    sys.exit(main())
