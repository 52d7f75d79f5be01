#!/usr/bin/env python3
"""Results of studies that are kept, computed again where they changed, and checked for damage."""
import json
import random
import signal
import subprocess
import time

import tandem
from studies import STUDY, Studies
from tandem import NOTHING_MEASURED, PROGRAM, SOURCE, changed, run


class Resuming(Studies):
    def test_what_is_done_is_not_done_again(self):
        self.sweep(self.study())
        before = (self.out / "results.jsonl").read_bytes()
        again = self.sweep(self.study())
        self.assertEqual((again["computed"], again["kept"]), (0, 6))
        self.assertEqual((self.out / "results.jsonl").read_bytes(), before)
        self.assertEqual(self.sweep(self.study(), "--fresh")["computed"], 6)

    def test_a_line_cut_off_by_a_crash_is_computed_again(self):
        self.sweep(self.study())
        before = (self.out / "results.jsonl").read_bytes()
        (self.out / "results.jsonl").write_bytes(before[:-40])
        again = self.sweep(self.study())
        self.assertEqual((again["computed"], again["kept"]), (1, 5))
        self.assertEqual((self.out / "results.jsonl").read_bytes(), before)

    def test_a_wider_study_keeps_the_plans_it_shares_with_the_old_one(self):
        self.sweep(self.study())
        wider = changed(STUDY, **{"axes": [{"field": "parallel.tensor", "values": [1, 2, 3, 4]}, STUDY["axes"][1]]})
        again = self.sweep(self.folder.file("study.json", json.dumps(wider)))
        self.assertEqual((again["computed"], again["kept"]), (2, 6))

    def test_results_of_a_changed_plan_are_not_kept(self):
        self.sweep(self.study())
        again = self.sweep(self.study(**{"base.training.seq_length": 32}))
        self.assertEqual(again["kept"], 0)

    def test_the_summary_ranks_what_fits_and_says_why_the_rest_is_not_there(self):
        code, text, _ = run("sweep", self.study(), "--out", self.out)
        self.assertEqual(code, 0)
        rows = sorted((r for r in self.rows() if r["status"] == "ok"), key=lambda r: -r["model_tflops_per_device"])
        lines = text.splitlines()
        place = lambda row: f"parallel.tensor {row['at']['parallel.tensor']}, batch {row['at']['batch']}"
        at = next(i for i, line in enumerate(lines) if line.startswith("best "))
        self.assertTrue(lines[at].startswith("best by model FLOP/s per device: " + place(rows[0]) + ": "), lines[at])
        self.assertTrue(lines[at].split(" per device, ")[1].startswith(f"{rows[0]['needed_bytes'] / 2**10:.0f} KiB of "), lines[at])
        self.assertEqual(lines[at + 1], "next best")
        for line, row in zip(lines[at + 2:], rows[1:5]):
            self.assertTrue(line.strip().startswith(place(row)), line)
        bad = next(r for r in self.rows() if r["status"] == "infeasible")
        self.assertIn("    " + bad["reason"], lines)
        for row in rows:
            self.assertTrue(row["step_time_low_s"] <= row["step_time_s"] <= row["step_time_high_s"], row)

    def test_plans_that_are_others_again_are_counted(self):
        same = {"name": "same", "values": [{"label": "a", "set": {}}, {"label": "b", "set": {"training.recompute": "none"}}]}
        path = self.study(axes=[{"field": "parallel.tensor", "values": [1, 2]}, same], points=None, view=None)
        told = run("sweep", path, "--out", self.out)[1].splitlines()[1]
        self.assertTrue(told.endswith(": 4 plans, 2 computed, 0 kept from before, 2 the same as another"), told)
        told = run("sweep", path, "--out", self.out)[1].splitlines()[1]
        self.assertTrue(told.endswith(": 4 plans, 0 computed, 2 kept from before, 2 the same as another"), told)

    def test_a_cluster_file_is_found_from_the_folder_of_the_study_or_of_its_base(self):
        preset = json.loads((SOURCE / "topology/presets/cpu-host.json").read_text())
        (self.folder.path / "elsewhere").mkdir()
        for name in ("mine.json", "elsewhere/theirs.json"):
            (self.folder.path / name).write_text(json.dumps(preset))
        base = changed(STUDY["base"], **{"cluster.preset": "theirs.json"})
        (self.folder.path / "elsewhere" / "plan.json").write_text(json.dumps(base))
        for study in (changed(STUDY, **{"base.cluster.preset": "mine.json"}), STUDY | {"base": "elsewhere/plan.json"}):
            path = self.folder.file("study.json", json.dumps(study))
            code, _, err = run("sweep", path, "--out", self.out, "--fresh")
            self.assertEqual(code, 0, err)
            self.assertEqual(sum(row["status"] == "ok" for row in self.rows()), 4)

    def test_a_plan_is_computed_again_where_a_part_of_its_own_cluster_changed(self):
        presets = SOURCE / "topology/presets"
        own = json.loads((presets / "cpu-host.json").read_text()) | {"device": "device.json"}
        device = json.loads((presets / "devices/cpu-core.json").read_text())
        self.folder.file("mine.json", json.dumps(own))
        study = self.study(**{"base.cluster.preset": "mine.json"})
        code, out, err = run("sweep", study, "--out", self.out)
        self.assertEqual((code, out), (3, ""))
        self.assertIn("device.json: cannot be read", err)
        for name, computed in (("one", 6), ("one", 0), ("another", 4)):  # two are infeasible on any
            self.folder.file("device.json", json.dumps(device | {"name": name}))
            self.assertEqual(self.sweep(study)["computed"], computed)

    def test_plans_are_computed_again_where_the_file_of_a_stack_changed(self):
        stack = json.loads((SOURCE / "models/stacks/tandem.json").read_text())
        study = self.study(**{"base.stack": "odd"})
        file = self.folder.path / "presets/models/stacks/odd.json"
        file.parent.mkdir(parents=True)
        for notes, computed in (("one", 6), ("one", 0), ("another", 6)):
            file.write_text(json.dumps(stack | {"name": "odd", "notes": notes}))
            code, out, err = run("sweep", study, "--out", self.out, "--json", environment={"TANDEM_PRESETS": str(self.folder.path / "presets")})
            self.assertEqual(code, 0, err)
            self.assertEqual(json.loads(out)["computed"], computed)

    def test_plans_are_computed_again_where_the_errors_changed_from_which_ranges_follow(self):
        errors = json.loads((SOURCE / "topology/errors/step_time.json").read_text())
        file, study = self.folder.path / "presets/topology/errors/step_time.json", self.study()
        file.parent.mkdir(parents=True)
        for high, computed in ((0.5, 6), (0.5, 0), (0.6, 6)):
            file.write_text(json.dumps(errors | {"unknown_device": {"low": -0.5, "high": high, "reason": "none"}}))
            code, out, err = run("sweep", study, "--out", self.out, "--json", environment={"TANDEM_PRESETS": str(self.folder.path / "presets")})
            self.assertEqual((code, json.loads(out)["computed"]), (0, computed), err)

    def test_ctrl_c_keeps_what_is_done_and_exits_130(self):
        many = changed(STUDY, **{"points": None, "view": None, "axes": [{"field": "training.seed", "values": list(range(4000))}]})
        path = self.folder.file("study.json", json.dumps(many))
        process = subprocess.Popen([PROGRAM, "sweep", path, "--out", str(self.out), "--jobs", "2"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env={"TANDEM_MEASURED": NOTHING_MEASURED})
        log = self.out / "results.jsonl"
        while process.poll() is None and not (log.exists() and log.stat().st_size > 0):
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        self.assertEqual(process.returncode, 130)
        done = len(self.rows())
        self.assertTrue(0 < done < 4000, done)
        self.assertTrue((self.out / "results.csv").exists())


def sealed(row):
    """A row with the checksum that its text has: FNV-1a of 64 bits (RFC 9923)."""
    digest = 0xCBF29CE484222325
    for byte in row.encode():
        digest = (digest ^ byte) * 0x100000001B3 % 2**64
    return f'{row[:-1]},"checksum":"{digest:016x}"}}'


class Damage(Studies):
    """Rows are kept only where they are what a sweep wrote."""

    def setUp(self):
        super().setUp()
        self.log = self.out / "results.jsonl"
        self.file = self.study()
        self.sweep(self.file)
        self.whole = self.log.read_bytes()

    def computed_again(self, lines, rows):
        """Sweeps over `lines` as the results of before: `rows` are computed, one line says so, and every result is right again."""
        self.log.write_text("".join(line + "\n" for line in lines))
        code, out, err = run("sweep", self.file, "--out", self.out, "--json")
        self.assertEqual(code, 0, err)
        self.assertEqual(json.loads(out)["computed"], rows)
        self.assertEqual(self.log.read_bytes(), self.whole)
        self.assertRegex(err, r"\A[^\n]*results.jsonl: [0-9]+ rows? ha(s|ve) no checksum that matches[^\n]*computed again\n[^\n]*results in [^\n]*\n\Z")

    def lines(self):
        return self.whole.decode().splitlines()

    def test_a_row_ends_with_a_checksum_over_itself(self):
        for line in self.lines():
            row = line[:line.index(',"checksum":')] + "}"
            self.assertEqual(line, sealed(row))

    def test_a_row_with_another_figure_is_computed_again(self):
        first, *others = self.lines()
        figure = json.loads(first)["step_time_s"]
        self.computed_again([first.replace(f'"step_time_s":{figure}', '"step_time_s":0.001'), *others], 1)
        self.computed_again([first.replace('"status":"ok"', '"status":5'), *others], 1)

    def test_rows_of_a_version_without_checksums_are_computed_again(self):
        self.computed_again([line[:line.index(',"checksum":')] + "}" for line in self.lines()], 6)

    def test_a_row_that_no_sweep_writes_is_computed_again_whatever_its_checksum(self):
        first, *others = self.lines()
        row = first[:first.index(',"checksum":')] + "}"
        good = json.loads(row)
        deep = row[:-1] + ',"x":' + "[" * 100_000 + "]" * 100_000 + "}"
        changes = [{"status": "nonsense"}, {"status": 5}, {"status": "too large", "fits": 1}, {"layout": 7}, {"layout": {}}, {"memory_bytes": []},
                   {"memory_bytes": {"weights": "x"}}, {"step_time_s": "1"}, {"step_time_s": None}, {"time_breakdown_s": 1}, {"at": []},
                   {"reason": 3}, {"key": None}, {"tokens_per_s": [1]}, {"device_memory_bytes": {}}, {"cost": "much"}, {"in_time": 1}]
        forged = [deep, "[]", "{}", "5", row[:-1] + ',"key":"twice"}', row.replace('"reason":""', r'"reason":"\udcff"')]
        forged += [json.dumps(good | change, separators=(",", ":")) for change in changes]
        forged += [json.dumps({k: v for k, v in good.items() if k != gone}, separators=(",", ":")) for gone in good]
        for text in forged:
            with self.subTest(row=text[:200]):
                self.computed_again([sealed(text), *others], 1)

    def test_no_damage_to_the_file_changes_a_result(self):
        chance = random.Random(7)
        for _ in range(40):
            damaged = bytearray(self.whole)
            at, kind = chance.randrange(len(damaged)), chance.randrange(4)
            if kind == 0:
                damaged[at] = chance.randrange(256)
            elif kind == 1:
                del damaged[at:at + chance.randrange(1, 200)]
            elif kind == 2:
                damaged[at:at] = chance.randbytes(chance.randrange(1, 20))
            else:
                damaged[at:at] = damaged[at // 2:at]
            self.log.write_bytes(damaged)
            code, _, err = run("sweep", self.file, "--out", self.out)
            self.assertEqual(code, 0, err)
            self.assertEqual(self.log.read_bytes(), self.whole)

    def test_a_report_of_changed_rows_is_refused_with_their_line(self):
        lines = self.lines()
        lines[1] = lines[1].replace('"status":"ok"', '"status":"OK"')
        self.log.write_text("".join(line + "\n" for line in lines))
        code, out, err = run("report", self.out)
        self.assertEqual((code, out), (3, ""))
        self.assertIn("results.jsonl:2: is no row of a sweep, or its checksum does not match; run tandem sweep again", err)


if __name__ == "__main__":
    tandem.main()
