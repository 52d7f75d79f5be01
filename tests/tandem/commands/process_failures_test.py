#!/usr/bin/env python3
"""Processes of a training that fail, are killed or are stopped: who tells it, and how soon. Nothing else should run beside it."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

from processes_test import Launched, errors, files_of, finish, main, mpi_command, start_env
from tandem import NOTHING_MEASURED, SMALL, TEXT, changed, run


class Failures(Launched):
    def wait_for_step(self, process):
        """Returns when a process has told a step."""
        for line in process.stderr:
            if line.startswith(b"step"):
                return
        self.fail("no step was trained")

    def test_a_step_whose_experts_get_too_many_rows_leaves_what_one_process_would_save(self):
        moe = {"num_experts": 4, "experts_per_token": 2, "rows_bound": 1.7}
        for shape in ({"data": 2, "expert": 2, "pipeline": 2}, {"data": 4, "expert": 2, "zero_stage": 2}):
            plan = self.folder.plan(changed(SMALL, **{"model.moe": moe, "parallel": shape, "cluster.devices": 4, "training.learning_rate": 0.01}))
            arguments = (plan, "--data", TEXT, "--steps", 100, "--save-every", 2, "--json", "--save")
            names = ("{}", "{}.safetensors")
            alone = {name: run("train", *arguments, self.path(name.format("alone"))) for name in names}
            self.assertEqual([code for code, _, _ in alone.values()], [7, 7], alone)
            step = json.loads(alone["{}"][1])["failure"]["step"]
            self.assertGreater(step, 0)
            for i, (launch, processes, name) in enumerate((("mpi", 2, names[0]), ("env", 4, names[0]), ("env", 3, names[1]), ("mpi", 4, names[1]))):
                with self.subTest(shape=shape, launch=launch, processes=processes, name=name):
                    place = self.path(name.format(i))
                    code, out, err = self.train(launch, processes, *arguments, place)
                    self.assertEqual((code, len(errors(err))), (7, 1), err)
                    self.assertRegex(errors(err)[0], rf"rank \d failed in step {step}: \S*plan.json: model.moe.rows_bound = 1.7: the step needs at least")
                    failure = json.loads(out[:out.rindex("}") + 1])["failure"]
                    self.assertEqual((failure["step"], failure["during"]), (step, "training"))
                    self.assertIn(f"rank {failure['rank']} failed in step {step}: {failure['reason']}", errors(err)[0])
                    self.assertTrue(files_of(place) == files_of(self.path(name.format("alone"))), "checkpoints differ")
            for place in [self.path(name.format(i)) for i in ("alone", 0, 1, 2, 3) for name in names]:
                shutil.rmtree(place) if os.path.isdir(place) else pathlib.Path(place).unlink(missing_ok=True)

    def test_a_step_whose_experts_get_too_many_rows_in_an_evaluation_leaves_the_step_before_it(self):
        moe = {"num_experts": 4, "experts_per_token": 2, "rows_bound": 1.5}
        plan = self.folder.plan(changed(SMALL, **{"model.moe": moe, "parallel": {"data": 2, "expert": 2, "pipeline": 2}, "cluster.devices": 4}))
        text = self.folder.file("a.txt", "a" * 400)  # one token, so its experts get all rows
        for launch, processes in (("mpi", 4), ("env", 2)):
            place = self.path(launch)
            code, _, err = self.train(launch, processes, plan, "--data", TEXT, "--steps", 4, "--eval-every", 2, "--eval-data", text, "--save", place)
            self.assertEqual((code, len(errors(err))), (7, 1), err)
            self.assertRegex(errors(err)[0], r"rank \d failed in the evaluation after step 1: .*model.moe.rows_bound = 1.5")
            self.assertTrue((pathlib.Path(place) / "step-00000002" / "manifest.json").exists(), err)

    def test_a_killed_process_ends_the_others_with_its_name(self):
        for victim, speaker in ((2, 0), (0, 1)):
            processes = start_env(4, (self.plan, "--data", TEXT, "--steps", 1000000, "--timeout", 60))
            self.wait_for_step(processes[0])
            processes[victim].kill()
            ends = finish(processes, timeout=30)
            self.assertEqual([e[0] for i, e in enumerate(ends) if i != victim], [7, 7, 7], ends)
            told = [(i, line) for i, e in enumerate(ends) for line in errors(e[2])]
            self.assertEqual([i for i, line in told], [speaker], told)
            self.assertIn(f"process {victim} (rank {victim} on ", told[0][1])
            self.assertIn("has died", told[0][1])

    def test_a_survivor_that_writes_to_a_dead_process_reports_it(self):
        """It is stopped while the other one dies, so that its next bytes go to a closed connection."""
        for _ in range(3):
            survivor, victim = start_env(2, (self.plan, "--data", TEXT, "--steps", 1000000, "--timeout", 10, "--json"))
            self.wait_for_step(survivor)
            survivor.send_signal(signal.SIGSTOP)
            time.sleep(0.1)
            victim.kill()
            victim.wait()
            survivor.send_signal(signal.SIGCONT)
            code, out, err = finish([survivor], timeout=30)[0]
            self.assertEqual((code, len(errors(err))), (7, 1), err)
            self.assertIn("process 1 (rank", errors(err)[0])
            self.assertRegex(json.loads(out)["failure"]["reason"], r"process 1 .*has died")

    def test_a_killed_process_ends_a_run_over_mpi_with_its_name(self):
        run_of_all = subprocess.Popen(mpi_command(2, self.plan, "--data", TEXT, "--steps", 1000000), stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, env=dict(os.environ, TANDEM_MEASURED=NOTHING_MEASURED, NO_COLOR="1"))
        self.wait_for_step(run_of_all)
        children = pathlib.Path(f"/proc/{run_of_all.pid}/task/{run_of_all.pid}/children").read_text().split()
        os.kill(int(children[-1]), signal.SIGKILL)
        out, err = run_of_all.communicate(timeout=30)
        told = errors(err.decode())
        self.assertEqual(len(told), 1, err.decode())
        self.assertIn("has died", told[0])

    def test_a_stopped_process_is_named_with_the_call_that_waits_for_it_within_the_time_out(self):
        processes = start_env(4, (self.plan, "--data", TEXT, "--steps", 1000000, "--timeout", 2))
        time.sleep(2)
        processes[3].send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        self.assertEqual(processes[0].wait(timeout=30), 7)
        self.assertLess(time.monotonic() - stopped, 2 + 1 + 0.5)  # half a second for the program to end
        processes[3].kill()
        ends = finish(processes, timeout=30)
        told = [line for e in ends for line in errors(e[2])]
        self.assertEqual(len(told), 1, told)
        self.assertIn("process 3 (rank 3 on ", told[0])
        self.assertRegex(told[0], r"(all_reduce|all_gather|reduce_scatter|broadcast).* on group \w+: .*|no sign of life")


if __name__ == "__main__":
    main()
