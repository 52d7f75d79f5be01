#!/usr/bin/env python3
"""The reference pages are what the program says, and its JSON outputs have the keys that they name."""
import json
import re
import subprocess
import sys

import tandem
from tandem import PROGRAM, SMALL, SOURCE, TEXT, WithFolder, changed, run, tandem_json

REFERENCE = SOURCE / "docs" / "reference"
FIELD = re.compile(r"`((?:model|parallel|training|cluster|stack)\.[a-z_.0-9]+)`")
ON_H100 = {"model": {"preset": "llama3-8b", "num_layers": 4}, "cluster": {"preset": "dgx-h100", "devices": 8}, "parallel": {"data": 8},
           "training": {"seq_length": 4096, "micro_batch_size": 1, "global_batch_size": 8}}


def keys(value, path=""):
    """Every key of an output as the page writes it: a.b, a[].b."""
    if isinstance(value, list):
        for item in value:
            yield path + "[]"
            yield from keys(item, path + "[]")
    elif isinstance(value, dict):
        for name, inner in value.items():
            below = f"{path}.{name}" if path else name
            yield below
            yield from keys(inner, below)


def pattern(named):
    """The key itself and, behind a.*, whatever is below a."""
    if named.endswith(".*"):
        return re.compile(re.escape(named[:-2]) + r"\..*")
    return re.compile(re.escape(named))


def patterns(table):
    return {one: pattern(one) for cell in table for one in cell.split(", ")}


def parents(named):
    """Keys that need no row, because a row has a key below them: a and a[] of a[].b."""
    parts = re.sub(r"\.?\*$", "", named).split(".")
    for i in range(1, len(parts) + 1):
        part = ".".join(parts[:i])
        yield from (part, part.removesuffix("[]"))


class Pages(WithFolder):
    def test_the_pages_are_what_the_script_writes(self):
        done = subprocess.run([sys.executable, str(SOURCE / "docs" / "reference.py"), PROGRAM, "--check"],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_fields_of_other_frameworks_are_fields_of_plans(self):
        known = json.loads((REFERENCE / "fields.json").read_text(encoding="utf-8"))
        named = set(FIELD.findall((SOURCE / "docs" / "coming-from.md").read_text(encoding="utf-8")))
        self.assertGreater(len(named), 30)
        self.assertEqual({n for n in named if n not in known and not any(k.startswith(n + ".") for k in known)}, set())


class JsonKeys(WithFolder):
    def check(self, name, *outputs):
        """Every key of the outputs is on the page, and every key of the page's first table is in one of them."""
        command = json.loads((REFERENCE / "keys.json").read_text(encoding="utf-8"))[name]
        always, sometimes = patterns(command["keys"]), patterns(command.get("sometimes", {}))
        printed = {key for output in outputs for key in keys(output)} - {"schema_version"}
        above = {parent for named in [*always, *sometimes] for parent in parents(named)}
        everything = [*always.values(), *sometimes.values()]
        self.assertEqual({k for k in printed if k not in above and not any(p.fullmatch(k) for p in everything)}, set())
        self.assertEqual({n for n, p in always.items() if not any(p.fullmatch(k) for k in printed)}, set())

    def timelines(self):
        plan = self.folder.plan(SMALL)
        simulated, executed = self.path("simulated.json"), self.path("executed.json")
        self.assertEqual(run("simulate", plan, "--timeline", simulated)[0], 0)
        self.assertEqual(run("train", plan, "--data", TEXT, "--timeline", executed)[0], 0)
        return simulated, executed

    def test_of_a_simulation(self):
        jitter = ["--perturb", '{"jitter": {"relative": 0.02, "seeds": 2}}']
        self.check("simulate", tandem_json("simulate", self.folder.plan(ON_H100)), tandem_json("simulate", self.folder.plan(SMALL), *jitter))

    def test_of_a_training(self):
        plan = self.folder.plan(changed(SMALL, **{"parallel.data": 1, "cluster.devices": 4}))
        saved = self.folder.path / "saved"
        self.check("train", tandem_json("train", plan, "--data", TEXT, "--steps", 2, "--eval-every", 1, "--save", saved))
        part = self.folder.file("part.txt", TEXT.read_bytes()[:2000])
        self.check("evaluate", tandem_json("evaluate", plan, "--data", part, "--checkpoint", saved))

    def test_of_a_comparison(self):
        simulated, executed = self.timelines()
        self.check("compare", tandem_json("compare", simulated, executed))

    def test_of_comparisons_with_traces(self):
        simulated = self.timelines()[0]
        trace = SOURCE / "tests" / "fixtures" / "kineto_trace.json"
        self.check("compare SIM TRACE", tandem_json("compare", simulated, trace))
        self.check("compare TRACE TRACE", tandem_json("compare", trace, trace))

    def test_of_an_explanation(self):
        plan = self.folder.plan({**ON_H100, "stack": {"name": "megatron-core", "as_of": "2099-01"}})
        derived = self.folder.plan(changed(SMALL, **{"parallel.data": None}), "derived.json")
        self.check("explain", tandem_json("explain", plan), tandem_json("explain", derived))
        self.check("explain KEY", tandem_json("explain", plan, "mfu"), tandem_json("explain", plan, "step_time_s"))

    def test_of_an_import(self):
        file = self.folder.file("config.json", json.dumps({"model_type": "qwen3", "use_cache": True, "shiny": 1, "text_config": None}))
        pictures = self.folder.file("pictures.json", json.dumps({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}}))
        self.check("import", *[tandem_json("import", one, "--approximate") for one in (file, pictures)])

    def test_of_a_sweep_and_a_report(self):
        study = {"base": SMALL, "axes": [{"field": "training.global_batch_size", "values": [8, 16]}]}
        point = {"name": "a run", "at": {"training.global_batch_size": 8}, "step_time_s": 1, "source": "made up"}
        file = self.folder.file("study.json", json.dumps({**study, "points": [point]}))
        self.check("sweep", tandem_json("sweep", file, "--out", self.path("out")))
        self.check("report", tandem_json("report", self.path("out")))

    def test_of_a_whole_training(self):
        plan = self.folder.plan({**ON_H100, "parallel": {}, "training": {**ON_H100["training"], "global_batch_size": 64}})
        self.check("plan", tandem_json("plan", plan, "--tokens", "1e12", "--days", 90, "--grid", "us", "--tornado", "--what-if", "price=2",
                                       "--devices", "8,16", "--set", "parallel.tensor=1,3"))

    def test_of_a_validation(self):
        line = {"id": "r", "plan": ON_H100, "measured": {"step_time_s": 1}}
        file = self.folder.file("one.jsonl", json.dumps({**line, "assumed": ["model.num_layers"]}) + "\n" + json.dumps({**line, "id": "s"}))
        self.check("validate", tandem_json("validate", file, "--pool", "one"))

    def test_a_key_that_no_page_has_is_found(self):
        with self.assertRaises(AssertionError):
            self.check("report", {"page": "x", "other": 1})
        with self.assertRaises(AssertionError):
            self.check("report", {})


if __name__ == "__main__":
    tandem.main()
