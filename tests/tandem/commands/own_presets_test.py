#!/usr/bin/env python3
"""Presets of the user's own, and files that the system does not let the program look at: told and refused, never passed over."""
import json
import os
import shutil
import subprocess
import unittest

import tandem
from tandem import PROGRAM, SMALL, SOURCE, WithFolder, changed, run, tandem_json

DEVICE = "topology/presets/devices/a100-sxm4-80gb.json"
PLAN = SOURCE / "experiments/plans/llama2-13b-a100-32.json"
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def run_unprivileged(*arguments, environment=None):
    """A run for which permissions count, as they do not for root."""
    command = [PROGRAM, *map(str, arguments)]
    if os.geteuid() == 0:
        command = NOBODY + command
    env = {k: v for k, v in os.environ.items() if k not in ("TANDEM_MEASURED", "XDG_DATA_HOME", "TANDEM_PRESETS")}
    done = subprocess.run(command, capture_output=True, env=env | (environment or {}), timeout=300, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def can_run_unprivileged():
    if os.geteuid() != 0:
        return True
    tried = shutil.which("setpriv") and subprocess.run([*NOBODY, PROGRAM, "--version"], capture_output=True, check=False).returncode == 0
    return bool(tried)


class OwnPresets(WithFolder):
    def own(self, path, content):
        file = self.folder.path / "own" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content), encoding="utf-8")
        return {"TANDEM_PRESETS": self.path("own")}

    def slower_device(self):
        """Tandem's device with half the rates: what it predicts cannot be mistaken for Tandem's own."""
        device = json.loads((SOURCE / DEVICE).read_text(encoding="utf-8"))
        device["peak_flops_per_s"]["value"] = {"fp32": "9.75 TFLOP/s", "bf16": "156 TFLOP/s", "fp16": "156 TFLOP/s"}
        return device

    def test_simulate_names_the_presets_that_it_took_from_the_users_folder(self):
        place = self.own(DEVICE, self.slower_device())
        code, out, err = run("simulate", PLAN, "--json", environment=place)
        self.assertEqual(code, 0, err)
        told = f"taken from TANDEM_PRESETS={self.path('own')}: {DEVICE}"
        self.assertIn(told, err)
        self.assertIn(told, json.loads(out)["notes"])
        ours = tandem_json("simulate", PLAN)
        self.assertGreater(json.loads(out)["step_time_s"], 1.2 * ours["step_time_s"])  # the larger part of it is products
        self.assertFalse([n for n in ours["notes"] if "TANDEM_PRESETS" in n])

    def test_a_folder_from_which_nothing_is_taken_is_told(self):
        place = self.own("topology/presets/devices/another.json", self.slower_device())
        code, _, err = run("simulate", PLAN, environment=place)
        self.assertEqual(code, 0)
        self.assertIn(f"taken from TANDEM_PRESETS={self.path('own')}: nothing", err)

    def refused(self, place, *words, runner=run):
        for command in (["simulate"], ["explain"], ["report", "--out", self.path("page.html")]):
            code, out, err = runner(*command, PLAN, environment=place)
            self.assertEqual((code, out), (3, ""), f"{command}: {err}")
            for word in ("TANDEM_PRESETS", *words):
                self.assertIn(word, err)

    def test_presets_at_a_wrong_level_are_refused(self):
        self.refused(self.own("devices/a100-sxm4-80gb.json", self.slower_device()), "has none of the folders")

    def test_a_link_that_leads_nowhere_is_refused(self):
        link = self.folder.path / "own" / DEVICE
        link.parent.mkdir(parents=True)
        link.symlink_to("/nowhere")
        self.refused({"TANDEM_PRESETS": self.path("own")}, DEVICE, "link")

    @unittest.skipUnless(can_run_unprivileged(), "cannot run as a user for whom permissions count")
    def test_presets_without_permission_are_refused(self):
        self.folder.path.chmod(0o777)
        for part in ("topology", "topology/presets/devices", DEVICE):
            place = self.own(DEVICE, self.slower_device())
            locked = self.folder.path / "own" / part
            mode = locked.stat().st_mode
            locked.chmod(0)
            try:
                self.refused(place, part, "Permission denied", runner=run_unprivileged)
            finally:
                locked.chmod(mode)


