#!/usr/bin/env python3
"""The installed program in a root of its own: the prefix, the shared libraries that it names, and nothing else. Neither the source
tree nor the build tree is there. TREE is the installed prefix, TANDEM the program of the build tree, whose predictions must be equal."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TREE, TANDEM = pathlib.Path(os.environ["TREE"]), os.environ["TANDEM"]
SOURCE = pathlib.Path(os.environ["TANDEM_SOURCE"])
SANITIZED = os.environ.get("SANITIZED", "") != ""  # sanitizers read /proc
PREFIX = "/tools/tandem"
DEVICE = "topology/presets/devices/h100-sxm5-80gb.json"
ENVIRONMENT = {"PATH": "/usr/bin", "HOME": "/home", "NO_COLOR": "1"}
TINY = {
    "name": "tiny",
    "model": {"family": "gpt", "num_layers": 2, "hidden_size": 24, "num_attention_heads": 4, "vocab_size": 256, "pad_vocab_to": 4},
    "parallel": {"tensor": 2, "data": 2},
    "training": {"seq_length": 16, "micro_batch_size": 1, "global_batch_size": 4, "precision": "fp32"},
    "cluster": {"preset": "cpu-host", "devices": 4},
}
LARGE = {
    "stack": "megatron-core",
    "model": {"preset": "llama3-8b"},
    "parallel": {"tensor": 2, "pipeline": 2, "data": 4, "sequence_parallel": True, "zero_stage": 1},
    "training": {"seq_length": 4096, "micro_batch_size": 1, "global_batch_size": 64, "flash_attention": True},
    "cluster": {"preset": "dgx-h100", "devices": 16},
}


def isolated(root, proc=True):
    """What a command has to begin with to see `root` as the whole file system."""
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *user, "--mount", "--pid", "--fork", f"--root={root}", *(["--mount-proc"] if proc else [])]


def why_not():
    """Why no root of its own can be made here; empty where it can."""
    if not shutil.which("unshare") or not shutil.which("ldd"):
        return "there is no unshare or no ldd"
    tried = subprocess.run([*isolated("/"), "true"], capture_output=True, check=False)
    return "" if tried.returncode == 0 else tried.stderr.decode().strip() or "unshare fails"


def libraries(program):
    """The files that the dynamic loader reads for a program, itself included."""
    told = subprocess.run(["ldd", program], capture_output=True, check=True).stdout.decode()
    return re.findall(r"(/\S+) \(0x", told)


def make_root(root):
    for folder in ("proc", "tmp", "out", "dev", "home", "data", "usr/bin"):
        (root / folder).mkdir(parents=True)
    shutil.copytree(TREE, root / PREFIX[1:], symlinks=True)
    for library in libraries(TREE / "bin" / "tandem"):
        place = root / library[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, place)  # what a link leads to, by the name that the program asks for
    (root / "usr/bin/tandem").symlink_to(f"../..{PREFIX}/bin/tandem")


class BareRoot(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tandem_root_")
        cls.addClassCleanup(folder.cleanup)
        cls.root = pathlib.Path(folder.name)
        make_root(cls.root)
        cls.put("tiny.json", TINY), cls.put("large.json", LARGE)
        cls.put("config.json", {"model_type": "llama"})
        cls.put("study.json", {"name": "s", "base": "tiny.json", "axes": [{"field": "training.seed", "values": [1, 2]}]})
        (cls.root / "data/text.txt").write_text("In the beginning was the word. " * 400)

    @classmethod
    def put(cls, name, content):
        (cls.root / "data" / name).write_text(json.dumps(content) + "\n")

    def run_there(self, *arguments, program=f"{PREFIX}/bin/tandem", proc=True, environment=None):
        done = subprocess.run([*isolated(self.root, proc), program, *arguments], capture_output=True, check=False, timeout=300,
                              env=ENVIRONMENT | (environment or {}), cwd="/")
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def works(self, *arguments, **how):
        code, out, err = self.run_there(*arguments, **how)
        self.assertEqual(code, 0, f"tandem {' '.join(arguments)}: {err}")
        return out

    def step_time(self, plan="/data/large.json", **how):
        return json.loads(self.works("simulate", plan, "--json", "--allow-oversize", **how))["step_time_s"]

    def expected(self):
        """The same prediction by the build tree's program, which reads the source tree's data."""
        done = subprocess.run([TANDEM, "simulate", self.root / "data/large.json", "--json", "--allow-oversize"], capture_output=True, check=True)
        return json.loads(done.stdout)["step_time_s"]

    def test_neither_tree_is_there(self):
        for tree in (SOURCE, pathlib.Path(TANDEM).parent):
            self.assertFalse((self.root / str(tree.resolve())[1:]).exists())

    def test_plans_are_predicted_as_the_build_tree_does(self):
        self.assertEqual(self.step_time(), self.expected())
        for output in ("trace", "timeline", "memory"):
            self.works("simulate", "/data/large.json", "--allow-oversize", f"--{output}", f"/out/{output}.json")
            self.assertGreater((self.root / f"out/{output}.json").stat().st_size, 1000)

    def test_the_program_finds_its_data_by_a_link_and_without_proc(self):
        self.assertEqual(self.step_time(program="/usr/bin/tandem"), self.expected())
        if not SANITIZED:
            for program in ("/usr/bin/tandem", f"{PREFIX}/bin/tandem"):
                self.assertEqual(self.step_time(program=program, proc=False), self.expected())

    def test_help_version_schema_explain_and_import(self):
        for arguments in (["--help"], ["--version"], ["schema"], ["explain", "/data/large.json"], ["explain", "/data/large.json", "step_time_s"],
                          ["import", "/data/config.json"]):
            self.assertTrue(self.works(*arguments))

    def test_training_is_saved_resumed_compared_and_drawn(self):
        train = ["train", "/data/tiny.json", "--data", "/data/text.txt", "--steps", "2"]
        self.works(*train, "--save", "/out/run.safetensors", "--timeline", "/out/run.json")
        self.works(*train[:-1], "4", "--resume", "/out/run.safetensors")
        self.works("simulate", "/data/tiny.json", "--timeline", "/out/simulated.json")
        self.assertTrue(self.works("compare", "/out/simulated.json", "/out/run.json", "--html", "/out/compare.html"))
        self.works("report", "/out/run.json", "--out", "/out/run.html")
        self.works("report", "/data/large.json", "--out", "/out/plan.html")
        for page in ("compare", "run", "plan"):
            self.assertIn("</html>", (self.root / f"out/{page}.html").read_text(encoding="utf-8"))

    def test_studies_are_swept_and_drawn(self):
        told = json.loads(self.works("sweep", "/data/study.json", "--out", "/out/study", "--json"))
        self.assertEqual(told["computed"], 2)
        self.works("report", "/out/study")
        self.assertTrue((self.root / "out/study/report.html").exists())

    def test_measurements_are_judged_and_fitted_to(self):
        self.put("runs.jsonl", {"id": "r", "plan": LARGE, "measured": {"step_time_s": 1.1 * self.expected()}})
        told = json.loads(self.works("validate", "/data/runs.jsonl", "--json", "--html", "/out/validation.html"))
        self.assertAlmostEqual(told["records"][0]["predicted_step_time_s"], self.expected())
        self.works("calibrate", "h100", "/data/runs.jsonl", "-o", "/out/h100.json")

    def test_the_machine_is_measured(self):
        self.works("measure", "--quick", "-o", "/out/host.json")
        self.works("simulate", "/data/tiny.json", "--cost-table", "/out/host.json")
        code, _, err = self.run_there("measure", "--device", "cuda", "-o", "/out/card.json")
        self.assertEqual(code, 4 if "this build has no CUDA" in err else 7, err)  # no driver is there

    def test_own_presets_come_before_those_beside_the_program(self):
        device = json.loads((SOURCE / DEVICE).read_text(encoding="utf-8"))
        device["memory_bytes_per_s"]["value"] /= 4
        own = self.root / "own" / DEVICE
        own.parent.mkdir(parents=True)
        own.write_text(json.dumps(device))
        self.assertGreater(self.step_time(environment={"TANDEM_PRESETS": "/own"}), self.expected())

    def test_a_prefix_that_was_moved_takes_its_data_along(self):
        shutil.copytree(TREE, self.root / "moved", symlinks=True)
        self.assertEqual(self.step_time(program="/moved/bin/tandem"), self.expected())
        shutil.rmtree(self.root / "moved/share")
        code, out, err = self.run_there("simulate", "/data/large.json", program="/moved/bin/tandem")
        self.assertEqual((code, out), (3, ""))
        self.assertIn("was not found (searched: /moved/share/tandem). Install Tandem's data, or set TANDEM_PRESETS.", err)
        place = {"TANDEM_PRESETS": f"{PREFIX}/share/tandem"}
        self.assertEqual(self.step_time(program="/moved/bin/tandem", environment=place), self.expected())


class BesideTheSources(unittest.TestCase):
    def test_an_installed_program_never_reads_the_source_tree(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder).resolve() / "bin" / "tandem"
            program.parent.mkdir()
            shutil.copy(TREE / "bin" / "tandem", program)
            plan = pathlib.Path(folder) / "plan.json"
            plan.write_text(json.dumps(LARGE))
            done = subprocess.run([program, "simulate", plan], capture_output=True, check=False)
            self.assertEqual(done.returncode, 3)
            self.assertIn(f"(searched: {program.parent.parent}/share/tandem)", done.stderr.decode())


if __name__ == "__main__":
    if reason := why_not():
        print(f"skipped: no root of its own can be made here: {reason}")
        sys.exit(77)
    unittest.main()
