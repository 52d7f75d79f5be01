#!/usr/bin/env python3
"""The runs' own published step times beside predictions, as a Markdown table.

    experiments/corpus/seeds/figures.py build/tandem
"""
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    records = [json.loads(line) for line in open(HERE / "figures.jsonl")]
    run = subprocess.run([sys.argv[1], "validate", "--json", str(HERE / "figures.jsonl")], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr)
    judged = {r["id"]: r for r in json.loads(run.stdout)["records"]}
    print("| run | devices | published s | predicted s | error | 80 % range s | remark |")
    print("|---|--:|--:|--:|--:|--:|---|")
    for r in records:
        j = judged[r["id"]]
        p, m = j["predicted_step_time_s"], j["measured_step_time_s"]
        remark = r.get("notes", "") or ("assumed: " + "; ".join(r["assumed"]) if "assumed" in r else "")
        print(f"| {r['id']} | {r['plan']['cluster']['devices']:,} | {m:.4g} | {p:.4g} | {100 * (p / m - 1):+.1f} % | "
              f"{j['low_s']:.3g} to {j['high_s']:.3g} | {remark} |")


if __name__ == "__main__":
    main()
