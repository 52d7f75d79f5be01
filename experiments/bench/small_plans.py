#!/usr/bin/env python3
"""Tests predictions from a measured cpu-host table on twenty small plans that it was not made from.

    tandem measure --device cpu -o cpu-host.json
    experiments/bench/small_plans.py build/tandem cpu-host.json [--steps 12] [--json out.json]

Trains each plan for some steps on its ranks (never more ranks than cores), takes the median step time after the first two
steps, simulates the same plan on the measured table and prints both with the error.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

# layers, hidden, heads, ffn, vocabulary, sequence, micro-batch, micro-batches, (tensor, pipeline, data), recompute, more fields
PLANS = [
    ("one rank, small", 2, 48, 3, 192, 96, 64, 2, 2, (1, 1, 1), "none"),
    ("one rank, wide", 2, 192, 6, 768, 256, 64, 4, 2, (1, 1, 1), "none"),
    ("one rank, deep", 6, 96, 4, 384, 160, 96, 2, 3, (1, 1, 1), "none"),
    ("one rank, long", 3, 80, 5, 320, 128, 240, 1, 4, (1, 1, 1), "none"),
    ("one rank, recompute", 4, 112, 7, 448, 200, 80, 3, 2, (1, 1, 1), "full"),
    ("one rank, vocabulary", 2, 64, 4, 256, 512, 48, 4, 4, (1, 1, 1), "none"),
    ("tensor 2", 3, 128, 4, 512, 256, 96, 4, 2, (2, 1, 1), "none"),
    ("tensor 2, narrow", 4, 72, 6, 288, 144, 64, 3, 3, (2, 1, 1), "none"),
    ("pipeline 2", 4, 96, 6, 384, 192, 64, 4, 6, (1, 2, 1), "none"),
    ("pipeline 2, recompute", 6, 80, 4, 320, 160, 72, 3, 4, (1, 2, 1), "full"),
    ("data 2", 3, 112, 4, 448, 224, 88, 3, 3, (1, 1, 2), "none"),
    ("data 2, one micro-batch", 4, 144, 6, 576, 256, 64, 6, 1, (1, 1, 2), "none"),
    ("GPT-2 124M", 12, 768, 12, 3072, 50304, 64, 4, 1, (1, 1, 1), "none"),
    ("GPT-2 124M, tensor 2", 12, 768, 12, 3072, 50304, 64, 4, 1, (2, 1, 1), "none"),
    ("LLaMA", 4, 256, 8, 688, 512, 128, 2, 2, (1, 1, 1), "none", {"family": "llama"}),
    ("LLaMA, 2 key heads", 3, 320, 8, 864, 1000, 96, 2, 3, (1, 1, 1), "none", {"family": "llama", "num_kv_heads": 2}),
    ("LLaMA, tensor 2", 4, 256, 8, 688, 512, 128, 2, 2, (2, 1, 1), "none", {"family": "llama", "num_kv_heads": 4}),
    ("LLaMA, data 2, recompute", 4, 192, 6, 512, 384, 80, 3, 2, (1, 1, 2), "full", {"family": "llama"}),
    ("experts", 3, 192, 6, 384, 256, 64, 4, 2, (1, 1, 1), "none",
     {"family": "llama", "moe": {"num_experts": 4, "experts_per_token": 2, "ffn_hidden_size": 384}}),
    ("BLOOM, pipeline 2", 4, 160, 8, 640, 320, 96, 2, 4, (1, 2, 1), "none", {"family": "bloom"}),
]


def plan(row):
    _, layers, hidden, heads, ffn, vocab, seq, micro, count, (tensor, pipeline, data), recompute, *more = row
    return {
        "model": {"family": "gpt", "num_layers": layers, "hidden_size": hidden, "num_attention_heads": heads,
                  "ffn_hidden_size": ffn, "vocab_size": max(vocab, 256), "pad_vocab_to": 2, **(more[0] if more else {})},
        "parallel": {"tensor": tensor, "pipeline": pipeline, "data": data},
        "training": {"seq_length": seq, "micro_batch_size": micro, "global_batch_size": micro * count * data,
                     "precision": "fp32", "recompute": recompute},
        "cluster": {"preset": "cpu-host", "devices": tensor * pipeline * data},
    }


def answer(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem")
    parser.add_argument("cost_table")
    parser.add_argument("--data", default=None, help="text to train on; default: the repository's")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--json", default=None, help="also write the rows here")
    args = parser.parse_args()
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")
    data = args.data or sorted(os.path.join(folder, f) for f in os.listdir(folder) if f.endswith(".txt"))[0]

    rows = []
    print(f"{'plan':26} {'ranks':>5} {'measured ms':>12} {'predicted ms':>13} {'error':>8}")
    with tempfile.TemporaryDirectory() as scratch:
        for row in PLANS:
            path = os.path.join(scratch, "plan.json")
            with open(path, "w", encoding="utf-8") as f:
                json.dump(plan(row), f)
            run = answer([args.tandem, "train", path, "--data", data, "--steps", str(args.steps), "--json"])
            measured = statistics.median(s["step_time_s"] for s in run["steps"][2:])
            predicted = answer([args.tandem, "simulate", path, "--cost-table", args.cost_table, "--json"])["step_time_s"]
            ranks = row[9][0] * row[9][1] * row[9][2]
            error = predicted / measured - 1
            rows.append({"plan": row[0], "ranks": ranks, "measured_s": measured, "predicted_s": predicted, "error": error})
            print(f"{row[0]:26} {ranks:5d} {measured * 1e3:12.2f} {predicted * 1e3:13.2f} {error * 100:+7.1f}%", flush=True)
    errors = [abs(r["error"]) for r in rows]
    print(f"mean absolute error {100 * statistics.mean(errors):.1f} %, median {100 * statistics.median(errors):.1f} %, "
          f"worst {100 * max(errors):.1f} %, bias {100 * statistics.mean(r['error'] for r in rows):+.1f} %")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)


if __name__ == "__main__":
    main()
