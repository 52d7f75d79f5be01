"""Shared by the drivers of Python simulators: reads records, times one evaluation, prints JSON lines."""
import json
import resource
import statistics
import sys

SKIPPED = 77  # exit status: the peer is not installed


def skip(peer, why):
    print(f"{peer}: not installed: skipped ({why})", file=sys.stderr)
    sys.exit(SKIPPED)


def records(path, prefix):
    with open(path, encoding="utf-8") as lines:
        return [r for r in map(json.loads, lines) if r["id"].startswith(prefix)]


def user_seconds():
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def each(evaluate, batches=5, times=10):
    """Returns the step time from `evaluate`, and the median over batches of its processor seconds per call."""
    step = evaluate()
    seconds = []
    for _ in range(batches):
        before = user_seconds()
        for _ in range(times):
            evaluate()
        seconds.append((user_seconds() - before) / times)
    return step, statistics.median(seconds)


def say(record, step_time_s, processor_s):
    print(json.dumps({"id": record["id"], "step_time_s": round(step_time_s, 6), "processor_s": processor_s}), flush=True)
