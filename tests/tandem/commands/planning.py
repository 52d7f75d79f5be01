"""Plans whose trainings are priced, and what `plan` answers of them."""
import json
import time

from tandem import SOURCE, run

PLANS = SOURCE / "experiments" / "plans"
GPT3 = PLANS / "gpt3-175b-sc21-1024.json"
H100 = {"model": {"preset": "llama3-8b"}, "parallel": {"data": 64, "zero_stage": 1, "tensor": 1},
        "training": {"seq_length": 8192, "micro_batch_size": 1, "global_batch_size": 256, "recompute": "full"},
        "cluster": {"preset": "dgx-h100", "devices": 64}}


def plan(path, *arguments, code=0):
    started = time.monotonic()
    done = run("plan", path, *arguments, "--json")
    assert done[0] == code, done
    assert time.monotonic() - started < 60  # the goal is 5 s on an idle machine
    return json.loads(done[1])
