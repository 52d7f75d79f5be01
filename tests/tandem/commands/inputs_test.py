#!/usr/bin/env python3
"""What a command reads is never written over, whatever names it, nor is what another program wrote; files are read once, and looked at
before they are read whole; texts of files cannot steer a terminal."""
import json
import os
import pathlib
import resource
import subprocess
import time
import unittest

import tandem
from tandem import NOTHING_MEASURED, PROGRAM, SMALL, SOURCE, TEXT, WithFolder, changed, run, tandem_json

STEERING = "\u001b]0;x\u0007\u001b[2J\u009b31m"
SEEDS = {"name": "s", "base": SMALL, "axes": [{"field": "training.seed", "values": [1, 2, 3]}]}


class Inputs(WithFolder):
    """Every kind of input against every option that names an output, by its own name, a symbolic and a hard link."""

    def setUp(self):
        super().setUp()
        presets = SOURCE / "topology/presets"
        cluster = json.loads((presets / "cpu-host.json").read_text(encoding="utf-8"))
        own = self.folder.path / "presets"
        (own / "models/presets").mkdir(parents=True)
        self.model = own / "models/presets/mine.json"
        self.model.write_bytes((SOURCE / "models/presets/gpt2-124m.json").read_bytes())
        self.environment = {"TANDEM_PRESETS": str(own)}
        self.folder.file("device.json", (presets / "devices/cpu-core.json").read_bytes())
        self.cluster = self.folder.file("cluster.json", json.dumps(cluster | {"device": "device.json"}))
        self.plan = self.folder.plan(changed(SMALL, **{"cluster.preset": self.cluster}))
        self.small = changed(SMALL, **{"model": {"preset": "mine", "num_layers": 2}, "training.precision": "fp32"})

    def names(self, file):
        """The file's own name and two links, in another folder."""
        there = self.folder.path / f"links{time.monotonic_ns()}"
        there.mkdir()
        (there / "soft").symlink_to(file)
        os.link(file, there / "hard")
        return [str(file), str(there / "soft"), str(there / "hard")]

    def kept(self, command, option, file):
        file = pathlib.Path(file)
        before = file.read_bytes()
        for name in self.names(file):
            code, out, err = run(*command, option, name, environment=self.environment)
            self.assertEqual((code, out), (3, ""), (command, option, name, err))
            self.assertRegex(err, "would be written over|two outputs")
            self.assertIn(name, err)
            if name != str(file):
                self.assertIn("is the same file as ", err)
            self.assertEqual(file.read_bytes(), before)

    def test_simulate_and_report_keep_plan_cluster_and_its_parts(self):
        for file in (self.plan, self.cluster, self.path("device.json")):
            for option in ("--timeline", "--trace", "--memory"):
                self.kept(("simulate", self.plan), option, file)
            self.kept(("report", self.plan), "--out", file)

    def test_a_preset_of_the_users_own_is_kept(self):
        plan = self.folder.plan(self.small, "small.json")
        self.kept(("simulate", plan), "--memory", self.model)
        self.kept(("report", plan), "--out", self.model)

    def test_train_keeps_plan_cluster_text_and_the_checkpoint_that_it_goes_on_from(self):
        text, other, saved = self.folder.file("text.txt", TEXT.read_bytes()[:20_000]), self.folder.file("other.txt", "b" * 5000), self.path("a.safetensors")
        train = ("train", self.plan, "--data", text, "--steps")
        self.assertEqual(run(*train, 1, "--save", saved)[0], 0)
        more = (*train, 2, "--resume", saved, "--eval-every", 1, "--eval-data", other)
        for file in (self.plan, self.cluster, text, other, saved):
            for option in ("--timeline", "--trace", *(["--save"] if file != saved else [])):
                self.kept(more, option, file)
        before = pathlib.Path(saved).read_bytes()
        self.assertEqual(run(*more, "--save", saved)[0], 0)  # the one that may take the place of what it came from
        self.assertNotEqual(pathlib.Path(saved).read_bytes(), before)

    def test_perturbation_cost_table_and_routing_are_kept(self):
        perturb = self.folder.file("perturb.json", '{"jitter": {"relative": 0.1, "seeds": 2}}')
        self.kept(("simulate", self.plan, "--perturb", perturb), "--memory", perturb)
        timeline = self.path("timeline.json")
        self.assertEqual(run("simulate", self.plan, "--timeline", timeline)[0], 0)
        self.kept(("report", timeline), "--out", timeline)
        self.kept(("compare", timeline, timeline), "--html", timeline)

    def test_import_keeps_what_it_imports(self):
        config = self.folder.file("config.json", json.dumps({
            "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 8, "num_hidden_layers": 4, "vocab_size": 1000,
            "hidden_act": "silu", "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False}))
        self.kept(("import", config), "--out", config)
        self.kept(("import", str(self.folder.path), "--json"), "--out", config)

    def test_validate_keeps_measurements_and_their_clusters(self):
        record = {"id": "a", "plan": json.loads(pathlib.Path(self.plan).read_text()), "measured": {"step_time_s": 1}}
        records = self.folder.file("records.jsonl", json.dumps(record) + "\n")
        for option in ("--html", "--csv", "--write-errors"):
            self.kept(("validate", records), option, records)
            self.kept(("validate", records), option, self.cluster)
        early = self.folder.path / "early.html"
        self.kept(("validate", records, "--html", str(early)), "--csv", self.cluster)
        self.assertFalse(early.exists(), "an output was written before another was refused")

    def test_an_open_file_of_the_process_is_an_input_too(self):
        before = pathlib.Path(self.plan).read_bytes()
        with open(self.plan, "r+b") as file:
            done = subprocess.run([PROGRAM, "simulate", self.plan, "--timeline", f"/dev/fd/{file.fileno()}"], pass_fds=[file.fileno()],
                                  capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(pathlib.Path(self.plan).read_bytes(), before)


class Folders(WithFolder):
    """What `sweep` and `report` write without being told its name."""

    def setUp(self):
        super().setUp()
        self.study = self.folder.file("study.json", json.dumps(SEEDS))
        self.out = self.folder.path / "out"

    def refused(self, *arguments, said):
        before = {p: p.read_bytes() for p in self.folder.path.rglob("*") if p.is_file()}
        code, out, err = run(*arguments)
        self.assertEqual((code, out), (3, ""), err)
        for word in said:
            self.assertIn(word, err)
        self.assertEqual({p: p.read_bytes() for p in self.folder.path.rglob("*") if p.is_file()}, before)

    def seeds(self, name="results.jsonl"):
        return [json.loads(line)["at"]["training.seed"] for line in (self.out / name).read_text().splitlines()]

    def test_a_study_is_kept_where_its_results_go(self):
        self.refused("sweep", self.study, "--out", self.folder.path, said=[self.path("study.json"), "would be written over"])
        links = self.folder.path / "links"
        links.mkdir()
        os.link(self.study, links / "study.json")
        self.refused("sweep", self.study, "--out", links, said=[str(links / "study.json"), self.study, "would be written over"])

    def test_a_base_plan_is_kept_where_results_go(self):
        (self.folder.path / "d").mkdir()
        self.folder.plan(SMALL, "d/results.csv")
        study = self.folder.file("other.json", json.dumps(SEEDS | {"base": "d/results.csv"}))
        self.refused("sweep", study, "--out", self.path("d"), said=[self.path("d/results.csv"), "would be written over"])

    def test_files_of_other_tools_are_kept(self):
        for name, text in (("results.jsonl", "rows of another tool\n"), ("results.jsonl", '{"loss": 3}\n{"loss": 2}\n'), ("results.csv", "a,b\n"),
                           ("study.json", "{}"), ("results.jsonl", "\n")):
            with self.subTest(file=name, text=text):
                place = self.folder.path / f"p{time.monotonic_ns()}"
                place.mkdir()
                (place / name).write_text(text)
                for more in ((), ("--fresh",)):
                    self.refused("sweep", self.study, "--out", place, *more, said=[str(place / name), "would be written over", "--out"])

    def test_rows_of_points_that_a_study_has_no_more_are_kept(self):
        tandem_json("sweep", self.study, "--out", self.out)
        whole = (self.out / "results.jsonl").read_bytes()
        fewer = self.folder.file("fewer.json", json.dumps(SEEDS | {"axes": [{"field": "training.seed", "values": [3]}]}))
        result = tandem_json("sweep", fewer, "--out", self.out)
        self.assertEqual((result["points"], result["computed"], result["kept"]), (1, 0, 1))
        self.assertEqual(self.seeds(), [3, 1, 2])
        self.assertEqual(len((self.out / "results.csv").read_text().splitlines()), 2)
        page = self.folder.path / "page.html"
        self.assertEqual(run("report", self.out, "--out", page)[0], 0)
        rows = json.loads(page.read_text().split('id="data">')[1].split("</script>")[0])["rows"]
        self.assertEqual([r["at"]["training.seed"] for r in rows], [3])
        self.assertEqual(tandem_json("sweep", fewer, "--out", self.out, "--fresh")["computed"], 1)
        result = tandem_json("sweep", self.study, "--out", self.out)
        self.assertEqual((result["computed"], result["kept"]), (0, 3))
        self.assertEqual((self.out / "results.jsonl").read_bytes(), whole)

    def test_a_page_without_a_name_replaces_only_a_page(self):
        plan = self.folder.plan(SMALL)
        page = self.folder.path / "plan.html"
        here = lambda: subprocess.run([os.path.abspath(PROGRAM), "report", plan], cwd=self.folder.path, capture_output=True, text=True, timeout=300,
                                      env=dict(os.environ, TANDEM_MEASURED=NOTHING_MEASURED), check=False)
        page.write_text("<html>mine</html>")
        done = here()
        self.assertEqual((done.returncode, done.stdout, page.read_text()), (3, "", "<html>mine</html>"))
        self.assertIn("plan.html: exists and is no page of Tandem", done.stderr)
        page.unlink()
        self.assertEqual([here().returncode for _ in range(2)], [0, 0])


class Pipes(WithFolder):
    def test_a_report_of_a_pipe_is_that_of_the_file(self):
        plan, timeline = self.folder.plan(SMALL), self.path("timeline.json")
        self.assertEqual(run("simulate", plan, "--timeline", timeline)[0], 0)
        for file in (plan, timeline):
            pages = []
            for name, piped in ((file, None), ("/dev/stdin", pathlib.Path(file).read_bytes())):
                page = self.folder.path / f"page{len(pages)}.html"
                done = subprocess.run([PROGRAM, "report", name, "--out", page], input=piped, capture_output=True, timeout=300, check=False,
                                      env=dict(os.environ, TANDEM_MEASURED=NOTHING_MEASURED))
                self.assertEqual(done.returncode, 0, done.stderr)
                pages.append(page.read_text().replace(name, ""))
            self.assertEqual(pages[0].count("\n"), pages[1].count("\n"))
            self.assertEqual(len(pages[0]), len(pages[1]))


class Large(WithFolder):
    """Under a limit of memory, so that reading all of it would be seen."""

    def refused(self, *arguments, said):
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
        done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, preexec_fn=limit, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (3, ""), (arguments, done.stderr))
        self.assertIn(said, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def setUp(self):
        super().setUp()
        self.plan = self.folder.plan(SMALL)
        self.hole = self.folder.path / "hole"
        self.hole.touch()
        os.truncate(self.hole, 40 << 30)

    @unittest.skipUnless(tandem.plain_program(), "a sanitizer needs more addresses than this limit leaves")
    def test_what_is_no_checkpoint_is_told_by_its_first_bytes(self):
        train = ("train", self.plan, "--data", TEXT, "--steps", 2)
        saved = self.path("a.safetensors")
        self.assertEqual(run("train", self.plan, "--data", TEXT, "--steps", 1, "--save", saved)[0], 0)
        for file in ("/dev/zero", self.hole, TEXT):
            self.refused(*train, "--resume", file, said="is not a checkpoint")
        os.truncate(saved, 40 << 30)
        self.refused(*train, "--resume", saved, said="is longer than its header says")

    @unittest.skipUnless(tandem.plain_program(), "a sanitizer needs more addresses than this limit leaves")
    def test_files_that_no_memory_holds_are_refused_unread(self):
        self.refused("train", self.plan, "--data", self.hole, "--steps", 1, said="of this host's memory")
        self.refused("train", self.plan, "--data", TEXT, "--steps", 1, "--eval-every", 1, "--eval-data", self.hole, said="of this host's memory")
        for command in (("simulate",), ("explain",), ("report", "--out", self.path("page.html")), ("sweep", "--out", self.path("out"))):
            self.refused(*command, self.hole, said="hole")
            self.refused(*command, "/dev/zero", said="/dev/zero")


class Terminals(WithFolder):
    def quiet(self, text):
        self.assertFalse([c for c in text if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160)], repr(text[:2000]))

    def test_names_from_files_cannot_steer_a_terminal(self):
        plan = self.folder.plan(SMALL | {"name": "a" + STEERING})
        for arguments in (("simulate", plan), ("explain", plan), ("train", plan, "--data", TEXT, "--steps", 1)):
            code, out, err = run(*arguments)
            self.assertEqual(code, 0, err)
            self.quiet(out + err)
        self.assertIn("a\\x1b]0;x\\x07\\x1b[2J\\x9b31m", run("simulate", plan)[1])
        self.assertEqual(tandem_json("simulate", plan)["plan"]["name"], "a" + STEERING)
        axis = {"name": "x" + STEERING, "values": [{"label": "y" + STEERING, "set": {"training.seed": s}} for s in (1,)]}
        study = self.folder.file("study.json", json.dumps({"name": "s" + STEERING, "base": SMALL, "axes": [axis]}))
        code, out, err = run("sweep", study, "--out", self.path("out"))
        self.assertEqual(code, 0, err)
        self.quiet(out + err)
        self.quiet((self.folder.path / "out/results.csv").read_text().replace("\r", ""))
        self.assertEqual(list(tandem_json("sweep", study, "--out", self.path("out"))["best"]["at"]), ["x" + STEERING])

    def test_names_of_files_and_arguments_cannot_either(self):
        plan = self.folder.plan(SMALL)
        for arguments in (("simulate", self.path("none" + STEERING)), ("simulate", plan, STEERING), (STEERING,), ("train", plan, "--data", STEERING),
                          ("report", plan, "--out", self.path("page" + STEERING))):
            _, out, err = run(*arguments)
            self.quiet(out + err)

    def test_no_value_is_echoed_at_any_length(self):
        long = "k" * 100_000
        for study in (SEEDS | {long: 1}, SEEDS | {"base": SMALL | {long: 1}}, SEEDS | {"name": long + "/"}, SEEDS | {"base": long},
                      SEEDS | {"axes": [{"field": long, "values": [1]}]}, SEEDS | {"axes": [{"name": long, "values": [{"label": long, "set": {long: 1}}]}]},
                      SEEDS | {"view": {"x": long}}, SEEDS | {"view": {"at": {long: 1}}}, SEEDS | {"points": [{"at": {}, "source": "a", long: 1}]}):
            code, out, err = run("sweep", self.folder.file("study.json", json.dumps(study)), "--out", self.path("out"))
            self.assertEqual((code, out), (3, ""), err[:500])
            self.assertLess(len(err), 10_000)
        self.assertLess(len(run("simulate", long)[2]), 10_000)
        self.assertLess(len(run(long)[2]), 10_000)


class Clusters(WithFolder):
    def test_train_refuses_the_clusters_that_simulate_refuses(self):
        broken = self.folder.file("broken.json", "{}")
        for preset in ("nowhere.json", broken, "no-such-cluster"):
            plan = self.folder.plan(changed(SMALL, **{"cluster.preset": preset}))
            told = [run(*command)[:2] + (run(*command)[2],) for command in (("simulate", plan), ("train", plan, "--data", TEXT, "--steps", 1))]
            self.assertEqual([code for code, _, _ in told], [3, 3], told)
            self.assertEqual(told[0][2], told[1][2])

    def test_every_command_names_the_presets_that_it_took_from_the_users_folder(self):
        own = self.folder.path / "presets/topology/presets/cpu-host.json"
        own.parent.mkdir(parents=True)
        own.write_bytes((SOURCE / "topology/presets/cpu-host.json").read_bytes())
        (own.parent / "unused.json").write_bytes(own.read_bytes())
        environment = {"TANDEM_PRESETS": self.path("presets")}
        plan, timeline = self.folder.plan(SMALL), self.path("timeline.json")
        study = self.folder.file("study.json", json.dumps(SEEDS))
        record = self.folder.file("records.jsonl", json.dumps({"id": "a", "plan": SMALL, "measured": {"step_time_s": 1}}) + "\n")
        told = f"tandem: taken from TANDEM_PRESETS={self.path('presets')}: topology/presets/cpu-host.json\n"
        for arguments in (("simulate", plan, "--timeline", timeline), ("train", plan, "--data", TEXT, "--steps", 1), ("explain", plan),
                          ("explain", plan, "step_time_s"), ("report", plan, "--out", self.path("page.html")), ("sweep", study, "--out", self.path("out")),
                          ("validate", record), ("compare", timeline, timeline, "--html", self.path("both.html"))):
            code, _, err = run(*arguments, environment=environment)
            self.assertEqual(code, 0, err)
            self.assertEqual(err.count("TANDEM_PRESETS="), 1, (arguments, err))
            self.assertIn(told, err)
        self.assertNotIn("TANDEM_PRESETS", run("schema", environment=environment)[2])


if __name__ == "__main__":
    tandem.main()
