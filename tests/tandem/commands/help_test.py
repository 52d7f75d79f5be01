#!/usr/bin/env python3
"""What --help tells a newcomer: kinds of values, examples that work, and older names that go on working."""
import json
import os
import pathlib
import re
import subprocess

import tandem
from tandem import PROGRAM, SOURCE, WithFolder, changed, run, tandem_json

SEARCHED = {"stack": "megatron-core", "model": {"preset": "llama3-8b", "num_layers": 2}, "parallel": {"data": "auto"},
            "training": {"seq_length": 4096, "micro_batch_size": 1, "global_batch_size": 16}, "cluster": {"preset": "dgx-h100", "devices": 8}}
ONE = ("--axis", "tensor=1", "--axis", "pipeline=1", "--axis", "micro_batch_size=1", "--axis", "zero=1", "--axis", "recompute=none")
QWEN3 = {"model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "head_dim": 16, "intermediate_size": 128, "vocab_size": 420, "max_position_embeddings": 128}
OLDER = {"stack": "torchtitan", "model": {"preset": "llama3-8b", "num_layers": 2},
         "parallel": {"zero_stage": 3, "data": 8, "unit_copies": "per_parameter", "scatter_p2p": True},
         "training": {"seq_length": 4096, "micro_batch_size": 1, "global_batch_size": 8, "recompute": "selective",
                      "recompute_modules": ["operations"], "recompute_products": True},
         "cluster": {"preset": "dgx-h100", "devices": 8}}
LONG = ("measure", "calibrate", "validate")  # a minute or more: other tests run these commands


def commands():
    """Names of all commands, from --help."""
    text = run("--help")[1]
    return re.findall(r"^  ([a-z]+) {2,}", text[text.index("--version"):text.index("exit codes")], re.MULTILINE)


def example(name):
    """The call that ends a command's help."""
    return re.search(r"^example:\n  (tandem .*)$", run(name, "--help")[1], re.MULTILINE).group(1)


class Help(WithFolder):
    def test_every_option_says_what_kind_of_value_it_takes(self):
        self.assertGreater(len(commands()), 12)
        for name in commands():
            left = [line[:30] for line in run(name, "--help")[1].split("\n") if line.startswith("  -")]
            for vague in ("TEXT", ":FLOAT", "NONNEGATIVE", "REQUIRED"):
                self.assertEqual([line for line in left if vague in line], [], name)

    def test_lines_have_at_most_100_columns_except_examples(self):
        for name in ("", *commands()):
            lines = run(*filter(None, [name]), "--help")[1].split("\n")
            self.assertEqual([line for line in lines if len(line) > 100 and not line.startswith("  tandem ")], [], name)

    def test_groups_of_options_have_plain_names(self):
        for name in commands():
            for word in re.findall(r"^(\w+):$", run(name, "--help")[1], re.MULTILINE):
                self.assertRegex(word, r"^[A-Za-z][a-z]*$", name)

    def test_exit_codes_are_told_once(self):
        for name in commands():
            told = run(name, "--help")[1]
            self.assertTrue(told.endswith("exit codes: see tandem --help\n"), name)
            self.assertEqual(told.count("exit codes"), 1)


class Examples(WithFolder):
    """Examples run in this order in a folder with the sources' experiments; each must succeed."""

    def prepare(self):
        (self.folder.path / "experiments").symlink_to((SOURCE / "experiments").resolve())
        (self.folder.path / "bin").mkdir()
        (self.folder.path / "bin" / "tandem").symlink_to(pathlib.Path(PROGRAM).resolve())
        (self.folder.path / "Qwen3-0.6B").mkdir()
        self.folder.file("Qwen3-0.6B/config.json", json.dumps(QWEN3))
        tokenizer = SOURCE / "tests" / "fixtures" / "tokenizers" / "gpt2.json"
        self.folder.file("Qwen3-0.6B/tokenizer.json", tokenizer.read_bytes())
        self.folder.file("text.txt", "In the beginning was the Word.")
        self.shell("tandem simulate experiments/plans/demo.json --timeline simulated.json")

    def shell(self, line):
        path = f"{self.folder.path / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(["bash", "-c", line], cwd=self.folder.path, env={**os.environ, "PATH": path, "TANDEM_MEASURED": self.path("none")},
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}{done.stderr}")

    def test_every_example_works(self):
        self.prepare()
        self.assertEqual(set(LONG) - set(commands()), set())
        lines = {name: example(name) for name in commands()}
        for name, line in lines.items():
            self.assertTrue(line.startswith(f"tandem {name} "), line)
            if name not in LONG:
                self.shell(line)
        for file in ("sweep/results.csv", "gpt3.html", "text.bin", "my-model/model.safetensors", "compare.html", "plan.json", "plan-schema.json"):
            self.assertTrue((self.folder.path / file).stat().st_size > 0, file)

    def test_long_examples_name_options_and_inputs_that_there_are(self):
        for name in LONG:
            words, told = example(name).split()[2:], run(name, "--help")[1]
            self.assertEqual([w for w in words if w.startswith("-") and f" {w} " not in told], [], name)
            self.assertEqual([w for w in words if w.startswith("experiments/") and not (SOURCE / w).exists()], [], name)


