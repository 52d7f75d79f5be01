#!/usr/bin/env python3
"""Trains GPT-2 124M on one core alternately by Tandem and by PyTorch. The machine should be idle.

    experiments/bench/beside_pytorch.py build/tandem [--python PYTHON]... [--shapes 4x64,1x512,4x512] [--steps 5] [--rounds 2]

A step is one micro-batch in fp32: forward and backward pass, gradient clipping, AdamW. PYTHON is an interpreter with torch;
given twice, it compares two versions. PyTorch runs eagerly, with flash attention and fused AdamW if its version has them for
CPUs. Prints the least step time after the first two steps, and PyTorch's as a multiple of Tandem's; then Tandem in bf16
against its own fp32; then the time from the program's start to the beginning and end of the first step.
"""
import argparse
import json
import os
import subprocess
import sys
import time

from gpt2_runs import TEXT, WARM, plan, seconds_of, step_lines, written

HERE = os.path.dirname(os.path.abspath(__file__))


def tandem_steps(tandem, data, contents, count):
    """Returns the seconds of every step, and the seconds from the program's start to the end of the first step."""
    with written(contents) as path:
        command = [tandem, "train", path, "--data", data, "--steps", str(count)]
        begin, first, told = time.monotonic(), None, ""
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
            for line in run.stderr:
                told += line
                if first is None and line.startswith("step "):
                    first = time.monotonic() - begin
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {run.returncode}\n{told}")
    return [seconds_of(words) for words in step_lines(told)], first


def torch_steps(python, sequences, tokens, count):
    """Returns torch's version and the seconds of every step."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # the library finds the processor itself
        environment.pop(name, None)
    command = [python, os.path.abspath(__file__), "--child", f"{sequences}x{tokens}", "--steps", str(count)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    answer = json.loads(done.stdout)
    return answer["version"], answer["seconds"]


def child(shape, count):
    """Trains by PyTorch and prints the times."""
    sys.path.insert(0, os.path.join(HERE, "..", "corpus", "measured"))
    import torch  # pylint: disable=import-outside-toplevel
    from train_gpt import Model  # pylint: disable=import-outside-toplevel
    torch.set_num_threads(1)
    torch.manual_seed(1)
    sequences, tokens = map(int, shape.split("x"))
    gpt2 = {"normalization": "layernorm", "hidden_size": 768, "num_attention_heads": 12, "num_kv_heads": 12, "ffn_hidden_size": 3072,
            "linear_bias": True, "activation": "gelu", "vocab_size": 50257, "position_embedding": "learned", "num_layers": 12,
            "tie_embeddings": True}
    flash = hasattr(torch.nn.functional, "scaled_dot_product_attention")
    model = Model(gpt2, {"recompute": "none", "flash_attention": flash, "seq_length": tokens})
    options = {"lr": 1e-4, "betas": (0.9, 0.95), "weight_decay": 0.1}
    try:
        adam = torch.optim.AdamW(model.parameters(), fused=True, **options)
    except (TypeError, RuntimeError):  # fused on CUDA alone, or not at all
        adam = torch.optim.AdamW(model.parameters(), **options)
    text = torch.randint(0, 50257, (count, sequences, tokens + 1))
    seconds = []
    for batch in text:
        begin = time.perf_counter()
        adam.zero_grad(set_to_none=True)
        model(batch[:, :-1], batch[:, 1:].contiguous()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"version": torch.__version__, "seconds": seconds}))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem", nargs="?")
    parser.add_argument("--python", action="append", help="an interpreter that has torch; default: /usr/bin/python3")
    parser.add_argument("--shapes", default="4x64,1x512,4x512", help="sequences x tokens")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--data", default=TEXT)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.tandem and not options.child:
        parser.error("name the program")
    return options


def main():
    options = parse()
    if options.child:
        return child(options.child, options.steps)
    pythons = options.python or ["/usr/bin/python3"]
    for shape in options.shapes.split(","):
        sequences, tokens = map(int, shape.split("x"))
        best, starts = {}, []

        def keep(name, seconds):
            best[name] = min([best.get(name, float("inf"))] + seconds[WARM:])

        for _ in range(options.rounds):
            for precision in ("fp32", "bf16"):
                seconds, first = tandem_steps(options.tandem, options.data, plan(sequences, tokens, precision=precision), options.steps)
                keep(precision, seconds)
                if precision == "fp32":
                    starts.append((first, first - seconds[0]))
            for python in pythons:
                version, seconds = torch_steps(python, sequences, tokens, options.steps)
                keep("torch " + version, seconds)
        own = best.pop("fp32")
        print(f"{shape}: Tandem fp32 {own:.3f} s, bf16 {best['bf16']:.3f} s ({own / best.pop('bf16'):.2f}x as fast), "
              + ", ".join(f"{name} {seconds:.3f} s ({seconds / own:.2f}x as long)" for name, seconds in best.items())
              + f"; the first step began {min(s[1] for s in starts):.2f} s and ended {min(s[0] for s in starts):.2f} s from the start", flush=True)
    return None


if __name__ == "__main__":
    main()
