#!/usr/bin/env python3
"""`tokenize` and `train --tokenizer`: the ids of Hugging Face's library, in Megatron-LM's files, and what is refused."""
import base64
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


def byte_letters():
    """The byte of each letter of byte-level BPE (openai/gpt-2: src/encoder.py, bytes_to_unicode)."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return {chr(byte): byte for byte in shown} | {chr(256 + i): byte for i, byte in enumerate(b for b in range(256) if b not in shown)}


BYTES = byte_letters()


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

    def ids_of(self, texts, tokenizer):
        lines = self.folder.file("texts.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in texts))
        result = tandem_json("tokenize", lines, "--tokenizer", tokenizer, "--out", self.folder.path / "out")
        return result, read(str(self.folder.path / "out"), "i" if result["vocab_size"] > 65499 else "H")

    def test_a_vocabulary_of_roberta_with_merges_is_its_tokenizer(self):
        whole = json.loads((FIXTURES / "roberta.json").read_text())
        model, place = whole["model"], self.folder.path / "roberta"
        place.mkdir()
        (place / "vocab.json").write_text(json.dumps(model["vocab"]))
        (place / "merges.txt").write_text("#version: 0.2\n" + "".join(" ".join(pair) + "\n" for pair in model["merges"]))
        added = {str(token.pop("id")): token for token in whole["added_tokens"]}
        config = {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": True, "added_tokens_decoder": added}
        (place / "tokenizer_config.json").write_text(json.dumps(config))
        same = [(text, ids) for text, ids in zip(ORACLE["texts"], ORACLE["ids"]["roberta"]) if "<unk>" not in text]  # no token of the oracle's
        self.assertEqual(self.ids_of([text for text, _ in same], place)[1], [ids for _, ids in same])
        # Without a configuration, as the first checkpoints were published: the vocabulary says whose it is
        vocab = model["vocab"] | {"<pad>": 360, "<unk>": 361, "<mask>": 362}
        (place / "vocab.json").write_text(json.dumps(vocab))
        (place / "tokenizer_config.json").unlink()
        a, the = vocab["\u0120a"], vocab["\u0120the"]
        self.assertEqual(self.ids_of(["in the <mask> a</s>"], place)[1], [[0, vocab["in"], the, 362, a, 1, 1]])
        (place / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer", "mask_token": "<mask>"}))
        self.assertEqual(self.ids_of(["in the <mask> a"], place)[1], [[vocab["in"], the, vocab["\u0120"], 362, a]])

    def test_ranks_of_qwen_give_the_ids_of_its_other_format(self):
        """qwen.tiktoken from the vocabulary of Qwen2Tokenizer, whose ids of all texts transformers gave."""
        oracle = json.loads((FILES / "ids.json").read_text())
        vocab = json.loads((FILES / "qwen2" / "vocab.json").read_text())
        special = {"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645}
        tokens = [token for token, _ in sorted(vocab.items(), key=lambda item: item[1]) if token not in special]
        ranks = {vocab[token]: rank for rank, token in enumerate(tokens)}
        lines = [f"{base64.b64encode(bytes(BYTES[c] for c in token)).decode()} {rank}" for rank, token in enumerate(tokens)]
        result, ids = self.ids_of(oracle["texts"], self.folder.file("qwen.tiktoken", "\n".join(lines) + "\n"))
        known = [(text, there, here) for text, there, here in zip(oracle["texts"], oracle["ids"]["qwen2"], ids) if "<|" not in text]
        self.assertGreater(len(known), 20)
        for text, there, here in known:
            self.assertEqual(here, [ranks[i] for i in there], text)
        self.assertEqual(result["vocab_size"], 151643 + 3 + 205)
        self.assertEqual(self.ids_of(["<|im_start|><|extra_204|>"], self.path("qwen.tiktoken"))[1], [[151644, 151850]])

    def test_a_tekken_has_the_ids_of_tiktoken_behind_its_special_tokens(self):
        oracle = json.loads((FILES / "ids.json").read_text())
        lines = (FILES / "llama3" / "tokenizer.model").read_text().splitlines()
        pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        config = {"pattern": pattern, "num_vocab_tokens": len(lines), "default_vocab_size": len(lines) + 25, "default_num_special_tokens": 25, "version": "v3"}
        vocab = [{"rank": rank, "token_bytes": line.split()[0], "token_str": None} for rank, line in enumerate(lines)]
        place = self.folder.file("tekken.json", json.dumps({"config": config, "vocab": vocab + [{"rank": len(lines), "token_bytes": "QUFBQUFB"}]}))
        result, ids = self.ids_of(oracle["texts"], place)
        self.assertEqual(result["vocab_size"], len(lines) + 25)
        known = [(text, there, here) for text, there, here in zip(oracle["texts"], oracle["ids"]["llama3"], ids) if "<|" not in text]
        self.assertGreater(len(known), 20)
        for text, there, here in known:
            self.assertEqual(here, [1] + [i + 25 for i in there[1:]], text)
        _, (here,) = self.ids_of(["<s>[INST]"], self.folder.path)
        self.assertEqual((here[0], min(here[1:]) >= 25), (1, True))  # a text has no special tokens
        ended = tandem_json("tokenize", self.lines(), "--tokenizer", place, "--out", self.path("out"), "--append-eod")
        self.assertEqual(ended["eod"], 2)

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

    def test_lines_of_objects_are_not_split_again(self):
        code, _, messages = run("tokenize", self.lines(), "--tokenizer", FIXTURES / "gpt2.json", "--out", self.path("out"), "--split-lines")
        self.assertEqual(code, 3)
        self.assertIn("texts.jsonl: --split-lines: is for texts; each line of this file is a document already; leave it out", messages)

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
