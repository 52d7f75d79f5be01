#!/usr/bin/env python3
"""Ctrl-C, SIGTERM and SIGHUP: exit code 130 whatever runs, and what is done is kept."""
import json
import os
import pathlib
import signal
import subprocess
import time

import tandem
from tandem import NOTHING_MEASURED, PROGRAM, SMALL, TEXT, WithFolder, changed, tandem_json

PATIENCE = 60  # seconds until something is said to hang
# Takes minutes to simulate.
LONG = changed(SMALL, **{"parallel.data": 1024, "training.global_batch_size": 1024, "cluster.devices": 4096,
                         "cluster.perturbation": {"jitter": {"relative": 0.05, "seed": 7, "seeds": 1000}}})


class Interrupts(WithFolder):
    def start(self, *arguments):
        process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=dict(os.environ, TANDEM_MEASURED=NOTHING_MEASURED, NO_COLOR="1"))
        self.addCleanup(process.kill)
        return process

    def end(self, process, number=signal.SIGINT):
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out, err

    def wait_for(self, what):
        until = time.monotonic() + PATIENCE
        while not what():
            self.assertLess(time.monotonic(), until, "nothing happened")
            time.sleep(0.01)

    def wait_for_line(self, process, words):
        for line in process.stderr:
            if words in line:
                return
        self.fail(f"never said: {words}")

    def held(self, process, pipe):
        """Waits until the process reads the pipe; then nothing comes."""
        def reader():
            try:
                self.addCleanup(os.close, os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
                return True
            except OSError:  # nobody reads yet
                self.assertIsNone(process.poll(), "ended on its own")
                return False
        self.wait_for(reader)

    def threads(self, process):
        return len(list(pathlib.Path(f"/proc/{process.pid}/task").iterdir()))

    def records(self, count, slower=2.0, plan=SMALL):
        lines = [json.dumps({"id": str(i), "plan": plan, "measured": {"step_time_s": slower}}) for i in range(count)]
        return self.folder.file("some-set.jsonl", "\n".join(lines))

    def test_every_command_is_interrupted_from_its_very_start(self):
        """A pipe that nobody writes holds each of them where it reads its input."""
        plan, pipe = self.folder.plan(SMALL), self.path("pipe")
        os.mkfifo(pipe)
        for arguments in (["simulate", pipe], ["explain", pipe], ["compare", pipe, pipe], ["validate", pipe], ["sweep", pipe],
                          ["calibrate", "h100", pipe, "-o", self.path("fit.json")], ["train", pipe, "--data", TEXT],
                          ["simulate", plan, "--cost-table", pipe]):
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                process = self.start(*arguments)
                self.held(process, pipe)
                code, out, err = self.end(process, number)
                self.assertEqual((code, out), (130, ""), (arguments, err))
                self.assertEqual(err, "interrupted\n")

    def test_a_long_simulation_ends_at_once_and_leaves_nothing(self):
        process = self.start("simulate", self.folder.plan(LONG), "--timeline", self.path("timeline.json"))
        time.sleep(1)
        code, out, err = self.end(process, signal.SIGTERM)
        self.assertEqual((code, out, err), (130, "", "interrupted\n"))
        self.assertEqual([p.name for p in self.folder.path.iterdir()], ["plan.json"])

    def test_a_second_signal_ends_at_once(self):
        study = {"base": LONG, "axes": [{"field": "training.seed", "values": [1, 2]}]}
        process = self.start("sweep", self.folder.file("study.json", json.dumps(study)), "--out", self.path("out"), "--jobs", 2)
        self.wait_for(lambda: self.threads(process) > 1)
        process.send_signal(signal.SIGINT)
        self.wait_for_line(process, "interrupt again to end at once")
        self.assertEqual(self.end(process, signal.SIGTERM), (130, "", "interrupted\n"))

    def judged(self, process, file, count):
        """The records of a validation that is interrupted while it judges."""
        self.wait_for(lambda: self.threads(process) > 1)
        time.sleep(1)
        code, out, err = self.end(process)
        self.assertEqual(code, 130, err)
        told = json.loads(out)
        records = told["records"]
        self.assertTrue(0 < len(records) < count, len(records))
        self.assertEqual((told["interrupted"], told["records_given"]), (True, count))
        self.assertIn(f"{len(records)} of {count} records were judged", err)
        return records, err

    def test_validate_keeps_the_records_it_has_judged(self):
        file, table, errors = self.records(4000), self.path("table.csv"), self.path("errors.json")
        process = self.start("validate", file, "--json", "--jobs", 2, "--csv", table, "--write-errors", errors, "--pool", "some-set")
        records, err = self.judged(process, file, 4000)
        self.assertEqual(len(pathlib.Path(table).read_text(encoding="utf-8").splitlines()), len(records) + 1)
        self.assertIn("errors.json is not written", err)
        self.assertFalse(os.path.exists(errors))  # predictions would take their ranges from it
        predicted = tandem_json("simulate", self.folder.plan(SMALL))["step_time_s"]
        self.assertEqual({r["predicted_step_time_s"] for r in records}, {predicted})

    def test_a_part_takes_the_place_of_no_file_that_was_there(self):
        file, table = self.records(4000), self.folder.file("table.csv", "all of them\n")
        records, err = self.judged(self.start("validate", file, "--json", "--jobs", 2, "--csv", table), file, 4000)
        self.assertEqual(pathlib.Path(table).read_text(encoding="utf-8"), "all of them\n")
        part = pathlib.Path(self.path("table.interrupted.csv"))
        self.assertEqual(len(part.read_text(encoding="utf-8").splitlines()), len(records) + 1)
        self.assertIn(str(part), err)

    def test_train_says_that_it_was_interrupted(self):
        plan = self.folder.plan(SMALL)
        whole = tandem_json("train", plan, "--data", TEXT, "--steps", 2)
        self.assertFalse(whole["interrupted"])
        process = self.start("train", plan, "--data", TEXT, "--steps", 1000000, "--json")
        self.wait_for_line(process, "step")
        code, out, err = self.end(process)
        self.assertEqual(code, 130, err)
        self.assertTrue(json.loads(out)["interrupted"])
        self.assertIsNone(json.loads(out)["failure"])

    def calibration(self):
        """A device with four constants, far from what made the records' times."""
        fact = {"value": 0.85, "fit": {"low": 0.1, "high": 0.9}, "fitted_on": "nothing"}
        device = {"describes": "made up", "matmul": {"model": "flat", "ceiling": fact}, "memory_share": fact, "kernel_s": 0,
                  "communication": {"overhead_s": 1e-5, "inside_share": fact, "across_share": fact}}
        cluster = {"node": "dgx-a100", "device": "a100-sxm4-80gb", "calibration": self.folder.file("device.json", json.dumps(device)),
                   "fabric": {"nodes_per_leaf": 20, "oversubscription": 1, "switch_latency_s": 3e-7}}
        plan = changed(SMALL, **{"cluster.preset": self.folder.file("cluster.json", json.dumps(cluster)), "model.hidden_size": 4096,
                                 "model.ffn_hidden_size": 16384, "training.seq_length": 1024, "training.precision": "bf16",
                                 "training.global_batch_size": 512})
        return self.path("device.json"), self.records(150, 1000.0, plan)

    def test_calibrate_keeps_the_best_constants_it_has_found(self):
        device, records = self.calibration()
        process = self.start("calibrate", device, records, "-o", self.path("fit.json"), "--per-source", 0, "--json")
        self.wait_for_line(process, "10 sets of constants tried")
        code, out, err = self.end(process)
        self.assertEqual(code, 130, err)
        fit = json.loads(out)
        self.assertTrue(fit["interrupted"])
        self.assertLess(fit["mean_fitted"], fit["mean_before"])
        written = json.loads(pathlib.Path(self.path("fit.json")).read_text(encoding="utf-8"))
        found = {c["key"]: c["fitted"] for c in fit["constants"]}
        self.assertEqual(written["memory_share"]["value"], found["memory_share"])
        self.assertLess(found["matmul.ceiling"], 0.85)
        self.assertIn("interrupted after ", written["matmul"]["ceiling"]["fitted_on"])

    def test_an_interrupted_fit_leaves_the_devices_own_calibration(self):
        device, records = self.calibration()
        before = pathlib.Path(device).read_bytes()
        process = self.start("calibrate", device, records, "--write", "--per-source", 0)
        self.wait_for_line(process, "10 sets of constants tried")
        self.assertEqual(self.end(process)[0], 130)
        self.assertEqual(pathlib.Path(device).read_bytes(), before)
        self.assertTrue(os.path.exists(self.path("device.interrupted.json")))

    def test_measure_writes_no_table_that_lacks_parts(self):
        table = self.path("table.json")
        process = self.start("measure", "--quick", "-o", table)
        self.wait_for_line(process, "measuring communication")
        code, out, err = self.end(process)
        self.assertEqual((code, out), (130, ""), err)
        self.assertIn("no table is written", err)
        self.assertFalse(os.path.exists(table))


if __name__ == "__main__":
    tandem.main()
