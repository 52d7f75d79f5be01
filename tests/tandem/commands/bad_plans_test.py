#!/usr/bin/env python3
"""Plans that cannot be: each gets one clear line per problem that names file and field, and its documented exit code."""
import json

import tandem
from tandem import SMALL, WithFolder, changed, run

INPUT, INFEASIBLE = 3, 4


def text(plan=None, **changes):
    return json.dumps(changed(plan or SMALL, **changes))


GPU = {"preset": "dgx-a100-80gb", "devices": 8}
# (what is wrong, content of the file, exit code, words that the message must have)
BAD = [
    ("empty file", "", INPUT, []),
    ("no JSON", "{", INPUT, []),
    ("a trailing comma", '{"model": {},}', INPUT, []),
    ("not an object", "[]", INPUT, []),
    ("not UTF-8", b'{"name": "\xff\xfe"}', INPUT, []),
    ("a comment", "// plan\n" + text(), INPUT, []),
    ("text behind the value", text() + "x", INPUT, []),
    ("a duplicate key", '{"model": {}, "model": {}}', INPUT, ["model"]),
    ("nested a thousand deep", "[" * 1000 + "]" * 1000, INPUT, []),
    ("a number too large for anything", text().replace('"num_layers": 2', '"num_layers": 1e999'), INPUT, []),
    ("an unknown key, with the nearest", text(**{"parallel.tensr": 2}), INPUT, ["parallel.tensr", "tensor"]),
    ("an unknown part", text(**{"modle": {}}), INPUT, ["modle", "model"]),
    ("a missing part", text(cluster=None), INPUT, ["cluster"]),
    ("a missing size", text(**{"model.num_layers": None}), INPUT, ["model.num_layers"]),
    ("a word for a number", text(**{"model.num_layers": "two"}), INPUT, ["model.num_layers"]),
    ("a fraction of a layer", text(**{"model.num_layers": 2.5}), INPUT, ["model.num_layers"]),
    ("no layers", text(**{"model.num_layers": 0}), INPUT, ["model.num_layers"]),
    ("a negative degree", text(**{"parallel.data": -2}), INPUT, ["parallel.data"]),
    ("a number beyond 64 bits", text().replace('"hidden_size": 24', '"hidden_size": 99999999999999999999'), INPUT,
     ["model.hidden_size"]),
    ("an unknown word", text(**{"model.activation": "gleu"}), INPUT, ["model.activation", "gelu"]),
    ("an unknown unit", text(**{"parallel.bucket_bytes": "20 parsecs"}), INPUT, ["parallel.bucket_bytes"]),
    ("dropout above one", text(**{"training.dropout": {"hidden": 1.5}}), INPUT, ["training.dropout.hidden"]),
    ("an unknown precision", text(**{"training.precision": "fp17"}), INPUT, ["training.precision"]),
    ("a zero stage that does not exist", text(**{"parallel.zero_stage": 7}), INPUT, ["parallel.zero_stage"]),
    ("a type that this machine was not measured in", text(**{"training.precision": "fp16"}), INFEASIBLE, ["tandem measure --precision fp32,fp16 -o"]),
    ("an unknown model preset", text(model={"preset": "gpt-3"}), INPUT, ["model.preset"]),
    ("an unknown cluster preset", text(**{"cluster.preset": "dgx-a100-80g"}), INPUT, ["cluster.preset", "dgx-a100-80gb"]),
    ("a cluster preset without its end", text(**{"cluster.preset": "dgx-a100"}), INPUT, ['did you mean "dgx-a100-80gb"?']),
    ("an unknown stack", text(stack="megatron-deepsped"), INPUT, ["stack", "megatron-deepspeed"]),
    ("ranks that are not the devices", text(**{"cluster.devices": 9}), INFEASIBLE, ["9"]),
    ("data ranks left out that do not follow", text(**{"parallel.tensor": 4, "parallel.data": None, "cluster.devices": 12}),
     INFEASIBLE, ["cluster.devices = 12", "tensor x pipeline x context = 4 x 2 x 1 = 8 does not divide", "parallel.data, left out", "use 8 or 16"]),
    ("heads that do not divide", text(**{"parallel.tensor": 3, "cluster.devices": 12}), INFEASIBLE, ["num_attention_heads"]),
    ("a batch that does not divide", text(**{"training.global_batch_size": 7}), INFEASIBLE, ["training.global_batch_size"]),
    ("more stages than layers", text(**{"parallel.pipeline": 4, "cluster.devices": 16}), INFEASIBLE, ["parallel.pipeline"]),
    ("a split that does not add up", text(**{"parallel.pipeline_split": [1, 2]}), INFEASIBLE, ["parallel.pipeline_split"]),
    ("hidden size that is no multiple of the heads", text(**{"model.hidden_size": 25}), INFEASIBLE, ["hidden_size"]),
    ("what this version cannot do", text(**{"parallel.offload": {"parameters": True}}), INFEASIBLE,
     ["not implemented", "parallel.offload.parameters"]),
    ("what this version cannot do, twice",
     text(**{"parallel.offload": {"parameters": True}, "model.position_embedding": "relative"}),
     INFEASIBLE, ["parallel.offload.parameters", "model.position_embedding"]),
    ("what the named framework cannot do", text(stack="neuron-megatron", cluster={"preset": "trn1.32xlarge", "devices": 8}),
     INFEASIBLE, ["stack", "parallel.pipeline"]),
    ("too large for memory", text(**{"model.num_layers": 96, "model.hidden_size": 12288, "model.num_attention_heads": 96,
                                     "model.ffn_hidden_size": 49152, "training.precision": "bf16",
                                     "training.seq_length": 2048, "cluster": GPU}), INFEASIBLE, ["does not fit"]),
]


class BadPlans(WithFolder):
    def test_the_good_plan_is_good(self):
        code, _, err = run("simulate", self.folder.plan(SMALL))
        self.assertEqual((code, err), (0, ""))

    def test_there_are_at_least_thirty(self):
        self.assertGreaterEqual(len(BAD), 30)

    def test_each_gets_its_message_and_code(self):
        for number, (what, content, code, words) in enumerate(BAD):
            with self.subTest(what):
                path = self.folder.file(f"bad{number}.json", content)
                got, _, err = run("simulate", path)
                self.assertEqual(got, code, err)
                self.assertTrue(all(line.startswith("tandem: error: ") for line in err.splitlines()), err)
                self.assertIn(path, err)
                for word in words:
                    self.assertIn(word, err)

    def test_all_problems_are_told_at_once(self):
        path = self.folder.file("many.json", text(**{"model.num_layers": 0, "parallel.tensr": 2, "training.precision": "x"}))
        code, _, err = run("simulate", path)
        self.assertEqual((code, len(err.splitlines())), (INPUT, 3), err)

    def test_a_cluster_file_that_is_missing_is_named_with_its_plan(self):
        plan = self.folder.plan(changed(SMALL, **{"cluster.preset": "mine/cluster.json"}))
        code, _, err = run("simulate", plan)
        self.assertEqual(code, INPUT)
        self.assertRegex(err, rf'\Atandem: error: {plan}: cluster.preset = "mine/cluster.json": .+\n\Z')

    def test_a_missing_file_and_a_folder_are_unreadable_input(self):
        for path in (str(self.folder.path / "none.json"), str(self.folder.path)):
            code, _, err = run("simulate", path)
            self.assertEqual(code, INPUT)
            self.assertIn(path, err)


if __name__ == "__main__":
    tandem.main()