class OlderNames(WithFolder):
    def test_files_are_written_under_older_names_too_and_help_has_the_new_ones(self):
        plan, other = self.folder.plan(SEARCHED), self.path("other.json")
        for name in ("--out", "--export"):
            self.assertEqual(run("search", plan, *ONE, name, other)[0], 0)
            self.assertIn("model", json.loads((self.folder.path / "other.json").read_text()))
            os.remove(other)
        for name in ("--out", "--export"):
            self.assertEqual(run("plan", plan, "--tokens", "1e9", "--search", *ONE, name, other)[0], 0)
            os.remove(other)
        page = self.path("page.html")
        for name in ("--html", "--page"):
            self.assertEqual(run("search", plan, *ONE, "--pareto", name, page)[0], 0)
            os.remove(page)
        for command, old in (("search", "--page"), ("search", "--export"), ("plan", "--export"), ("measure", "--output"), ("calibrate", "--output")):
            self.assertNotIn(old + " ", run(command, "--help")[1])

    def test_an_output_named_by_an_older_name_is_refused_like_one_of_the_new_name(self):
        no_folder = self.folder.file("file", "") + "/table.json"
        for command in (("measure", "--quick"), ("calibrate", "a100", self.folder.file("none.jsonl", ""))):
            told = {run(*command, name, no_folder) for name in ("-o", "--out", "--output")}
            self.assertEqual(len(told), 1)
            self.assertEqual({code for code, _, _ in told}, {3})

    def test_older_names_of_fields_are_explained_as_the_present_ones_and_come_from_the_plan(self):
        plan = self.folder.plan(OLDER)
        present = tandem_json("explain", plan, "plan.parallel.fsdp_copies")
        self.assertEqual((present["value"], present["filled"]), ("per_parameter", f"from {plan}"))
        older = tandem_json("explain", plan, "plan.parallel.unit_copies")
        self.assertEqual(older, {**present, "filled": f"parallel.unit_copies is an older name of it; from {plan}"})
        self.assertEqual(tandem_json("explain", plan, "plan.training.recompute_every_second_matmul")["filled"], f"from {plan}")

    def test_a_plan_with_older_names_is_varied_by_both_names_of_a_field(self):
        plan, asked = self.folder.plan(OLDER), ("--tokens", "1e9", "--failures", 0)
        def hours(*words, of=plan):
            return [c["device_hours"]["value"] for c in tandem_json("plan", of, *asked, *words)["options"]]
        one = []
        for on in (True, False):
            fields = {"training.recompute_products": None, "training.recompute_every_second_matmul": on}
            one += hours(of=self.folder.plan(changed(OLDER, **fields), "one.json"))
        self.assertNotEqual(one[0], one[1])
        for name in ("recompute_every_second_matmul", "recompute_products"):
            self.assertEqual(sorted(hours("--set", f"training.{name}=true,false")), sorted(one), name)
            change = tandem_json("plan", plan, *asked, "--what-if", f"training.{name}=false")["what_if"][0]
            self.assertAlmostEqual(8 * 24 * change["days"], one[1], places=6)
        both = ("--set", "training.recompute_products=true", "--set", "training.recompute_every_second_matmul=false")
        code, _, err = run("plan", plan, *asked, *both)
        self.assertEqual((code, "training.recompute_every_second_matmul" in err and "is given twice" in err), (3, True), err)


if __name__ == "__main__":
    tandem.main()
