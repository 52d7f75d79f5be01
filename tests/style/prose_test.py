#!/usr/bin/env python3
"""The counts of prose are shown texts whose words and sentences are known."""
import tempfile
import unittest
from pathlib import Path

import prose

LONG = "One " + "word " * 40 + "more."


def counts(text):
    return [prose.words(b) for b in prose.blocks(text)]


def project(files):
    """A folder with these files, by path."""
    folder = tempfile.TemporaryDirectory()
    for name, text in files.items():
        path = Path(folder.name) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


class Blocks(unittest.TestCase):
    def test_paragraphs_headings_and_items_are_blocks_and_lines_of_one_are_joined(self):
        self.assertEqual(prose.blocks("# A title\nFirst line\nsecond line.\n\n- one\n- two\n  words\n1. three\n"),
                         ["A title", "First line second line.", "one", "two words", "three"])

    def test_code_tables_and_comments_are_no_prose(self):
        self.assertEqual(prose.blocks("before\n```json\n{\"a\": 1}\n```\nbehind\n| a | b |\n|---|---|\n<!-- note -->\n"), ["before", "behind"])

    def test_code_that_is_not_closed_is_no_prose(self):
        self.assertEqual(prose.blocks("before\n```\ncode\n"), ["before"])

    def test_a_link_counts_by_its_text(self):
        self.assertEqual(counts("see [the guide](docs/a long name.md) first"), [4])

    def test_signs_alone_are_no_words(self):
        self.assertEqual(counts("a -> b = 5 %"), [3])


class Sentences(unittest.TestCase):
    def test_a_sentence_ends_where_a_new_one_can_begin(self):
        self.assertEqual(prose.sentences("It takes 2.5 s. `fit` is data. (So is this.) Why? Because!"),
                         ["It takes 2.5 s.", "`fit` is data.", "(So is this.)", "Why?", "Because!"])

    def test_an_abbreviation_ends_none(self):
        self.assertEqual(prose.sentences("Units, e.g. GB, count. Next."), ["Units, e.g. GB, count.", "Next."])

    def test_a_semicolon_ends_none(self):
        self.assertEqual(len(prose.sentences("one; two; Three.")), 1)


class Limits(unittest.TestCase):
    def test_a_long_sentence_is_counted_and_shown_with_its_file(self):
        with project({"models/README.md": LONG + " Short."}) as folder:
            found = prose.Prose(Path(folder))
            self.assertEqual(found.long_share(), 0.5)
            self.assertIn("models/README.md: One word", prose.report(found))
            self.assertEqual(len(found.excess()), 1)

    def test_forty_words_are_not_too_many(self):
        with project({"README.md": "word " * 39 + "end."}) as folder:
            self.assertEqual(prose.Prose(Path(folder)).excess(), [])

    def test_too_many_words_are_found_and_the_generated_reference_is_left_out(self):
        many = "Two words. " * (prose.MOST_WORDS // 2)
        with project({"a.md": many, "docs/reference/fields.md": many}) as folder:
            self.assertEqual(prose.Prose(Path(folder)).excess(), [])
        with project({"a.md": many + "One more."}) as folder:
            self.assertEqual(len(prose.Prose(Path(folder)).excess()), 1)


class Decisions(unittest.TestCase):
    def problems(self, text):
        return prose.decision_problems("models/DECISIONS.md", text)

    def test_dated_entries_are_fine(self):
        self.assertEqual(self.problems("# Decisions\n- We do X because Y. (2026-11-20)\n"), [])

    def test_an_entry_without_a_date_is_found(self):
        self.assertEqual(len(self.problems("- We do X because Y.\n")), 1)

    def test_more_than_thirty_are_found(self):
        self.assertEqual(len(self.problems("- We do X because Y. (2026-11-20)\n" * 31)), 1)


if __name__ == "__main__":
    unittest.main()
