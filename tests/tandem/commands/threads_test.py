#!/usr/bin/env python3
"""Hosts that give fewer threads or less memory than wished: the work goes on, or ends with a message; it never aborts or hangs."""
import json
import resource
import subprocess
import sys

import tandem
from tandem import NOTHING_MEASURED, PROGRAM, SMALL, TEXT, WithFolder, changed

GIB = 1 << 30
PLANS = 12


def limits(stack, memory):
    """Sets the limits of a child. A thread's stack is as large as the limit of stacks was when the program began, so stacks that do
    not fit the limit of memory are threads that the host does not give."""
    def set_limits():
        resource.setrlimit(resource.RLIMIT_STACK, (stack, resource.getrlimit(resource.RLIMIT_STACK)[1]))
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    return set_limits


NO_THREAD = limits(8 * GIB, 4 * GIB)
FEW_THREADS = limits(8 * GIB, 44 * GIB)  # five stacks leave over 3 GiB for the program and what its threads reserve
LITTLE_MEMORY = limits(8 << 20, GIB // 2)


class Hosts(WithFolder):
    def limited(self, limit, *arguments):
        done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, preexec_fn=limit, timeout=120, check=False,
                              env={"TANDEM_MEASURED": NOTHING_MEASURED, "NO_COLOR": "1"})
        return done.returncode, done.stdout, done.stderr

    def study(self):
        study = {"base": SMALL, "axes": [{"field": "training.seed", "values": list(range(PLANS))}]}
        return self.folder.file("study.json", json.dumps(study))

    def records(self, count=PLANS):
        record = {"plan": SMALL, "measured": {"step_time_s": 2.0}}
        return self.folder.file("set.jsonl", "\n".join(json.dumps(record | {"id": str(i)}) for i in range(count)))

    def commands(self):
        return (["sweep", self.study(), "--out", self.path("out"), "--fresh", "--json", "--jobs", PLANS],
                ["validate", self.records(), "--json", "--jobs", PLANS])

    def test_the_callers_thread_does_the_work_where_no_other_can_be_had(self):
        for command in self.commands():
            code, out, err = self.limited(NO_THREAD, *command)
            self.assertEqual(code, 0, err)
            self.assertIn(f"the host gives 1 of {PLANS} threads", err)
            self.assertEqual(err.count("threads"), 1, err)
            whole = json.loads(out)
            self.assertEqual(whole.get("computed") or len(whole["records"]), PLANS)

    def test_the_work_goes_on_with_fewer_threads_than_wished(self):
        for command in self.commands():
            code, _, err = self.limited(FEW_THREADS, *command)
            self.assertEqual(code, 0, err)
            self.assertRegex(err, rf"the host gives [2-9] of {PLANS} threads")

    def test_a_host_without_memory_for_its_threads_is_told_once_and_exits_7(self):
        for command in (["sweep", self.study(), "--out", self.path("out"), "--jobs", 1024], ["validate", self.records(1000), "--jobs", 1024]):
            code, _, err = self.limited(LITTLE_MEMORY, *command)
            self.assertIn(code, (0, 7), err)
            self.assertNotIn("terminate", err)
            if code:
                self.assertEqual(err.count("no memory left"), 1, err)

    def test_ranks_wait_for_each_other_so_too_few_threads_for_them_exit_7(self):
        for command in (["train", self.folder.plan(SMALL), "--data", TEXT], ["measure", "--quick", "-o", self.path("table.json")]):
            for limit in (NO_THREAD, limits(GIB, 4 * GIB)):
                code, _, err = self.limited(limit, *command)
                self.assertEqual(code, 7, err)
                self.assertIn("the host gives no thread", err)

    def test_a_training_goes_on_without_a_checkpoint_that_there_is_no_memory_for(self):
        plan = changed(SMALL, **{"model": {"preset": "gpt-small-demo"}, "parallel": {"tensor": 1}, "cluster.devices": 1,
                                 "training.global_batch_size": 1})
        train = ["train", self.folder.plan(plan), "--data", TEXT, "--steps", 2]
        saved = 0
        for quarter in range(4 * 90, 4 * 400):  # of a MiB
            limit = limits(8 << 20, quarter << 18)
            if self.limited(limit, "--version")[0] != 0:
                continue  # too little for libraries to load; CUDA's runtime then crashes before main
            code, _, err = self.limited(limit, *train)
            self.assertIn(code, (0, 7), err)  # never by a signal
            if code != 0:
                continue  # too little for the training itself
            code, _, err = self.limited(limit, *train, "--save", self.path(f"run{quarter}"), "--save-every", 1)
            if code == 0:
                saved += 1
                if saved == 12:  # what a thread reserves makes more memory less at times
                    break
                continue
            self.assertEqual(code, 7, err)
            self.assertIn("no memory left", err)
            if "the host has no memory left for it; the training goes on without it" not in err:
                continue  # too little for the training itself, this time
            # The rest of the save, or the very next step, may lack what the save had.
            if "failed in step" not in err and "failed while it saved" not in err:
                self.assertEqual(err.count("\nstep "), 2, err)
        self.assertEqual(saved, 12)


if __name__ == "__main__":
    if not tandem.plain_program():
        sys.exit(77)
    tandem.main()
