#!/usr/bin/env python3
"""`tokenize` and `train --tokenizer`: the ids of Hugging Face's library, in Megatron-LM's files, and what is refused."""
import functools
import json
import pathlib
import struct
import sys

import tandem
from tandem import SMALL, SOURCE, WithFolder, changed, run, tandem_json

FIXTURES = SOURCE / "tests" / "fixtures" / "tokenizers"
FILES = SOURCE / "tests" / "fixtures" / "tokenizer_files"
SENTENCES = ("llama2", "t5")
ORACLE = json.loads((FIXTURES / "ids.json").read_text())


def read(prefix, width="H"):
    """Documents of PREFIX.bin, as its index says (NVIDIA/Megatron-LM: megatron/core/datasets/indexed_dataset.py)."""
    ids, index = (pathlib.Path(prefix + end).read_bytes() for end in (".bin", ".idx"))
    assert index[:9] == b"MMIDIDX\0\0" and index[9:17] == struct.pack("<Q", 1) and index[17] == {"H": 8, "i": 4}[width]
    sequences, ends = struct.unpack_from("<QQ", index, 18)
    lengths = struct.unpack_from("<%di" % sequences, index, 34)
    places = struct.unpack_from("<%dq" % sequences, index, 34 + 4 * sequences)
    documents = struct.unpack_from("<%dq" % ends, index, 34 + 12 * sequences)
    assert len(index) == 34 + 12 * sequences + 8 * ends
    of = [list(struct.unpack_from("<%d%s" % (n, width), ids, at)) for n, at in zip(lengths, places)]
    return [sum(of[a:b], []) for a, b in zip(documents, documents[1:])]


@functools.cache
def has_sentencepiece():
    """Whether the program was built with it, by what it says of a model."""
    return "without sentencepiece" not in run("tokenize", tandem.TEXT, "--tokenizer", FILES / "llama2", "--out", "/dev/null")[2]