class Unreachable(WithFolder):
    def one_problem(self, *arguments, words=(), environment=None):
        code, out, err = run(*arguments, environment=environment)
        self.assertEqual((code, out), (3, ""), f"{arguments}: {err}")
        for word in words:
            self.assertIn(word, err)
        self.assertNotIn("internal", err)

    @unittest.skipUnless(can_run_unprivileged(), "cannot run as a user for whom permissions count")
    def test_a_home_without_permission_holds_no_measured_table_and_the_prediction_says_so(self):
        self.folder.path.chmod(0o777)
        home = self.folder.path / "home"
        home.mkdir(mode=0)
        plan, env = self.folder.plan(SMALL), {"HOME": str(home)}
        code, out, err = run_unprivileged("simulate", plan, "--json", environment=env)
        self.assertEqual(code, 0, err)
        self.assertTrue([n for n in json.loads(out)["notes"] if "no measured table" in n and "Permission denied" in n])
        self.assertEqual(run_unprivileged("explain", plan, "step_time_s", environment=env)[0], 0)
        self.assertEqual(run_unprivileged("report", plan, "--out", self.path("page.html"), environment=env)[0], 0)
        study = self.folder.file("study.json", json.dumps({"base": SMALL, "axes": [{"field": "training.seed", "values": [1]}]}))
        self.assertEqual(run_unprivileged("sweep", study, "--out", self.path("rows"), environment=env)[0], 0)
        locked = str(home / "plan.json")
        code, _, err = run_unprivileged("report", locked, environment=env)
        self.assertEqual((code, "Permission denied" in err), (3, True), err)

    def test_rings_of_links_and_names_that_are_too_long_exit_3(self):
        ring = self.folder.path / "ring.json"
        ring.symlink_to("ring.json")
        for name, why in ((ring, "Too many levels of symbolic links"), ("a" * 5000, "File name too long")):
            self.one_problem("report", name, words=[why])
            study = self.folder.file("study.json", json.dumps({"name": "s", "base": str(name), "axes": [{"field": "training.seed", "values": [1]}]}))
            self.one_problem("sweep", study, "--out", self.path("rows"), words=["base", why])

    def test_a_device_with_the_name_of_a_table_that_no_file_can_have_is_refused(self):
        device = json.loads((SOURCE / "topology/presets/devices/cpu-core.json").read_text(encoding="utf-8"))
        cluster = json.loads((SOURCE / "topology/presets/cpu-host.json").read_text(encoding="utf-8"))
        cluster.pop("cost_table", None)
        self.folder.file("mine.json", json.dumps(cluster | {"device": device | {"cost_table": "a" * 5000}}))
        self.one_problem("simulate", self.folder.plan(changed(SMALL, **{"cluster.preset": "mine.json"})), words=["mine.json", "cost_table"])

    def test_a_cluster_file_that_is_not_there_is_told_with_plan_and_field(self):
        for name in ("400GB/s", "~/x", "nowhere.json"):
            plan = self.folder.plan(changed(SMALL, **{"cluster.preset": name}))
            for command in ("simulate", "explain", "report"):
                self.one_problem(command, plan, words=[f'{plan}: cluster.preset = "{name}"', "there is no such file"])
        study = self.folder.file("study.json", json.dumps(
            {"name": "s", "base": changed(SMALL, **{"cluster.preset": "400GB/s"}), "axes": [{"field": "training.seed", "values": [1]}]}))
        self.one_problem("sweep", study, "--out", self.path("rows"), words=["study.json", "cluster.preset", "400GB/s"])

    def test_a_part_of_a_cluster_that_is_not_there_is_told_with_its_file_and_field(self):
        cluster = json.loads((SOURCE / "topology/presets/cpu-host.json").read_text(encoding="utf-8"))
        self.folder.file("mine.json", json.dumps(cluster | {"device": "./device.json"}))
        self.one_problem("simulate", self.folder.plan(changed(SMALL, **{"cluster.preset": "mine.json"})),
                         words=["mine.json: device", "./device.json", "there is no such file"])


if __name__ == "__main__":
    tandem.main()
