#!/usr/bin/env bash
# `make demo`: one plan simulated and really trained, the two laid over one another, beside two published measurements.
#   demo.sh TANDEM OUT      TANDEM: the program; OUT: folder for tables, traces and pictures
set -euo pipefail
tandem=$(realpath "${1:-build/tandem}")
out=${2:-out/demo}
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-/usr/bin/python3}   # Debian's, which has Debian's matplotlib
text=$here/data/kjv-new-testament.txt
plan=$here/plans/demo.json
mkdir -p "$out"

title() { printf '\n== %s ==\n' "$*"; }
# value FILE EXPRESSION: prints a Python expression over the JSON document d
value() { "$python" -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2"; }

# beside NAME STEP_S [TFLOPS]: simulates a plan next to what was published about it
beside() {
  "$tandem" simulate "$here/plans/$1.json" --json --allow-oversize > "$out/$1.json"
  value "$out/$1.json" "f'''predicted {d['step_time_s']:.2f} s a step, {d['hardware_tflops_per_device']:.0f} TFLOP/s per device (recomputation counted)'''"
  echo "published $2 s${3:+, $3 TFLOP/s}"
  value "$out/$1.json" "f'''error of the step time {100 * (d['step_time_s'] / $2 - 1):+.1f} %, peak memory {d['peak_memory_bytes'] / 2**30:.1f} GiB, fits: {d['fits']}'''"
}

title "GPT-3 175B, tensor 8 x pipeline 16 x data 8 on 1,024 A100, batch 1536: simulated beside published"
beside gpt3-175b-1024 32 138
title "GPT 6.7B, tensor 8 x data 4 on 32 Trainium NeuronCores: simulated beside published"
beside gpt-6.7b-trn1 8.72

title "This machine's cores, measured"
"$tandem" measure --device cpu --quick --out "$out/cpu-host.json"

title "A small GPT really trained: tensor 2 x pipeline 2 x data 2, eight ranks as threads of one process"
"$tandem" train "$plan" --data "$text" --json --timeline "$out/executed.json" --trace "$out/executed.trace.json" \
  > "$out/train.json" 2> "$out/train.log" || { cat "$out/train.log" >&2; exit 1; }
awk 'NR % 20 == 1' "$out/train.log"
tail -n 1 "$out/train.log"
value "$out/train.json" "f'''{d['tokens_per_s']:.0f} tokens/s, {d['flops']:.3e} matrix FLOPs, arena {d['arena_bytes'] / 2**20:.1f} MiB a rank'''"

title "The same plan simulated on the measured cores"
"$tandem" simulate "$plan" --cost-table "$out/cpu-host.json" --timeline "$out/simulated.json" \
  --trace "$out/simulated.trace.json" --memory "$out/memory.json"

title "Laid over one another, task by task"
"$tandem" compare "$out/simulated.json" "$out/executed.json" --html "$out/compare.html" | tee "$out/compare.txt"

title "Has it learned?"
loss=$(value "$out/train.json" "sum(s['loss'] for s in d['steps'][-5:]) / 5")
entropy=$(value "$out/train.json" "d['data_bigram_entropy_nats']")
echo "loss, mean of the last five steps: $loss nats; bigram entropy of the text: $entropy nats"
"$python" -c 'import sys; sys.exit(0 if float(sys.argv[1]) < float(sys.argv[2]) else "demo: the loss did not fall below the bigram entropy")' "$loss" "$entropy"
echo "yes: the model knows more than which byte follows which"

title "Pictures and traces"
"$python" "$here/../reports/plot_timeline.py" "$out/simulated.json" "$out/executed.json" -o "$out/timeline.png"
"$python" "$here/../reports/plot_memory.py" "$out/memory.json" -o "$out/memory.png"
echo "$out/compare.html"
echo "$out/simulated.trace.json"
echo "$out/executed.trace.json"
echo "Open the traces at https://ui.perfetto.dev"