class Tokenize(WithFolder):
    def tokenize(self, name, file, *more):
        out = str(self.folder.path / "out")
        result = tandem_json("tokenize", file, "--tokenizer", FIXTURES / (name + ".json"), "--out", out, *more)
        return result, read(out)

    def lines(self, key="text"):
        return self.folder.file("texts.jsonl", "".join(json.dumps({key: text}) + "\n" for text in ORACLE["texts"]))

    def test_lines_become_documents_with_the_librarys_ids(self):
        for name, ids in ORACLE["ids"].items():
            with self.subTest(tokenizer=name):
                result, documents = self.tokenize(name, self.lines("body"), "--key", "body")
                self.assertEqual(documents, ids)
                self.assertEqual(result["documents"], len(ids))
                self.assertEqual(result["tokens"], sum(map(len, ids)))
                self.assertEqual(result["bytes"], sum(len(t.encode()) for t in ORACLE["texts"]))

    def test_files_of_other_libraries_give_their_ids(self):
        oracle = json.loads((FILES / "ids.json").read_text())
        lines = self.folder.file("texts.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in oracle["texts"]))
        for name, ids in oracle["ids"].items():
            if name in SENTENCES and not has_sentencepiece():
                continue
            with self.subTest(tokenizer=name):
                result = tandem_json("tokenize", lines, "--tokenizer", FILES / name, "--out", self.folder.path / "out")
                self.assertEqual(read(str(self.folder.path / "out"), "i" if result["vocab_size"] > 65499 else "H"), ids)

    def test_each_format_has_its_own_end_of_documents(self):
        for name, end in (("gpt2", 419), ("gpt2-more", 423), ("llama2", 2), ("t5", 1), ("llama3", "<|end_of_text|>")):
            if name in SENTENCES and not has_sentencepiece():
                continue
            result = tandem_json("tokenize", self.lines(), "--tokenizer", FILES / name, "--out", self.folder.path / "out", "--append-eod")
            ranks = len((FILES / "llama3" / "tokenizer.model").read_text().splitlines())
            self.assertEqual(result["eod"], ranks + 1 if end == "<|end_of_text|>" else end, name)
        code, _, messages = run("tokenize", self.lines(), "--tokenizer", FILES / "bert", "--out", self.folder.path / "out", "--append-eod")
        self.assertEqual((code, "--eod TOKEN" in messages), (3, True))
        result = tandem_json("tokenize", self.lines(), "--tokenizer", FILES / "bert", "--out", self.folder.path / "out", "--append-eod", "--eod", "[SEP]")
        self.assertEqual(result["eod"], 3)

    def test_training_reads_a_vocabulary_and_its_merges(self):
        plan = self.folder.plan(changed(SMALL, **{"model.vocab_size": 420, "training.steps": 2, "parallel": {}, "cluster.devices": 1}))
        tokenizer = FILES / "gpt2"
        tandem_json("tokenize", tandem.TEXT, "--tokenizer", tokenizer, "--out", self.folder.path / "out")
        steps = [tandem_json("train", plan, "--data", *data)["steps"] for data in ((tandem.TEXT, "--tokenizer", tokenizer), (self.folder.path / "out",))]
        self.assertEqual([s["loss"] for s in steps[0]], [s["loss"] for s in steps[1]])
        small = self.folder.plan(changed(SMALL, **{"training.steps": 1}))
        code, _, messages = run("train", small, "--data", tandem.TEXT, "--tokenizer", tokenizer)
        self.assertEqual(code, 3)
        self.assertIn("model.vocab_size = 256", messages)

    def test_bert_hides_tokens_behind_the_tokenizers_mask(self):
        plan = self.folder.plan(changed(SMALL, **{"model.family": "bert", "model.vocab_size": 700, "training.steps": 2, "parallel": {}, "cluster.devices": 1}))
        losses = {}
        for mask in ((), ("--mask-token", 4), ("--mask-token", 5)):
            code, out, messages = run("train", plan, "--data", tandem.TEXT, "--tokenizer", FILES / "bert", "--json", *mask)
            self.assertEqual(code, 0, messages)
            self.assertEqual("the tokenizer's [MASK], 4, hides tokens" in messages, not mask)
            losses[mask] = [step["loss"] for step in json.loads(out)["steps"]]
        self.assertEqual(losses[()], losses["--mask-token", 4])
        self.assertNotEqual(losses[()], losses["--mask-token", 5])

    def test_a_model_without_sentencepiece_is_refused_with_what_to_install(self):
        code, _, messages = run("tokenize", self.lines(), "--tokenizer", FILES / "llama2", "--out", self.folder.path / "out")
        self.assertEqual((code, "libsentencepiece-dev" in messages), (0, False) if has_sentencepiece() else (4, True))

    def test_a_json_file_with_an_object_a_line_has_documents_as_megatrons_preprocess_data_reads_them(self):
        # NVIDIA/Megatron-LM: README.md, "loose json, with one json containing a text sample per line": preprocess_data.py --input my-corpus.json
        lines = pathlib.Path(self.lines("body")).read_text()
        _, documents = self.tokenize("gpt2", self.folder.file("my-corpus.json", lines), "--key", "body")
        self.assertEqual(documents, ORACLE["ids"]["gpt2"])
        plan = self.folder.plan(changed(SMALL, **{"model.vocab_size": 420, "training.steps": 2, "parallel": {}, "cluster.devices": 1}))
        text = pathlib.Path(self.lines()).read_text() * 20
        losses = [[s["loss"] for s in tandem_json("train", plan, "--data", self.folder.file(name, text), "--tokenizer", FIXTURES / "gpt2.json")["steps"]]
                  for name in ("a.jsonl", "a.json")]
        self.assertEqual(losses[0], losses[1])

    def test_json_of_another_form_and_a_key_of_a_text_are_refused(self):
        out = self.folder.path / "out"
        for name, content, more, told in (("a.json", '[{"text": "a"},\n {"text": "b"}]\n', (), "a.json: is JSON without an object a line"),
                                          ("b.json", '{\n "text": "a"\n}\n', (), "name it .txt"), ("c.txt", "a", ("--key", "text"), "--key = text: is for a file with")):
            code, _, messages = run("tokenize", self.folder.file(name, content), "--tokenizer", FIXTURES / "gpt2.json", "--out", out, *more)
            self.assertEqual(code, 3, name)
            self.assertIn(told, messages)
        _, documents = self.tokenize("gpt2", self.folder.file("d.json", '[{"text": "a"},\n {"text": "b"}]\n'), "--split-lines")
        self.assertEqual(len(documents), 2)

    def test_a_token_ends_documents_that_are_not_empty(self):
        result, documents = self.tokenize("gpt2", self.lines(), "--append-eod", "--eod", "<|endoftext|>")
        self.assertEqual(documents, [ids + [result["eod"]] if ids else [] for ids in ORACLE["ids"]["gpt2"]])

    def test_a_document_that_the_tokenizer_ends_itself_gets_no_second_end(self):
        _, plain = self.tokenize("roberta", self.lines())
        self.assertTrue(all(ids[-1] == 1 for ids in plain))
        result, ended = self.tokenize("roberta", self.lines(), "--append-eod", "--eod", "</s>")
        self.assertEqual((ended, result["eod"]), (plain, 1))
        _, bare = self.tokenize("roberta", self.lines(), "--append-eod", "--eod", "</s>", "--no-special-tokens")
        self.assertEqual(bare, [ids[1:] if len(ids) > 2 else [] for ids in plain])
        _, other = self.tokenize("roberta", self.lines(), "--append-eod", "--eod", "<mask>")
        self.assertEqual(other, [ids + [360] for ids in plain])
        plan = self.folder.plan(changed(SMALL, **{"model.vocab_size": 420, "training.steps": 2, "parallel": {}, "cluster.devices": 1}))
        self.folder.file("tokenizer.json", (FIXTURES / "roberta.json").read_text())
        self.folder.file("tokenizer_config.json", json.dumps({"eos_token": "</s>"}))
        self.tokenize("roberta", self.lines())
        steps = [tandem_json("train", plan, "--data", *data)["steps"] for data in ((self.lines(), "--tokenizer", self.folder.path), (self.folder.path / "out",))]
        self.assertEqual(*([s["loss"] for s in run] for run in steps))

    def test_special_tokens_can_be_left_out(self):
        _, documents = self.tokenize("bert", self.lines(), "--no-special-tokens")
        self.assertEqual(documents, [ids[1:-1] for ids in ORACLE["ids"]["bert"]])

    def test_a_text_is_one_document_or_one_a_line(self):
        texts = ["the Word", "was with God, and", "the Word"]
        file = self.folder.file("text.txt", "\n".join(texts) + "\r\n")
        _, whole = self.tokenize("gpt2", file)
        self.assertEqual(len(whole), 1)
        _, lines = self.tokenize("gpt2", file, "--split-lines")
        _, alone = self.tokenize("gpt2", self.folder.file("one.txt", texts[0]))
        self.assertEqual(len(lines), 3)
        self.assertEqual([lines[0], lines[2]], alone * 2)

    def test_bad_input_is_refused_with_its_place(self):
        tokenizer, out = FIXTURES / "gpt2.json", self.folder.path / "out"
        for name, content, told in (("a.jsonl", '{"text": "a"}\n{"other": 1}\n', "line 2: text: is missing"), ("b.jsonl", '{"text": 1}\n', "text = 1"),
                                    ("c.jsonl", '{"text": "a"}\n{"text": \n', "c.jsonl, line 2: column "), ("d.txt", b"ab\xffc", "byte 2 = 255: is not UTF-8"),
                                    ("e.txt", None, "e.txt")):
            file = str(self.folder.path / name) if content is None else self.folder.file(name, content)
            code, _, messages = run("tokenize", file, "--tokenizer", tokenizer, "--out", out)
            self.assertEqual(code, 3, name)
            self.assertIn(told, messages)
            self.assertFalse((self.folder.path / "out.bin").exists(), name)
        for name, content, told in (("gpt2-vocab.json", '{"!": 0}', "gpt2-merges.txt is not there"), ("vocab.txt", "[PAD]\n[UNK]\n", "has no token [CLS]"),
                                    ("merges.txt", "#version: 0.2\n", "vocab.json is not there"), ("tokenizer.model", "words", "neither a model of sentencepiece nor")):
            code, _, messages = run("tokenize", self.lines(), "--tokenizer", self.folder.file(name, content), "--out", out)
            self.assertEqual(code, 3, name)
            self.assertIn(told, messages)
        code, _, messages = run("tokenize", self.lines(), "--tokenizer", tokenizer, "--out", out, "--append-eod")
        self.assertEqual(code, 3)
        self.assertIn("--eod TOKEN", messages)

    def test_training_on_a_text_is_training_on_its_ids(self):
        plan = self.folder.plan(changed(SMALL, **{"model.vocab_size": 420, "training.steps": 2, "parallel": {}, "cluster.devices": 1}))
        tokenizer = FIXTURES / "gpt2.json"
        self.tokenize("gpt2", tandem.TEXT)
        steps = [tandem_json("train", plan, "--data", *data)["steps"] for data in ((tandem.TEXT, "--tokenizer", tokenizer), (self.folder.path / "out",))]
        losses = [[step["loss"] for step in all_steps] for all_steps in steps]
        self.assertEqual(losses[0], losses[1])

    def test_training_on_lines_ends_documents_where_the_tokenizer_names_the_token(self):
        plan = self.folder.plan(changed(SMALL, **{"model.vocab_size": 420, "training.steps": 2, "parallel": {}, "cluster.devices": 1}))
        (self.folder.path / "tokenizer.json").write_bytes((FIXTURES / "gpt2.json").read_bytes())
        lines = self.folder.file("long.jsonl", pathlib.Path(self.lines()).read_text() * 20)
        for end in (None, "<|endoftext|>"):
            if end:
                self.folder.file("tokenizer_config.json", json.dumps({"eos_token": end}))
            self.tokenize("gpt2", lines, *(("--append-eod", "--eod", end) if end else ()))
            written = tandem_json("train", plan, "--data", self.folder.path / "out")["steps"]
            code, out, messages = run("train", plan, "--data", lines, "--tokenizer", self.folder.path, "--json")
            self.assertEqual(code, 0)
            self.assertEqual([s["loss"] for s in json.loads(out)["steps"]], [s["loss"] for s in written])
            self.assertEqual("without a token between them" in messages, end is None)

    def test_ids_beyond_the_plans_vocabulary_are_refused(self):
        plan = self.folder.plan(changed(SMALL, **{"training.steps": 1}))
        code, _, messages = run("train", plan, "--data", tandem.TEXT, "--tokenizer", FIXTURES / "gpt2.json")
        self.assertEqual(code, 3)
        self.assertIn("model.vocab_size = 256", messages)
        self.assertIn("from 0 to 419", messages)

    def test_ids_are_not_tokenized_again(self):
        plan = self.folder.plan(changed(SMALL, **{"training.steps": 1}))
        self.tokenize("gpt2", self.lines())
        code, _, messages = run("train", plan, "--data", self.folder.path / "out.bin", "--tokenizer", FIXTURES / "gpt2.json")
        self.assertEqual(code, 3)
        self.assertIn("holds token ids", messages)


if __name__ == "__main__":
    missing = "without ICU" in run("tokenize", tandem.TEXT, "--tokenizer", FIXTURES / "gpt2.json", "--out", "/dev/null")[2]
    sys.exit(77) if missing else tandem.main()
