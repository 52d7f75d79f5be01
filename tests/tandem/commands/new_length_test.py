#!/usr/bin/env python3
"""Training that goes on with sequences of another length."""
import json
import struct

import tandem
from tandem import SMALL, TEXT, WithFolder, changed, run, tandem_json

SHORT = changed(SMALL, **{"parallel": {"tensor": 1}, "cluster.devices": 1, "training.seq_length": 64, "model.family": "llama",
                          "training.learning_rate": 0.01, "training.learning_rate_unit": "tokens", "training.decay_over": 16384,
                          "training.learning_rate_decay": "linear"})
LONG = changed(SHORT, **{"training.seq_length": 128, "training.global_batch_size": 4, "model.rope_theta": 80000})
BYTES = 10000  # 156 sequences of 64 tokens


class NewLength(WithFolder):
    def setUp(self):
        super().setUp()
        self.text = self.folder.file("text.txt", TEXT.read_bytes()[:BYTES])
        self.short, self.long = self.folder.plan(SHORT, "short.json"), self.folder.plan(LONG, "long.json")
        self.kept = self.folder.path / "kept.safetensors"
        self.metrics = self.folder.path / "m.jsonl"
        tandem_json("train", self.short, "--data", self.text, "--steps", 3, "--save", self.kept, "--metrics", self.metrics)

    def train(self, plan, steps, *more):
        return tandem_json("train", plan, "--data", self.text, "--steps", steps, *more)

    def test_the_change_is_said_with_what_was_read(self):
        code, _, err = run("train", self.long, "--data", self.text, "--steps", 4, "--resume", self.kept)
        self.assertEqual(code, 0, err)
        self.assertIn("training.seq_length from 64 to 128", err)
        self.assertIn("model.rope_theta from 10000.0 to 80000.0", err)
        self.assertIn(f"sequences have 128 tokens from here on, also in evaluations. {self.text} is cut anew and read from its beginning; "
                      "the run that was saved had read 24 sequences of 64 tokens from there on and leaves 132 of the text's 156 unread", err)
        self.assertNotIn("max_position_embeddings", err)
        self.assertNotIn("is cut anew", run("train", self.short, "--data", self.text, "--steps", 4, "--resume", self.kept)[2])

    def test_a_text_is_the_same_when_a_part_is_held_out_now(self):
        code, _, err = run("train", self.long, "--data", self.text, "--steps", 4, "--resume", self.kept, "--eval-every", 1)
        self.assertEqual(code, 0, err)
        self.assertIn("had read 24 sequences of 64 tokens from there on and leaves 132 of the text's 156 unread", err)
        self.assertNotIn("another text", err)

    def test_a_text_that_was_read_more_than_once(self):
        text, kept = self.folder.file("twenty.txt", TEXT.read_bytes()[:20 * 64 + 1]), self.folder.path / "twenty.safetensors"
        tandem_json("train", self.short, "--data", text, "--steps", 3, "--save", kept)
        code, _, err = run("train", self.long, "--data", text, "--steps", 4, "--resume", kept)
        self.assertEqual(code, 0, err)
        self.assertIn("and leaves 16 of the text's 20 unread in reading 2", err)

    def megatron(self, documents):
        """Tokens that are bytes, as Megatron-LM's files (NVIDIA/Megatron-LM: megatron/core/datasets/indexed_dataset.py)."""
        self.folder.file("text.bin", b"".join(struct.pack(f"<{len(d)}H", *d) for d in documents))
        places = [2 * sum(map(len, documents[:n])) for n in range(len(documents))]
        count = len(documents)
        self.folder.file("text.idx", b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, count, count + 1) + struct.pack(f"<{count}i", *map(len, documents)) +
                         struct.pack(f"<{count}q", *places) + struct.pack(f"<{count + 1}q", *range(count + 1)))
        return self.folder.path / "text.bin"

    def test_documents_that_are_kept_apart_now_are_read_from_the_beginning(self):
        text, kept = self.megatron([TEXT.read_bytes()[n * 100:(n + 1) * 100] for n in range(100)]), self.folder.path / "joined.safetensors"
        tandem_json("train", self.short, "--data", text, "--steps", 3, "--save", kept)
        plan = self.folder.plan(changed(SHORT, **{"training.documents": "separate"}), "separate.json")
        code, _, err = run("train", plan, "--data", text, "--steps", 4, "--resume", kept, "--save", kept)
        self.assertEqual(code, 0, err)
        self.assertIn('training.documents from "joined" to "separate"', err)
        self.assertIn(f"documents are separate from here on, also in evaluations. {text} is cut anew and read from its beginning; "
                      "the run that was saved had read 24 sequences of 64 tokens from there on and leaves 132 of the text's 156 unread", err)
        self.assertNotIn("another text", err)
        code, _, err = run("train", plan, "--data", text, "--steps", 5, "--resume", kept)
        self.assertEqual(code, 0, err)
        self.assertNotIn("from here on", err)
        code, _, err = run("train", self.long, "--data", text, "--steps", 5, "--resume", kept)
        self.assertEqual(code, 0, err)
        self.assertIn("sequences have 128 tokens and documents are joined from here on", err)
        self.assertIn("had read 8 sequences of 64 tokens from there on and leaves 148 of the text's 156 unread", err)
        self.assertNotIn("another text", err)

    def test_a_schedule_in_tokens_counts_those_of_the_shorter_stage(self):
        four = {"training.global_batch_size": 4, "training.decay_over": None}
        first = self.folder.plan(changed(SHORT, **four), "first.json")
        second = self.folder.plan(changed(SHORT, **four, **{"training.seq_length": 256}), "second.json")
        kept = self.folder.path / "four.safetensors"
        self.train(first, 4, "--save", kept)  # 1024 tokens
        steps = self.train(second, 8, "--resume", kept, "--schedule-steps", 8)["steps"]
        for step, tokens in zip(steps, (1024, 2048, 3072, 4096)):
            self.assertAlmostEqual(step["learning_rate"], 0.01 * (1 - tokens / 5120), delta=1e-12)
        err = run("train", second, "--data", self.text, "--steps", 8, "--resume", kept, "--schedule-steps", 8)[2]
        self.assertIn("training.decay_over from 1024 to 5120", err)
        passed = self.train(second, 5, "--resume", kept, "--schedule-steps", 2)["steps"]
        self.assertEqual(passed[0]["learning_rate"], 0)

    def test_a_third_stage_keeps_the_end_that_the_second_one_had(self):
        four = {"training.global_batch_size": 4, "training.decay_over": None}
        first = self.folder.plan(changed(SHORT, **four, **{"training.learning_rate_decay": "constant"}), "first.json")
        second = self.folder.plan(changed(SHORT, **four, **{"training.seq_length": 256}), "second.json")
        kept = self.folder.path / "four.safetensors"
        self.train(first, 4, "--save", kept)
        self.train(second, 8, "--resume", kept, "--save", kept)
        code, _, err = run("train", second, "--data", self.text, "--steps", 9, "--resume", kept)
        self.assertEqual(code, 0, err)
        self.assertIn("the learning rate decays over 5120 tokens, as in the run that was saved", err)

    def test_another_text_is_read_from_its_beginning_too(self):
        other = self.folder.file("other.txt", TEXT.read_bytes()[BYTES:3 * BYTES])
        code, _, err = run("train", self.long, "--data", other, "--steps", 4, "--resume", self.kept)
        self.assertEqual(code, 0, err)
        self.assertIn("had read 24 sequences of 64 tokens from there on in another text", err)

    def test_the_text_is_read_as_by_a_run_that_begins_with_the_weights(self):
        folder = self.folder.path / "hf"
        self.assertEqual(run("export", self.kept, "--out", folder)[0], 0)
        (folder / "config.json").unlink()  # it says the other base
        new = tandem_json("train", self.long, "--data", self.text, "--steps", 1, "--weights", folder)
        self.assertEqual(self.train(self.long, 4, "--resume", self.kept)["steps"][0]["loss"], new["steps"][0]["loss"])
        same = self.folder.plan(changed(LONG, **{"model.rope_theta": 10000}), "same.json")
        self.assertNotEqual(self.train(same, 4, "--resume", self.kept)["steps"][0]["loss"], new["steps"][0]["loss"])

    def test_the_longer_stage_is_resumed_bit_for_bit_and_counts_its_tokens(self):
        whole = self.train(self.long, 7, "--resume", self.kept)
        cut = self.folder.path / "cut.safetensors"
        self.train(self.long, 5, "--resume", self.kept, "--save", cut, "--metrics", self.metrics)
        code, _, err = run("train", self.long, "--data", self.text, "--steps", 7, "--resume", cut, "--metrics", self.metrics)
        self.assertEqual(code, 0, err)
        self.assertNotIn("is cut anew", err)
        lines = [json.loads(line) for line in self.metrics.read_text().splitlines()]
        self.assertEqual([line["loss"] for line in lines[3:]], [s["loss"] for s in whole["steps"]])
        self.assertEqual([line["samples"] for line in lines], [8, 16, 24, 28, 32, 36, 40])
        self.assertEqual([line["tokens"] for line in lines], [512 * n for n in range(1, 8)])
        for n, line in enumerate(lines):
            self.assertAlmostEqual(line["learning_rate"], 0.01 * (1 - 512 * n / 16384), delta=1e-12)

    def test_a_learned_table_is_refused_by_name(self):
        learned = changed(SHORT, **{"model.position_embedding": "learned"})
        plan, kept = self.folder.plan(learned, "learned.json"), self.folder.path / "learned.safetensors"
        self.train(plan, 1, "--save", kept)
        longer = self.folder.plan(changed(learned, **{"training.seq_length": 128}), "longer.json")
        code, out, err = run("train", longer, "--data", self.text, "--steps", 2, "--resume", kept)
        self.assertEqual((code, out), (3, ""))
        self.assertIn("model.max_position_embeddings = 64: the plan has 128, and a learned position table keeps its rows", err)


if __name__ == "__main__":
    tandem.main()
