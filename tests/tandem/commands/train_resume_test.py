#!/usr/bin/env python3
"""Training that ends early and goes on: signals, checkpoints, schedules and held-out text of resumed runs."""
import json
import os
import pathlib
import signal
import subprocess
import time

import tandem
from tandem import SMALL, TEXT, WithFolder, changed, run, tandem_json

ONE = changed(SMALL, **{"parallel": {"tensor": 1}, "cluster.devices": 1})
COSINE = changed(ONE, **{"training.learning_rate_decay": "cosine", "training.warmup": 2, "training.learning_rate": 0.01})


class Resuming(WithFolder):
    def interrupted(self, signal_number, *arguments):
        """What a long training leaves that is sent a signal: its exit code and its JSON."""
        process = subprocess.Popen([tandem.PROGRAM, "train", self.folder.plan(SMALL), "--data", str(TEXT), "--steps", "1000000",
                                    "--json", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if line.startswith("step "):
                break
        time.sleep(0.05)
        process.send_signal(signal_number)
        out, _ = process.communicate(timeout=60)
        return process.returncode, json.loads(out)

    def test_ctrl_c_and_its_like_keep_the_finished_steps_and_exit_130(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            code, result = self.interrupted(number)
            self.assertEqual(code, 130, number)
            self.assertGreaterEqual(len(result["steps"]), 1)
            self.assertGreater(result["flops"], 0)

    def test_an_interrupted_run_leaves_its_last_timeline_and_a_checkpoint_to_go_on_from(self):
        saved, timeline, simulated = self.path("run.safetensors"), self.path("run.json"), self.path("sim.json")
        code, result = self.interrupted(signal.SIGTERM, "--save", saved, "--timeline", timeline)
        done = len(result["steps"])
        self.assertEqual(code, 130)
        plan = self.folder.plan(SMALL)
        self.assertEqual(run("simulate", plan, "--timeline", simulated)[0], 0)
        self.assertEqual(run("compare", simulated, timeline)[0], 0)
        rest = tandem_json("train", plan, "--data", TEXT, "--steps", done + 2, "--resume", saved)
        whole = tandem_json("train", plan, "--data", TEXT, "--steps", done + 2)
        self.assertEqual([(s["step"], s["loss"], s["grad_norm"]) for s in rest["steps"]],
                         [(s["step"], s["loss"], s["grad_norm"]) for s in whole["steps"][done:]])

    def test_a_killed_run_leaves_a_whole_checkpoint(self):
        saved, plan = self.path("run.safetensors"), self.folder.plan(SMALL)
        process = subprocess.Popen([tandem.PROGRAM, "train", plan, "--data", str(TEXT), "--steps", "1000000", "--save", saved,
                                    "--save-every", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if line.startswith("step     3"):
                break
        process.kill()
        process.communicate(timeout=60)
        code, _, err = run("train", plan, "--data", TEXT, "--steps", 1, "--resume", saved)
        self.assertEqual(code, 3)  # it is whole: what is refused is that no step is left
        self.assertIn("the saved run has done them", err)

    def test_a_checkpoint_that_is_missing_damaged_or_of_another_model_exits_3(self):
        plan, saved = self.folder.plan(SMALL), self.path("a.safetensors")
        self.assertEqual(run("train", plan, "--data", TEXT, "--steps", 1, "--save", saved)[0], 0)
        whole = pathlib.Path(saved).read_bytes()
        cut = self.folder.file("cut.safetensors", whole[:-100])
        other = self.folder.plan(changed(SMALL, **{"model.hidden_size": 48}), "other.json")
        for arguments, said in (((plan, self.path("none")), "cannot be read"), ((plan, cut), "cut short"),
                                ((plan, plan), "is not a checkpoint"), ((other, saved), "model.hidden_size = 24: the plan has 48")):
            code, out, err = run("train", arguments[0], "--data", TEXT, "--steps", 2, "--resume", arguments[1])
            self.assertEqual((code, out), (3, ""), err)
            self.assertIn(said, err)
        text = self.folder.file("other.txt", "a" * 1000)
        code, _, err = run("train", plan, "--data", text, "--steps", 2, "--resume", saved)
        self.assertEqual(code, 0)
        self.assertIn("another text", err)

    def test_what_a_killed_save_left_is_removed_by_the_next_one_and_told(self):
        plan = self.folder.plan(SMALL)
        gone = subprocess.Popen(["true"])
        gone.wait()
        (self.folder.path / "run").mkdir()
        for saved, name in (("run.safetensors", "run.safetensors"), ("run", "run/shared")):
            left = self.folder.file(f"{name}.{gone.pid}.new", "half a file")
            os.utime(left, (0, 0))
            code, _, err = run("train", plan, "--data", TEXT, "--steps", 1, "--save", self.path(saved))
            self.assertEqual(code, 0)
            self.assertIn(f"removed {left}", err)
            self.assertFalse(pathlib.Path(left).exists())

    def test_a_rhythm_that_saves_only_the_last_step_is_told(self):
        for steps, every, told in ((3, 3, True), (3, 2, False), (1, 1, True)):
            code, _, err = run("train", self.folder.plan(ONE), "--data", TEXT, "--steps", steps, "--save", self.path(f"s{steps}{every}"), "--save-every", every)
            self.assertEqual((code, f"--save-every {every}: only the last step is saved" in err), (0, told), err)

    def rates(self, steps, *arguments):
        result = tandem_json("train", self.folder.plan(COSINE), "--data", TEXT, "--steps", steps, *arguments)
        return [(s["step"], s["learning_rate"], s["loss"]) for s in result["steps"]]

    def test_a_resumed_run_keeps_the_length_of_the_learning_rates_schedule(self):
        saved, again = self.path("run.safetensors"), self.path("again.safetensors")
        self.rates(4, "--schedule-steps", 10, "--save", saved)
        whole = self.rates(8, "--schedule-steps", 10)
        self.assertEqual(self.rates(6, "--resume", saved, "--save", again), whole[4:6])
        self.assertEqual(self.rates(8, "--resume", again), whole[6:])  # as the plan of `again` says
        err = run("train", self.folder.plan(COSINE), "--data", TEXT, "--steps", 6, "--resume", saved)[2]
        self.assertIn("decays over 10 steps, as in the run that was saved", err)
        self.assertEqual(self.rates(6, "--resume", saved, "--schedule-steps", 6)[1][1], self.rates(6)[5][1])
        saved = self.path("short.safetensors")
        self.rates(4, "--save", saved)
        self.assertEqual([r[1] for r in self.rates(6, "--resume", saved)], [0, 0])  # the schedule ended with the run
        err = run("train", self.folder.plan(COSINE), "--data", TEXT, "--steps", 6, "--resume", saved, "--schedule-steps", 6)[2]
        self.assertIn("goes on with other hyper-parameters: training.decay_over from 4 to 6", err)

    def test_a_schedule_that_ends_no_decay_is_told(self):
        for plan, steps, told in ((changed(COSINE, **{"training.learning_rate_decay": "constant"}), 4, "changes nothing: training.learning_rate_decay is constant"),
                                  (COSINE, 1, "the decay would begin behind its end, after 2 steps (training.warmup)"),
                                  (changed(COSINE, **{"training.decay_start": 3}), 3, "after 3 steps (training.decay_start)"), (COSINE, 4, None)):
            code, _, err = run("train", self.folder.plan(plan), "--data", TEXT, "--steps", 1, "--schedule-steps", steps)
            self.assertEqual(code, 0, err)
            lines = [line for line in err.splitlines() if "--schedule-steps" in line]
            self.assertEqual(len(lines), 1 if told else 0, err)
            self.assertIn(told or "", "".join(lines))

    def test_a_warm_up_that_the_run_does_not_end_is_told_in_its_unit(self):
        for unit, warmup, run_has in (("steps", 4, 3), ("samples", 25, 24), ("tokens", 385, 384)):
            for length in (warmup, run_has):
                plan = changed(COSINE, **{"training.learning_rate_unit": unit, "training.warmup": length, "training.decay_over": 1000})
                code, _, err = run("train", self.folder.plan(plan), "--data", TEXT, "--steps", 3)
                self.assertEqual(code, 0, err)
                told = f"the learning rate does not reach its peak: training.warmup is {warmup} {unit}, the whole run {run_has}\n"
                self.assertEqual(told in err, length == warmup, err)

    def test_a_schedule_in_samples_or_tokens_is_kept_too(self):
        for unit, each in (("samples", 8), ("tokens", 128)):
            saved = self.path(f"{unit}.safetensors")
            plan = self.folder.plan(changed(COSINE, **{"training.learning_rate_unit": unit, "training.warmup": 2 * each}))
            rates = lambda *more: [s["learning_rate"] for s in tandem_json("train", plan, "--data", TEXT, *more)["steps"]]
            whole = rates("--steps", 6)
            rates("--steps", 4, "--schedule-steps", 6, "--save", saved)
            self.assertEqual(rates("--steps", 6, "--resume", saved), whole[4:])

    def test_a_resumed_run_that_keeps_its_schedule_can_be_compared_with_its_prediction(self):
        saved, timeline, simulated = self.path("run.safetensors"), self.path("run.json"), self.path("sim.json")
        self.rates(4, "--save", saved)
        self.rates(6, "--resume", saved, "--timeline", timeline)
        self.assertEqual(run("simulate", self.folder.plan(COSINE), "--timeline", simulated)[0], 0)
        code, _, err = run("compare", simulated, timeline)
        self.assertEqual((code, err), (0, ""))

    def test_a_resumed_run_leaves_the_held_out_tenth_alone(self):
        saved, evaluate = self.path("run.safetensors"), ("--eval-every", 10)
        self.rates(4, *evaluate, "--save", saved)
        kept = self.rates(6, *evaluate, "--resume", saved)
        self.assertEqual(self.rates(6, "--resume", saved), kept)
        err = run("train", self.folder.plan(COSINE), "--data", TEXT, "--steps", 6, "--resume", saved)[2]
        self.assertIn("its last tenth stays held out", err)
        self.assertNotIn("another text", err)
        self.assertNotIn("older version", err)

    def test_an_evaluation_on_text_that_a_resumed_run_may_have_trained_on_is_told(self):
        saved, evaluate, note = self.path("run.safetensors"), ("--eval-every", 6), "held no text out: the evaluated part of"
        self.rates(4, "--save", saved)
        resume = ("train", self.folder.plan(COSINE), "--data", TEXT, "--steps", 6, "--resume", saved)
        err = run(*resume, *evaluate)[2]
        self.assertIn(f"{saved}: {note} {TEXT} may have been trained on; give --eval-data", err)
        self.assertNotIn("another text", err)  # it is the same one
        other = self.folder.file("other.txt", TEXT.read_bytes()[:20000])
        for more in ((), (*evaluate, "--eval-data", other)):
            self.assertNotIn("may have been trained on", run(*resume, *more)[2])
        err = run("train", self.folder.plan(COSINE), "--data", other, "--steps", 6, "--resume", saved, *evaluate)[2]
        self.assertIn("another text", err)

    def test_a_checkpoint_that_says_nothing_of_held_out_text_is_told_in_a_line(self):
        saved = self.path("run.safetensors")
        self.rates(4, "--save", saved)
        whole = pathlib.Path(saved).read_bytes()
        length = int.from_bytes(whole[:8], "little")
        header = json.loads(whole[8:8 + length])
        self.assertEqual(header["__metadata__"].pop("held_out"), "0.0")
        text = json.dumps(header).encode()
        bare = len(text).to_bytes(8, "little") + text + whole[8 + length:-8]
        checksum = 0xcbf29ce484222325
        for byte in bare:
            checksum = (checksum ^ byte) * 0x100000001b3 & 0xffffffffffffffff
        old = self.folder.file("old.safetensors", bare + checksum.to_bytes(8, "little"))
        code, _, err = run("train", self.folder.plan(COSINE), "--data", TEXT, "--steps", 6, "--resume", old)
        self.assertEqual((code, err.count("does not say whether a part of its text was held out")), (0, 1), err)
        self.assertNotIn("older version", run("train", self.folder.plan(COSINE), "--data", TEXT, "--steps", 6, "--resume", saved)[2])

    def test_changed_hyper_parameters_of_a_resumed_run_are_told_in_one_line(self):
        saved = self.path("run.safetensors")
        self.rates(4, "--save", saved)
        other = self.folder.plan(changed(COSINE, **{"training.beta1": 0.8, "training.weight_decay": 0, "training.learning_rate": 0.02}))
        code, _, err = run("train", other, "--data", TEXT, "--steps", 6, "--resume", saved)
        self.assertEqual((code, err.count("other hyper-parameters")), (0, 1))
        self.assertIn("training.learning_rate from 0.01 to 0.02, training.beta1 from 0.9 to 0.8 and training.weight_decay from 0.1 to 0", err)
        self.assertNotIn("other hyper-parameters", run("train", self.folder.plan(COSINE), "--data", TEXT, "--steps", 6, "--resume", saved)[2])


if __name__ == "__main__":
    tandem.main()
