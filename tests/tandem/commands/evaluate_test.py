#!/usr/bin/env python3
"""`evaluate`: the figures of an oracle under every layout and batch, and what it refuses."""
import json
import math
import sys

import tandem
from tandem import SMALL, SOURCE, TEXT, WithFolder, changed, run, tandem_json

sys.path.insert(0, str(SOURCE / "tests" / "fixtures"))
import formula_weights as formula  # noqa: E402

ORACLE = json.loads((SOURCE / "tests" / "fixtures" / "evaluated_numpy.json").read_text())
TOKENIZER = SOURCE / "tests" / "fixtures" / "tokenizers" / "gpt2.json"
LAYOUTS = {"one rank": {}, "tensor 2, pipeline 2": {"tensor": 2, "pipeline": 2}, "data 2, zero 3": {"data": 2, "zero_stage": 3},
           "context 2": {"context": 2}, "tensor 2, data 2, sequence": {"tensor": 2, "data": 2, "sequence_parallel": True}}
MASKED = 2  # of 16 tokens: 15 %
EXACT = 1e-9  # relative; both sides compute in fp64
ONE = changed(SMALL, **{"parallel": {"tensor": 1}, "cluster.devices": 1})


class Oracle(WithFolder):
    def setUp(self):
        super().setUp()
        self.text = self.folder.file("text.txt", ORACLE["text"])
        self.lines = self.folder.file("lines.jsonl", "".join(json.dumps({"text": line}) + "\n" for line in ORACLE["lines"]))
        self.weights = self.folder.path / "weights"
        self.weights.mkdir()
        (self.weights / "config.json").write_text(json.dumps(ORACLE["config"]))
        (self.weights / "model.safetensors").write_bytes(formula.safetensors(ORACLE["shapes"]))

    def plan(self, layout=(), batch=4, micro=1, **training):
        parallel = dict(layout)
        ranks = parallel.get("tensor", 1) * parallel.get("pipeline", 1) * parallel.get("data", 1) * parallel.get("context", 1)
        return self.folder.plan({"model": {"preset": str(self.weights / "config.json")}, "parallel": parallel,
                                 "training": {"seq_length": ORACLE["length"], "micro_batch_size": micro, "global_batch_size": batch, "precision": "fp64", **training},
                                 "cluster": {"preset": "cpu-host", "devices": 1, "override": {"ranks_per_device": ranks}}})

    def evaluate(self, plan, *more, data=None):
        return tandem_json("evaluate", plan, "--data", data or self.text, "--tokenizer", TOKENIZER, "--weights", self.weights, *more)

    def assert_near(self, found, wanted, what):
        self.assertLess(abs(found / wanted - 1), EXACT, f"{what}: {found} against {wanted}")

    def assert_window(self, found, wanted):
        for key in ("loss", "perplexity", "adjusted_perplexity", "bits_per_byte"):
            self.assert_near(found[key], wanted[key], key)
        self.assertEqual((found["targets"], found["words"]), (wanted["targets"], wanted["words"]))
        self.assert_near(found["accuracy"], wanted["hits"] / wanted["targets"], "accuracy")

    def test_perplexity_is_that_of_the_oracle_under_every_layout(self):
        for name, layout in LAYOUTS.items():
            for wanted in ORACLE["windows"]:
                with self.subTest(layout=name, stride=wanted["stride"]):
                    self.assert_window(self.evaluate(self.plan(layout), "--stride", wanted["stride"]), wanted)

    def test_batches_of_any_size_count_every_token_once(self):
        wanted, found = ORACLE["windows"][0], set()
        for batch, micro in ((1, 1), (2, 2), (5, 5), (6, 3), (64, 8)):
            with self.subTest(batch=batch):
                told = self.evaluate(self.plan((), batch, micro))
                self.assert_window(told, wanted)
                self.assertEqual(told["sequences"], math.ceil(wanted["targets"] / ORACLE["length"]))
                found.add(told["loss"])
        self.assertLessEqual(max(found) - min(found), 1e-12)

    def test_last_words_are_foreseen_as_the_oracle_foresees_them(self):
        wanted = ORACLE["last_word"]
        for name, layout in LAYOUTS.items():
            with self.subTest(layout=name):
                found = self.evaluate(self.plan(layout), "--last-word", data=self.lines)
                self.assertEqual(found["documents"], {"count": wanted["count"], "right": wanted["right"], "accuracy": wanted["right"] / wanted["count"]})
                self.assertEqual(found["targets"], wanted["targets"])
                self.assert_near(found["loss"], wanted["loss"], "loss")
                self.assertIsNone(found["adjusted_perplexity"])
        _, out, err = run("evaluate", self.plan(), "--data", self.lines, "--tokenizer", TOKENIZER, "--weights", self.weights, "--last-word")
        self.assertIn("1 of 9 documents are longer than training.seq_length and lose their beginning", err)
        self.assertIn("  documents right         33.33 %, 3 of 9", out)

    def test_the_words_of_the_original_text_may_be_given(self):
        wanted = ORACLE["windows"][0]
        found = self.evaluate(self.plan(), "--words", 100)
        self.assertEqual(found["words"], 100)
        self.assert_near(found["adjusted_perplexity"], math.exp(wanted["loss"] * wanted["targets"] / 99), "adjusted perplexity")

    def test_the_lines_of_a_text_are_its_documents(self):
        """Their tokens follow each other, with the token that ends a document where the tokenizer names one."""
        found = self.evaluate(self.plan(), data=self.lines)
        self.assertIsNone(found["words"])
        self.assertIsNone(found["bits_per_byte"])
        apart = self.evaluate(self.plan(documents="separate"), data=self.lines)
        self.assertEqual(apart["targets"], found["targets"] - len(ORACLE["lines"]) + 1)

    def test_what_cannot_be_evaluated_is_refused(self):
        evaluate = ("evaluate", self.plan(), "--data", self.text, "--tokenizer", TOKENIZER)
        other = self.folder.plan({"model": {"preset": str(self.weights / "config.json"), "num_layers": 3}, "parallel": {},
                                  "training": {"seq_length": 8, "micro_batch_size": 1, "global_batch_size": 1}, "cluster": {"preset": "cpu-host", "devices": 1}}, "other.json")
        short, empty = self.folder.file("short.txt", "a"), self.folder.file("one.jsonl", '{"text": "word"}\n')
        weights = ("--weights", self.weights)
        for arguments, code, said in (
                (evaluate, 2, "--weights: is needed, or --checkpoint"),
                ((*evaluate, *weights, "--checkpoint", "x"), 2, "--weights excludes --checkpoint"),
                ((*evaluate, *weights, "--stride", 33), 3, "--stride = 33: is more than training.seq_length 32"),
                ((*evaluate, *weights, "--mask-token", 3), 3, "only models of the bert family hide tokens"),
                ((*evaluate, *weights, "--chat-template", "chatml"), 3, "no line has messages"),
                ((*evaluate, *weights, "--last-word", "--loss-on", "all"), 2, "excludes"),
                ((*evaluate, *weights, "--last-word"), 3, "is for a .jsonl file whose lines have text"),
                (("evaluate", other, *evaluate[2:], *weights), 3, "num_layers"),
                (("evaluate", evaluate[1], "--data", short, *evaluate[4:], *weights), 3, "the text has no token that another one precedes"),
                (("evaluate", evaluate[1], "--data", empty, *evaluate[4:], *weights, "--last-word"), 3, "has no word before its last one"),
                (("evaluate", evaluate[1], "--data", self.lines, *evaluate[4:], *weights, "--last-word", "--words", 9), 3, "only answers are predicted here")):
            with self.subTest(said=said):
                found, out, err = run(*arguments)
                self.assertEqual((found, out), (code, ""), err)
                self.assertIn(said, err)

    def test_weights_that_are_no_numbers_give_no_figure_and_the_code_of_a_failure(self):
        huge = lambda name, shape: [3e38] * math.prod(shape)
        (self.weights / "model.safetensors").write_bytes(formula.safetensors(ORACLE["shapes"], value=huge))
        code, out, err = run("evaluate", self.plan(precision="fp32"), "--data", self.text, "--tokenizer", TOKENIZER, "--weights", self.weights, "--json")
        self.assertEqual(code, 7, err)
        self.assertIsNone(json.loads(out)["loss"])
        self.assertIn("the loss is not finite", err)


