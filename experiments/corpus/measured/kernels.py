#!/usr/bin/env python3
"""Times PyTorch's own kernels on one GPU: kinds of attention, and eager layers' operations other than products.

    python3 kernels.py OUT.jsonl [--only PART...]

A line is {"op", "shape", "type", "seconds", ...}: the median over batches of calls between two events, inputs random, rotated over
buffers that do not fit in the cache. Host time of a call is measured apart, on tensors too small to keep the card busy.
"""
import argparse
import json
import math
import statistics
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

BATCH_S = 0.02


def seconds(call, copies):
    """Returns the median seconds of call(i), where i cycles over the copies of its operands."""
    for i in range(2 * copies):
        call(i % copies)
    torch.cuda.synchronize()
    begin = time.time()
    for i in range(copies):
        call(i)
    torch.cuda.synchronize()
    calls = max(copies, int(BATCH_S / max(1e-6, (time.time() - begin) / copies)))
    found = []
    for _ in range(5):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        for i in range(calls):
            call(i % copies)
        b.record()
        b.synchronize()
        found.append(1e-3 * a.elapsed_time(b) / calls)
    return statistics.median(found)


def copies_of(elements, element_bytes=2):
    return max(1, min(8, int(2**28 / max(1, elements * element_bytes))))


def attention(write):
    for batch, heads, kv, seq, dim in ((1, 96, 96, 2048, 128), (1, 12, 12, 2048, 128), (4, 32, 32, 2048, 128), (1, 32, 32, 4096, 128), (4, 32, 8, 4096, 128), (1, 32, 8, 8192, 128),
                                       (1, 8, 1, 8192, 128), (1, 32, 8, 32768, 128), (1, 64, 8, 4096, 128), (1, 8, 8, 2048, 128), (1, 16, 16, 1024, 64), (16, 16, 16, 1024, 64),
                                       (8, 16, 16, 2048, 128), (32, 12, 12, 512, 64), (4, 25, 25, 2048, 64), (2, 40, 40, 2048, 128), (1, 1, 1, 4096, 128), (1, 4, 4, 4096, 128)):
        for causal in (True, False):
            for kind in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
                n = copies_of(4 * batch * heads * seq * dim)
                q = [torch.randn(batch, heads, seq, dim, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(n)]
                k = [torch.randn(batch, kv, seq, dim, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(n)]
                v = [torch.randn(batch, kv, seq, dim, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(n)]
                g = torch.randn(batch, heads, seq, dim, device="cuda", dtype=torch.bfloat16)
                with sdpa_kernel(kind):
                    call = lambda i: F.scaled_dot_product_attention(q[i], k[i], v[i], is_causal=causal, enable_gqa=kv != heads)
                    with torch.no_grad():
                        forward = seconds(call, n)
                    out = [call(i) for i in range(n)]
                    backward = seconds(lambda i: torch.autograd.grad(out[i], (q[i], k[i], v[i]), g, retain_graph=True), n)
                pairs = batch * heads * seq * (seq / 2 if causal else seq)
                write(op="attention", kind=kind.name.lower().removesuffix("_attention"), shape=dict(batch=batch, heads=heads, kv_heads=kv, seq=seq, head_dim=dim), causal=causal,
                      type="bf16", forward_s=forward, backward_s=backward, forward_tflops=4e-12 * pairs * dim / forward, backward_tflops=10e-12 * pairs * dim / backward)


def streaming(write):
    for rows, width in ((1024, 1024), (4096, 1024), (2048, 4096), (8192, 4096), (8192, 16384), (32768, 2048), (4096, 12288), (32768, 8192)):
        n = copies_of(rows * width)
        x = [torch.randn(rows, width, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(n)]
        y = [torch.randn(rows, width, device="cuda", dtype=torch.bfloat16) for _ in range(n)]
        f = [torch.randn(rows, width, device="cuda") for _ in range(n)]
        w = torch.randn(width, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        b = torch.randn(width, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        out = lambda fn: [fn(i) for i in range(n)]

        def forward(op, fn, moved):
            with torch.no_grad():
                t = seconds(fn, n)
            write(op=op, shape=dict(rows=rows, width=width), type="bf16", seconds=t, bytes=moved * rows * width, gb_per_s=1e-9 * moved * rows * width / t)

        def backward(op, fn, wrt, moved):
            made = out(fn)
            t = seconds(lambda i: torch.autograd.grad(made[i], [x[i]] + wrt, y[i], retain_graph=True), n)
            write(op=op, shape=dict(rows=rows, width=width), type="bf16", seconds=t, bytes=moved * rows * width, gb_per_s=1e-9 * moved * rows * width / t)

        forward("copy", lambda i: x[i].clone(), 4)
        forward("add", lambda i: x[i] + y[i], 6)
        forward("gelu", lambda i: F.gelu(x[i], approximate="tanh"), 4)
        forward("layer norm", lambda i: F.layer_norm(x[i], (width,), w, b), 4)
        forward("rms norm", lambda i: F.rms_norm(x[i], (width,), w), 4)
        forward("dropout", lambda i: F.dropout(x[i], 0.1), 5)
        forward("cast to fp32", lambda i: x[i].float(), 6)
        forward("add into fp32", lambda i: f[i].add_(y[i]), 10)
        forward("softmax", lambda i: F.softmax(x[i], dim=-1), 4)
        forward("column sum", lambda i: x[i].sum(0), 2)
        backward("gelu backward", lambda i: F.gelu(x[i], approximate="tanh"), [], 6)
        backward("layer norm backward", lambda i: F.layer_norm(x[i], (width,), w, b), [w, b], 6)
        backward("rms norm backward", lambda i: F.rms_norm(x[i], (width,), w), [w], 6)
        backward("softmax backward", lambda i: F.softmax(x[i], dim=-1), [], 6)
        del x, y, f
    for rows, vocab in ((2048, 50304), (8192, 32000), (8192, 51200), (8192, 128256)):
        logits = torch.randn(rows, vocab, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        target = torch.randint(vocab, (rows,), device="cuda")
        with torch.no_grad():
            t = seconds(lambda i: F.cross_entropy(logits.float(), target), 1)
        loss = F.cross_entropy(logits.float(), target)
        u = seconds(lambda i: torch.autograd.grad(loss, logits, retain_graph=True), 1)
        write(op="loss in fp32", shape=dict(rows=rows, vocabulary=vocab), type="bf16", forward_s=t, backward_s=u, forward_bytes_per_logit=4.0e12 * t / (rows * vocab), backward_bytes_per_logit=4.0e12 * u / (rows * vocab))
    for n in (10**6, 10**8, 10**9):
        p = torch.randn(n, device="cuda", requires_grad=True)
        p.grad = torch.randn(n, device="cuda")
        adam = torch.optim.AdamW([p], fused=True)
        adam.step()
        t = seconds(lambda i: adam.step(), 1)
        write(op="fused AdamW", shape=dict(elements=n), type="fp32", seconds=t, bytes=28 * n, gb_per_s=28e-9 * n / t)
        del p, adam


def chains(write):
    """Consecutive additions, each of which reads the last one's output. Shows the cache's benefit, which single kernels do not."""
    for megabytes in (2, 4, 8, 16, 24, 32, 48, 64, 128, 256, 512):
        n = megabytes * 2**20 // 2
        for tensors in (1, 4):  # as many are written in turn: a layer's activations
            x = [torch.randn(n, device="cuda", dtype=torch.bfloat16) for _ in range(tensors + 1)]

            def call(i):
                for t in range(tensors):
                    torch.add(x[t], 1.0, out=x[t + 1])

            t = seconds(call, 1) / tensors
            write(op="chained addition", shape=dict(megabytes=megabytes, tensors=tensors), type="bf16", seconds=t, bytes=4 * n, gb_per_s=4e-9 * n / t)
            del x


def compiled(write):
    """Kernels fused by a compiler, forward and backward: the operations between a layer's products in fused stacks."""
    def rope(x, cos, sin):
        a, b = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-b, a), dim=-1) * sin

    def gated(x):
        a, b = x.chunk(2, dim=-1)
        return F.silu(a) * b

    torch.backends.cuda.matmul.allow_tf32 = True
    for rows, width in ((8192, 4096), (8192, 16384)):
        def of(columns, rank=2):
            shape = (rows, columns) if rank == 2 else (1, columns // 128, rows, 128)
            return torch.randn(*shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)

        w = torch.randn(width, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        b = torch.randn(width, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        angle = torch.randn(rows, 128, device="cuda", dtype=torch.bfloat16)
        # Name, function, operands, elements read and written per row: forward, backward.
        cases = (("bias and gelu", lambda x, v: F.gelu(x + v, approximate="tanh"), (of(width), b), 2, 3),
                 ("swiglu", gated, (of(2 * width),), 3, 5),
                 ("bias, dropout and addition", lambda x, v, r: r + F.dropout(x + v, 0.1), (of(width), b, of(width)), 3, 3),
                 ("rms norm and addition", lambda x, r, v: F.rms_norm(x + r, (width,), v), (of(width), of(width), w), 3, 5),
                 ("layer norm and addition", lambda x, r, v, u: F.layer_norm(x + r, (width,), v, u), (of(width), of(width), w, b), 3, 5),
                 ("rotation", lambda x: rope(x, angle, angle), (of(width, 4),), 2, 2))
        for name, f, operands, forward_moves, backward_moves in cases:
            for kind in ("eager", "compiled"):
                if kind == "eager" and rows * width != 8192 * 4096:
                    continue
                torch._dynamo.reset()
                g = torch.compile(f) if kind == "compiled" else f
                n = copies_of(3 * operands[0].numel())
                sets = [[torch.randn_like(o).requires_grad_() if o.dim() > 1 else o for o in operands] for _ in range(n)]
                made = [g(*s) for s in sets]
                grad = torch.randn_like(made[0])
                with torch.no_grad():
                    t = seconds(lambda i: g(*sets[i]), n)
                u = seconds(lambda i: torch.autograd.grad(made[i], sets[i], grad, retain_graph=True), n)
                e = 2 * rows * width
                write(op=name, kind=kind, shape=dict(rows=rows, width=width), type="bf16", forward_s=t, backward_s=u,
                      forward_gb_per_s=1e-9 * forward_moves * e / t, backward_gb_per_s=1e-9 * backward_moves * e / u)
                del sets, made


def host(write):
    x = torch.randn(64, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    w = torch.randn(64, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    q = torch.randn(1, 2, 64, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)

    def issue(op, fn):
        for _ in range(50):
            fn()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(2000):
            fn()
        t = (time.perf_counter() - begin) / 2000
        torch.cuda.synchronize()
        write(op="host: " + op, seconds=t)

    with torch.no_grad():
        issue("add", lambda: x + x)
        issue("linear", lambda: F.linear(x, w))
        issue("layer norm", lambda: F.layer_norm(x, (64,)))
        issue("attention", lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True))
    issue("linear, graph recorded", lambda: F.linear(x, w))
    issue("linear and its backward", lambda: torch.autograd.grad(F.linear(x, w), (x, w), x))
    issue("attention and its backward", lambda: torch.autograd.grad(F.scaled_dot_product_attention(q, q, q, is_causal=True), q, q))


def products(write):
    """A few products under steady load, which show how far the power limit lowers the peak."""
    for m, n, k in ((8192, 8192, 8192), (4096, 12288, 4096), (8192, 16384, 4096), (8192, 4096, 16384), (2048, 6144, 2048), (4096, 2048, 8192), (16384, 28672, 8192), (2048, 51200, 2048),
                    (8192, 1536, 12288), (2048, 12288, 1536), (1024, 4096, 1024), (1024, 1024, 1024)):
        for kind in ("forward", "input gradient", "weight gradient"):
            c = copies_of(m * k + n * k + m * n)
            x = [torch.randn(m, k, device="cuda", dtype=torch.bfloat16) for _ in range(c)]
            w = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16) for _ in range(c)]
            g = [torch.randn(m, n, device="cuda", dtype=torch.bfloat16) for _ in range(c)]
            call = {"forward": lambda i: F.linear(x[i], w[i]), "input gradient": lambda i: g[i] @ w[i], "weight gradient": lambda i: g[i].T @ x[i]}[kind]
            short = seconds(call, c)
            until, t, calls = time.time() + 0.6, 0.0, max(8, int(0.1 / short))
            while time.time() < until:
                t = time.perf_counter()
                for i in range(calls):
                    call(i % c)
                torch.cuda.synchronize()
                t = (time.perf_counter() - t) / calls
            write(op="product", kind=kind, shape=dict(m=m, n=n, k=k), type="bf16", seconds=short, steady_s=t, tflops=2e-12 * m * n * k / short, steady_tflops=2e-12 * m * n * k / t)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--only", nargs="*", help="parts: host products attention streaming chains compiled")
    o = parser.parse_args()
    with open(o.out, "w") as out:
        def write(**row):
            row = {k: (float(f"{v:.5g}") if isinstance(v, float) else v) for k, v in row.items()}
            out.write(json.dumps(row) + "\n")
            out.flush()

        parts = dict(host=host, products=products, attention=attention, streaming=streaming, chains=chains, compiled=compiled)
        write(card=torch.cuda.get_device_name(), torch=torch.__version__, cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version(), date=time.strftime("%Y-%m-%d"))
        for name in o.only or parts:
            part, begin = parts[name], time.time()
            try:
                part(write)
            except Exception as e:  # one part must not lose the others
                print(part.__name__, "failed:", repr(e)[:300], flush=True)
            print(part.__name__, f"{time.time() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    main()
