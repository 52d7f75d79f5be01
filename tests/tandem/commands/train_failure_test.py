#!/usr/bin/env python3
"""Training that fails: a rank that ends, and losses that leave the numbers."""
import json
import pathlib
import resource
import subprocess

import tandem
from tandem import SMALL, TEXT, WithFolder, changed, run, tandem_json

def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, 1 << 18))


ONE = changed(SMALL, **{"parallel": {"tensor": 1}, "cluster.devices": 1})


class Failures(WithFolder):
    def test_a_rank_that_fails_is_named_with_step_and_reason_behind_the_steps_before_it(self):
        moe = changed(SMALL, **{"parallel": {"data": 4, "expert": 4}, "cluster.devices": 4,
                                "model.moe": {"num_experts": 8, "experts_per_token": 1, "rows_bound": 1.05}})
        arguments = ("train", self.folder.plan(moe), "--data", TEXT, "--steps", 50)
        code, out, err = run(*arguments, "--json")
        self.assertEqual(code, 7)
        result = json.loads(out)
        failure = result["failure"]
        self.assertEqual(failure["during"], "training")
        self.assertEqual([s["step"] for s in result["steps"]], list(range(failure["step"])))
        self.assertLess(failure["rank"], 4)
        self.assertIn("rows_bound", failure["reason"])
        self.assertIn(f"rank {failure['rank']} failed in step {failure['step']}: {failure['reason']}", err)
        self.assertEqual(run(*arguments)[0], 7)
        self.assertIsNone(tandem_json("train", self.folder.plan(SMALL), "--data", TEXT, "--steps", 1)["failure"])

    def test_a_loss_that_leaves_the_numbers_is_null_and_its_updates_are_told_to_be_skipped(self):
        plan = self.folder.plan(changed(SMALL, **{"training.learning_rate": 1e6, "training.clip_grad": 0}))
        code, out, err = run("train", plan, "--data", TEXT, "--steps", 8, "--json")
        last = json.loads(out)["steps"][-1]
        self.assertEqual((code, last["loss"], last["grad_norm"], last["skipped"]), (7, None, None, True))
        self.assertIn("update skipped", err)
        self.assertIn("not finite in", err)
        self.assertEqual(json.loads(out)["failure"]["step"], 7)
        self.assertNotIn("-nan", err)
        self.assertIn("updates skipped", run("train", plan, "--data", TEXT, "--steps", 8)[1])
        self.assertFalse(any(s["skipped"] for s in tandem_json("train", self.folder.plan(SMALL), "--data", TEXT, "--steps", 2)["steps"]))

    def test_a_save_that_fails_is_told_with_the_steps_that_follow_if_any_do(self):
        plan = self.folder.plan(changed(ONE, **{"model": {"preset": "gpt-small-demo"}, "training.global_batch_size": 1}))
        told_in = {"run": [True, False, False],  # the second save ends behind the last step
                   "run.safetensors": [True, True, False]}
        for form, wanted in told_in.items():
            saving = [tandem.PROGRAM, "train", plan, "--data", TEXT, "--steps", "3", "--save", self.path(form), "--save-every", "1"]
            done = subprocess.run(saving, capture_output=True, text=True, preexec_fn=small_files, restore_signals=False, check=False)
            self.assertEqual(done.returncode, 3, done.stderr)
            told = [line for line in done.stderr.splitlines() if "File too large" in line]
            self.assertEqual(["; the training goes on without it" in line for line in told], wanted, told)
            self.assertTrue(told[2].startswith("tandem: error: "), told[2])

    def diverging(self):
        return self.folder.plan(changed(ONE, **{"training.learning_rate": 1e6, "training.clip_grad": 0}), "diverging.json")

    def test_twenty_steps_in_a_row_that_are_not_finite_end_a_run_and_exit_7(self):
        arguments = ("train", self.diverging(), "--data", TEXT, "--steps", 100)
        code, out, err = run(*arguments, "--json")
        result = json.loads(out)
        last = result["failure"]["step"]
        self.assertEqual((code, len(result["steps"]), result["failure"]["rank"]), (7, last + 1, None))
        self.assertEqual([s["step"] for s in result["steps"] if s["skipped"]], list(range(last - 19, last + 1)))
        self.assertEqual(err.count("tandem: error:"), 1)
        self.assertIn(f"not finite in 20 steps in a row, steps {last - 19} to {last}; lower training.learning_rate (1e+06)", err)
        self.assertEqual(run(*arguments, "--timeline", self.path("kept.json"))[0], 7)

    def test_a_step_that_is_not_finite_saves_nothing_over_the_checkpoint_before_it(self):
        saved, arguments = self.path("run.safetensors"), ("train", self.diverging(), "--data", TEXT)
        code, _, err = run(*arguments, "--steps", 100, "--save", saved, "--save-every", 1)
        self.assertEqual((code, err.count("tandem: error:")), (7, 1))
        good = json.loads(run(*arguments, "--steps", 8, "--json")[1])["steps"]
        done = next(s["step"] for s in good if s["skipped"] or s["loss"] is None)  # as many were finite
        self.assertEqual(err.count(f"stays that of {done} steps"), 2)  # at the first step that is not saved, and at the end
        self.assertIn(f"and --resume {saved}", err)
        before = pathlib.Path(saved).read_bytes()
        code, out, err = run("train", self.folder.plan(ONE), "--data", TEXT, "--steps", done + 1, "--resume", saved, "--json")
        self.assertEqual([s["step"] for s in json.loads(out)["steps"]], [done])
        self.assertEqual(code, 7, err)  # weights of such a rate do not recover
        self.assertEqual(pathlib.Path(saved).read_bytes(), before)
        other = self.path("other.safetensors")
        code, _, err = run(*arguments, "--steps", 8, "--save", other)  # too few to stop at, but nothing to keep either
        self.assertEqual((code, pathlib.Path(other).exists()), (7, False))
        self.assertIn("is not written", err)

    def test_gradients_that_a_loss_scale_drove_out_of_the_numbers_end_no_run(self):
        scaled = {"training.precision": "fp16", "training.loss_scale": {"initial": 2.0 ** 60, "hysteresis": 1}}
        plan, saved = self.folder.plan(changed(ONE, **scaled)), self.path("run.safetensors")
        steps = tandem_json("train", plan, "--data", TEXT, "--steps", 70)["steps"]
        self.assertGreater(sum(s["skipped"] for s in steps), 25)
        self.assertFalse(steps[-1]["skipped"])
        self.assertEqual(run("train", plan, "--data", TEXT, "--steps", 3, "--save", saved)[0], 0)


if __name__ == "__main__":
    tandem.main()