class Checkpoints(WithFolder):
    """Against the evaluations of `train`, which run the same graph."""

    def setUp(self):
        super().setUp()
        self.text = self.folder.file("text.txt", TEXT.read_bytes()[:1024 + 1])
        self.saved = self.folder.path / "saved"

    def trained(self, plan, *more):
        """The evaluation behind the last of three steps on the whole text."""
        batches = 1024 // (plan["training"]["seq_length"] * plan["training"]["global_batch_size"])
        told = tandem_json("train", self.folder.plan(plan), "--data", self.text, "--steps", 3, "--eval-every", 3, "--eval-steps", batches,
                           "--eval-data", self.text, "--save", self.saved, *more)
        return told["evaluations"][-1]["loss"]

    def evaluate(self, plan, *more):
        return tandem_json("evaluate", self.folder.plan(plan, "evaluated.json"), "--data", self.text, "--checkpoint", self.saved, *more)

    def test_a_checkpoint_has_the_loss_that_its_training_evaluated_under_any_layout(self):
        loss = self.trained(changed(SMALL, **{"training.precision": "fp64"}))
        for layout in ({"tensor": 2, "pipeline": 2, "data": 2}, {"tensor": 1}, {"data": 4, "zero_stage": 3}, {"context": 2, "data": 2}):
            ranks = math.prod(v for k, v in layout.items() if k != "zero_stage")
            with self.subTest(layout=layout):
                found = self.evaluate(changed(SMALL, **{"training.precision": "fp64", "parallel": layout, "cluster.devices": ranks}))
                self.assertLess(abs(found["loss"] / loss - 1), 1e-12)
                self.assertEqual((found["targets"], found["sequences"]), (1024, 64))

    def test_experts_that_are_spread_give_the_same_figures(self):
        moe = {"model.moe": {"num_experts": 4, "experts_per_token": 2}, "training.precision": "fp64"}
        loss = self.trained(changed(ONE, **moe))
        for layout in ({}, {"data": 2, "expert": 2}, {"data": 4, "expert": 4, "zero_stage": 1}):
            with self.subTest(layout=layout):
                found = self.evaluate(changed(ONE, **moe, **{"parallel": layout, "cluster.devices": layout.get("data", 1)}))
                self.assertLess(abs(found["loss"] / loss - 1), 1e-12)

    def test_a_plan_beyond_the_hosts_memory_is_refused_before_it_takes_it(self):
        self.trained(SMALL)
        wide = changed(SMALL, **{"parallel": {"data": 4096}, "training.micro_batch_size": 65536, "training.global_batch_size": 65536 * 4096,
                                 "cluster.devices": 4096})
        code, out, err = run("evaluate", self.folder.plan(wide, "wide.json"), "--data", self.text, "--checkpoint", self.saved)
        self.assertEqual((code, out), (4, ""), err)
        self.assertRegex(err, r"wide.json: 4,096 ranks need [\d.]+ TiB of memory, and this host has [\d.]+ [GT]iB free; use fewer data ranks")

    def test_words_are_counted_only_where_every_word_is_predicted(self):
        bert = changed(SMALL, **{"model.family": "bert", "model.vocab_size": 257, "model.pad_vocab_to": 258})
        self.trained(bert)
        code, out, err = run("evaluate", self.folder.plan(bert, "evaluated.json"), "--data", self.text, "--checkpoint", self.saved, "--words", 9)
        self.assertEqual((code, out), (3, ""), err)
        self.assertIn("--words = 9: is for models that predict every word, not BERT or T5; leave it out", err)

    def test_bert_has_two_losses_and_two_accuracies(self):
        bert = changed(SMALL, **{"model.family": "bert", "model.vocab_size": 257, "model.pad_vocab_to": 258, "training.precision": "fp64",
                                 "model.max_position_embeddings": 16})
        loss = self.trained(bert)
        kept = []
        for layout in ({"tensor": 2, "pipeline": 2, "data": 2}, {"data": 1}):
            found = self.evaluate(changed(bert, **{"parallel": layout, "cluster.devices": math.prod(layout.values())}))
            pairs = found["sentence_pairs"]
            self.assertEqual(pairs["count"], 64)
            self.assertLess(abs((found["loss"] + pairs["loss"]) / loss - 1), 1e-12)
            kept.append((found["targets"], found["accuracy"], pairs["accuracy"]))
        self.assertEqual(kept[0], kept[1])
        self.assertEqual(kept[0][0], 64 * MASKED)
        lines = self.folder.file("lines.jsonl", '{"text": "in the beginning"}\n')
        code, out, err = run("evaluate", self.folder.plan(bert), "--data", lines, "--checkpoint", self.saved, "--tokenizer", TOKENIZER, "--last-word")
        self.assertEqual((code, out), (3, ""), err)
        self.assertIn("--last-word: is for models that predict next tokens", err)

    def test_other_precisions_take_the_masters(self):
        loss = self.trained(changed(ONE, **{"training.precision": "bf16"}))
        narrow = self.evaluate(changed(ONE, **{"training.precision": "bf16"}))
        self.assertLess(abs(narrow["loss"] / loss - 1), 1e-5)  # summed in another order
        wide = self.evaluate(changed(ONE, **{"training.precision": "fp32"}))
        self.assertNotEqual(wide["loss"], narrow["loss"])
        self.assertLess(abs(wide["loss"] / loss - 1), 1e-2)

    def test_a_checkpoint_of_another_model_is_refused(self):
        self.trained(ONE)
        other = changed(ONE, **{"model.num_layers": 3, "model.ffn_hidden_size": 44, "training.seed": 5, "training.learning_rate": 0.5})
        code, out, err = run("evaluate", self.folder.plan(other), "--data", self.text, "--checkpoint", self.saved)
        self.assertEqual((code, out), (3, ""))
        for field in ("model.num_layers", "model.ffn_hidden_size"):
            self.assertIn(field, err)
        self.assertNotIn("seed", err)
        code, _, err = run("evaluate", self.folder.plan(ONE), "--data", self.text, "--checkpoint", self.folder.path / "none")
        self.assertEqual(code, 3)
        self.assertIn("none", err)


if __name__ == "__main__":
    tandem.main()
