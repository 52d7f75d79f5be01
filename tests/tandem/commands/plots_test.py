#!/usr/bin/env python3
"""The plots are drawn from what the program writes, and refuse anything else. Skipped (77) without matplotlib."""
import json
import pathlib
import subprocess
import sys

try:
    import matplotlib.image
except ImportError:
    print("matplotlib is not installed")
    sys.exit(77)

import studies
import tandem
from tandem import SMALL, SOURCE, TEXT, WithFolder, changed, run


def plot(script, *arguments):
    return subprocess.run([sys.executable, str(SOURCE / "reports" / script), *arguments], capture_output=True, text=True,
                          check=False)


class Plots(WithFolder):
    def setUp(self):
        super().setUp()
        self.plan = self.folder.plan(SMALL)

    def path(self, name):
        return str(self.folder.path / name)

    def check_picture(self, done, path):
        self.assertEqual(done.returncode, 0, done.stderr)
        pixels = matplotlib.image.imread(path)
        self.assertGreater(pixels.shape[1], 800)
        colours = {tuple(p) for p in (pixels[::4, ::4, :3] * 16).astype(int).reshape(-1, 3)}
        self.assertGreater(len(colours), 5)  # something is drawn on the white

    def test_simulated_and_executed_timelines_in_one_picture(self):
        self.assertEqual(run("simulate", self.plan, "--timeline", self.path("s.json"))[0], 0)
        self.assertEqual(run("train", self.plan, "--data", TEXT, "--steps", 1, "--timeline", self.path("r.json"))[0], 0)
        picture = self.path("timeline.png")
        self.check_picture(plot("plot_timeline.py", self.path("s.json"), self.path("r.json"), "-o", picture), picture)
        self.check_picture(plot("plot_timeline.py", self.path("r.json"), "-o", picture, "--lanes", "1"), picture)

    def test_timelines_of_zero_bubble_schedules_and_gathered_weights(self):
        for name, changes in (("h1", {"parallel.schedule": "zb-h1"}), ("zero", {"parallel.pipeline": 1, "parallel.data": 4, "parallel.zero_stage": 3})):
            saved, picture = self.path(f"{name}.json"), self.path(f"{name}.png")
            self.assertEqual(run("simulate", self.folder.plan(changed(SMALL, **changes)), "--timeline", saved)[0], 0)
            self.check_picture(plot("plot_timeline.py", saved, "-o", picture), picture)

    def test_an_interpreter_without_matplotlib_is_told_in_one_line(self):
        self.folder.file("matplotlib.py", "raise ImportError")
        for script in ("figures.py", "plot_timeline.py", "plot_memory.py"):
            done = subprocess.run([sys.executable, str(SOURCE / "reports" / script), "x"], capture_output=True, text=True, check=False,
                                  env={"PYTHONPATH": str(self.folder.path)})
            self.assertEqual(done.returncode, 1)
            self.assertIn("install python3-matplotlib", done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    def test_memory_over_time(self):
        self.assertEqual(run("simulate", self.plan, "--memory", self.path("m.json"))[0], 0)
        picture = self.path("memory.png")
        self.check_picture(plot("plot_memory.py", self.path("m.json"), "-o", picture), picture)

    def test_figures_of_a_study(self):
        study = self.folder.file("study.json", json.dumps(studies.STUDY))
        self.assertEqual(run("sweep", study, "--out", self.path("out"))[0], 0)
        done = plot("figures.py", self.path("out"), "--out", self.path("figures"), "--y", "tokens_per_s")
        drawn = [pathlib.Path(line).name for line in done.stdout.split()]
        self.assertEqual(drawn, [f"{f}.{e}" for f in ("curves", "map", "breakdown") for e in ("pdf", "png")], done.stderr)
        for name in drawn:
            if name.endswith("png"):
                self.check_picture(done, self.path("figures/" + name))
            else:
                self.assertTrue((self.folder.path / "figures" / name).read_bytes().startswith(b"%PDF"))

    def test_curves_run_over_the_axis_with_most_numbers(self):
        sys.path.insert(0, str(SOURCE / "reports"))
        import figures
        devices, clusters = {"cluster.devices": [8, 16, 32]}, {"cluster.preset": ["dgx-h100", "dgx-b200"]}
        self.assertEqual(figures.runs_over({**devices, "parallel.tensor": [1, 2], **clusters}), "cluster.devices")
        self.assertEqual(figures.runs_over({"cluster.devices": [8], **clusters}), "cluster.preset")

    def test_the_range_of_a_rate_is_that_of_the_step_time_turned_around(self):
        sys.path.insert(0, str(SOURCE / "reports"))
        import figures
        row = {"step_time_s": 10, "step_time_low_s": 8, "step_time_high_s": 12.5, "tokens_per_s": 1000, "bubble_fraction": 0.1}
        self.assertEqual(figures.span(row, "step_time_s"), (8, 12.5))
        self.assertEqual(figures.span(row, "tokens_per_s"), (800, 1250))
        self.assertIsNone(figures.span(row, "bubble_fraction"))
        self.assertIsNone(figures.span({"step_time_s": 10}, "step_time_s"))

    def test_figures_of_no_study_are_refused_in_one_line(self):
        done = plot("figures.py", self.path("."), "--out", self.path("figures"))
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_another_file_is_refused_in_one_line(self):
        for script in ("plot_timeline.py", "plot_memory.py"):
            done = plot(script, self.plan, "-o", self.path("x.png"))
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


if __name__ == "__main__":
    tandem.main()
