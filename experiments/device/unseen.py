"""Runs plans that no table of the card was made from. Records their step times, device memory and every task's times."""
import json
import re
import statistics
import tarfile
import threading
import time

from machine import ended, first_line

STEPS = 12
WARM_UP = 4  # the first ones time products and capture a graph


def gpt(layers, hidden, heads, vocab=50257, **more):
    return {"family": "gpt", "num_layers": layers, "hidden_size": hidden, "num_attention_heads": heads, "vocab_size": vocab} | more


def llama(layers, hidden, heads, kv_heads, ffn, vocab=32000, **more):
    return {"family": "llama", "num_layers": layers, "hidden_size": hidden, "num_attention_heads": heads, "num_kv_heads": kv_heads,
            "ffn_hidden_size": ffn, "vocab_size": vocab} | more


MOE = {"num_experts": 8, "experts_per_token": 2, "capacity_factor": 1.25}
# name: (model, sequence, micro-batch, micro-batches, other training fields)
CASES = {
    "gpt-124m-b8": (gpt(12, 768, 12), 1024, 8, 1, {}),
    "gpt-124m-s512-b24-m2": (gpt(12, 768, 12), 512, 24, 2, {}),
    "gpt-124m-fp16": (gpt(12, 768, 12), 1024, 8, 1, {"precision": "fp16"}),
    "gpt-124m-dropout": (gpt(12, 768, 12), 1024, 8, 1, {"dropout": {"hidden": 0.1}}),
    "gpt-350m-b8": (gpt(24, 1024, 16), 1024, 8, 1, {}),
    "gpt-350m-s2048-full": (gpt(24, 1024, 16), 2048, 8, 1, {"recompute": "full"}),
    "gpt-350m-deterministic": (gpt(24, 1024, 16), 1024, 4, 2, {"deterministic": True}),
    "gpt-774m-b4-m4": (gpt(36, 1280, 20), 1024, 4, 4, {}),
    "gpt-774m-sgd": (gpt(36, 1280, 20), 1024, 8, 1, {"optimizer": "sgd"}),
    "gpt-1.5b-b4": (gpt(48, 1600, 25), 1024, 4, 1, {}),
    "gpt-wide-2-layers": (gpt(2, 6144, 48), 2048, 4, 1, {}),
    "bert-340m-lamb": (gpt(24, 1024, 16, 30522, family="bert"), 512, 16, 1, {"optimizer": "lamb"}),
    "bloom-560m": (gpt(24, 1024, 16, 250880, family="bloom"), 2048, 2, 2, {}),
    "llama-160m": (llama(12, 768, 12, 12, 2048), 2048, 8, 1, {}),
    "llama-1b-gqa": (llama(16, 2048, 32, 8, 8192, 128256), 4096, 1, 1, {}),
    "llama-1b-full": (llama(16, 2048, 32, 8, 8192, 128256), 4096, 2, 2, {"recompute": "full"}),
    "llama-7b-4-layers": (llama(4, 4096, 32, 32, 11008), 4096, 2, 1, {}),
    "llama-70b-1-layer": (llama(1, 8192, 64, 8, 28672), 4096, 2, 1, {}),
    "llama-s16384": (llama(8, 2048, 16, 4, 5632), 16384, 1, 1, {}),
    "moe-8x-160m": (llama(6, 768, 12, 12, 2048, moe=MOE), 1024, 8, 1, {}),
}


def plan_of(name, cluster="dgx-h100"):
    model, seq, micro, batches, more = CASES[name]
    training = {"seq_length": seq, "micro_batch_size": micro, "global_batch_size": micro * batches, "precision": "bf16", "learning_rate": 1e-4}
    return {"name": name, "model": model, "training": training | more, "cluster": {"preset": cluster, "devices": 1}}


def driver_bytes():
    """Device memory in use by all processes, as the driver reports it."""
    found = re.match(r"\d+", first_line(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]))
    return int(found.group()) << 20 if found else None


class Watch(threading.Thread):
    """The largest value that the driver reported while this ran."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most, self.over = 0, threading.Event()

    def run(self):
        while not self.over.wait(0.05):
            self.most = max(self.most, driver_bytes() or 0)

    def end(self):
        self.over.set()
        self.join()
        return self.most


def one(name, folder, train, environment, left, cluster):
    """Returns a plan's record; `train(plan, *arguments)` is the command."""
    plan, timeline = folder / f"{name}.plan.json", folder / f"{name}.timeline.json"
    plan.write_text(json.dumps(plan_of(name, cluster)), encoding="utf-8")
    before, watch, begin = driver_bytes(), Watch(), time.monotonic()
    watch.start()
    try:
        code, out, err = ended(train(plan, "--steps", str(STEPS), "--timeline", str(timeline)), environment, left)
    finally:
        most = watch.end()
    record = {"name": name, "plan": plan_of(name, cluster), "exit": code, "seconds": round(time.monotonic() - begin, 1)}
    if code != 0:
        return record | {"end": (out + err)[-1500:]}
    report = json.loads(out)
    times = [s["step_time_s"] for s in report["steps"][WARM_UP:-1]]  # the last one is recorded task by task
    return record | {"step_time_s": statistics.median(times), "fastest_s": min(times), "slowest_s": max(times),
                     "recorded_step_s": report["steps"][-1]["step_time_s"], "losses": [s["loss"] for s in report["steps"]],
                     "driver_bytes_before": before, "driver_bytes": most, "notes": err[-600:],
                     **{k: report[k] for k in ("arena_bytes", "device_bytes", "workspace_bytes", "model_flops_per_s", "mfu") if k in report}}


def measure(work, out, train, environment, until, chosen, cluster):
    """Yields the records of the cases that `chosen(name)` is true of. Packs their timelines into out/timelines.tar.xz."""
    folder = work / "unseen"
    folder.mkdir(exist_ok=True)
    for name in CASES:
        if not chosen(name):
            continue
        left = until - time.monotonic()
        record = one(name, folder, train, environment, left, cluster) if left > 5 else {"name": name, "exit": None, "end": "no time left"}
        print(f"{name}: exit {record['exit']}, {record.get('seconds')} s, step {1e3 * record.get('step_time_s', float('nan')):.2f} ms", flush=True)
        yield record
    with tarfile.open(out / "timelines.tar.xz", "w:xz", preset=1) as packed:
        for timeline in sorted(folder.glob("*.timeline.json")):
            packed.add(timeline, timeline.name)
