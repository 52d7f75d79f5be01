#!/usr/bin/env python3
"""Many ranks: memory in proportion to them, and signs of life on a terminal while they are simulated."""
import os
import pty
import re
import resource
import select
import signal
import subprocess
import time

import tandem
from interrupt_test import LONG
from tandem import NOTHING_MEASURED, PROGRAM, SMALL, TEXT, WithFolder, changed

GIBIBYTE = 1 << 30
PATIENCE = 60  # seconds until something is said to hang


def on_one_host(ranks):
    return changed(SMALL, **{"parallel": {"data": ranks}, "training.global_batch_size": ranks, "cluster.devices": ranks})


class Large(WithFolder):
    def simulate(self, plan, memory=None, **more):
        return self.begin("simulate", self.folder.plan(plan), memory=memory, **more)

    def begin(self, *arguments, memory=None, **more):
        def limit():
            if memory:
                resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        return subprocess.Popen([PROGRAM, *arguments], text=True, preexec_fn=limit,
                                env=dict(os.environ, TANDEM_MEASURED=NOTHING_MEASURED), **more)

    def test_sixty_five_thousand_ranks_of_one_host_need_less_than_two_gibibytes(self):
        process = self.simulate(on_one_host(65536), 2 * GIBIBYTE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = process.communicate()
        self.assertEqual(process.returncode, 0, err)
        self.assertIn("65,536 ranks (", out)
        self.assertEqual(err, "")

    def test_a_plan_for_many_hosts_is_refused_before_it_takes_this_ones_memory(self):
        wide = self.folder.plan(changed(SMALL, **{"model.hidden_size": 16384, "model.num_attention_heads": 128, "model.ffn_hidden_size": None,
                                                  "model.num_layers": 96, "parallel": {"data": 64}, "training.global_batch_size": 64,
                                                  "cluster.devices": 64}))
        process = self.begin("train", wide, "--data", TEXT, "--steps", "1", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = process.communicate()
        self.assertEqual((process.returncode, out), (4, ""), err)
        # 96 x 12 x 16384 x 16384 parameters, each with a gradient and two moments, in 4 bytes: 4.5 TiB a rank, and activations
        found = re.search(r"64 ranks need ([\d,.]+) TiB of memory, and this host has [\d.]+ [GT]iB free; use fewer data ranks", err)
        self.assertTrue(found, err)
        self.assertAlmostEqual(float(found[1].replace(",", "")), 64 * 16 * 96 * 12 * 16384 ** 2 / 2 ** 40, delta=6)

    def check_told(self, *arguments, said=r"simulating seed \d+ of 1000, [\d.]+ s"):
        terminal, end = pty.openpty()
        self.addCleanup(os.close, terminal)
        process = self.begin(*arguments, stdout=subprocess.DEVNULL, stderr=end)
        os.close(end)
        self.addCleanup(process.kill)
        told, until = "", time.monotonic() + PATIENCE
        while not re.search(said, told):
            self.assertLess(time.monotonic(), until, f"nothing told but {told!r}")
            if select.select([terminal], [], [], 1)[0]:
                told += os.read(terminal, 4096).decode()
        self.assertRegex(told, r"\r\x1b\[K" + said)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(PATIENCE), 130)

    def test_whatever_simulates_for_long_tells_a_terminal_what_it_is_at(self):
        plan = self.folder.plan(LONG)
        for arguments in (["simulate", plan], ["explain", plan, "step_time_s"], ["report", plan, "--out", self.path("page.html")]):
            with self.subTest(arguments[0]):
                self.check_told(*arguments)

    def test_a_search_tells_a_terminal_that_it_works(self):
        self.check_told("search", "deepseek-v3", "--cluster", "dgx-h100", "--devices", "2048", said=r"searching: [\d,]+ of [\d,]+ groups looked at, .*, [\d.]+ s")

    def test_a_long_simulation_tells_a_pipe_nothing(self):
        quiet = self.simulate(LONG, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(quiet.kill)
        with self.assertRaises(subprocess.TimeoutExpired):
            quiet.wait(4)
        quiet.send_signal(signal.SIGINT)
        self.assertEqual(quiet.communicate(timeout=PATIENCE)[1], "interrupted\n")


if __name__ == "__main__":
    tandem.main()
