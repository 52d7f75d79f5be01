#!/usr/bin/env python3
"""Counts the prose of all Markdown files, and finds sentences that are too long.

    prose.py ROOT [--enforce]

Prose is everything but fenced code blocks, tables, comments and the generated reference (docs/reference). Prints the words of
every folder, the share of sentences over 40 words, the ten longest sentences, and what is wrong with a DECISIONS.md. Exits with 1
for too many words, too many long sentences or a wrong DECISIONS.md only with --enforce.
"""
import re
import sys
from collections import Counter
from pathlib import Path

import style

MOST_WORDS = 30_000
LONG_SENTENCE = 40
MOST_LONG_SHARE = 0.02
MOST_DECISIONS = 30
GENERATED = ("docs", "reference")

FENCE = re.compile(r"^[ >]*(```|~~~).*?(?:^[ >]*\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
TABLE_LINE = re.compile(r"^\s*\|")
NEW_BLOCK = re.compile(r"^\s*(?:[-*+]|\d+[.)]|>|#+)\s+")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
# A full stop ends a sentence where a new one can begin: at a capital, a digit, code or a bracket.
SENTENCE_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][)\"'*_]))\s+(?=[\"'(\[*_`]*[A-Z0-9`])")
ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|vs|cf|al|Fig)\.$")
WORD = re.compile(r"\w")
DECISION_DATE = re.compile(r"\((?:\d{4}-\d{2}-\d{2}(?:, )?)+\)$")


def blocks(text):
    """Paragraphs, headings and list items of a Markdown text, each as one line."""
    text = COMMENT.sub("", FENCE.sub("\n", text))
    found, block = [], []
    for line in [*text.split("\n"), ""]:
        starts = NEW_BLOCK.match(line)
        if starts or not line.strip() or TABLE_LINE.match(line):
            found.append(" ".join(block))
            block = []
        if not TABLE_LINE.match(line):
            block.append(line[starts.end() if starts else 0:].strip())
        if line.lstrip().startswith("#"):  # a heading ends with its line
            found.append(" ".join(block))
            block = []
    return [b for b in (LINK.sub(r"\1", f).strip() for f in found) if b]


def words(text):
    return sum(1 for w in text.split() if WORD.search(w))


def sentences(block):
    found = []
    for part in SENTENCE_END.split(block):
        if found and ABBREVIATION.search(found[-1]):
            found[-1] += " " + part
        else:
            found.append(part)
    return [s for s in found if words(s) > 0]


def decision_problems(path, text):
    """A DECISIONS.md holds at most 30 entries, each of which ends with its date."""
    entries = [b for b in blocks(text) if b.startswith("We ")]
    problems = [f"{path}: {len(entries)} decisions are more than {MOST_DECISIONS}"] if len(entries) > MOST_DECISIONS else []
    return problems + [f"{path}: ends without a date like (2026-11-20): {e[:60]}" for e in entries if not DECISION_DATE.search(e)]


def markdown(root):
    """Markdown files of the project and their texts, without the generated reference."""
    for path in style.all_files(root):
        if path.suffix == ".md" and path.parts[:2] != GENERATED:
            yield path, (root / path).read_text(encoding="utf-8")


class Prose:
    """What all files come to."""

    def __init__(self, root):
        self.words = Counter()   # by folder
        self.sentences = []      # (words, path, text)
        self.problems = []
        for path, text in markdown(root):
            for block in blocks(text):
                self.words[path.parts[0]] += words(block)
                self.sentences += [(words(s), path.as_posix(), s) for s in sentences(block)]
            if path.name == "DECISIONS.md":
                self.problems += decision_problems(path, text)

    def total(self):
        return sum(self.words.values())

    def long_share(self):
        return sum(n > LONG_SENTENCE for n, _, _ in self.sentences) / max(1, len(self.sentences))

    def longest(self):
        return sorted(self.sentences, key=lambda s: (-s[0], s[1]))[:10]

    def excess(self):
        found = list(self.problems)
        if self.total() > MOST_WORDS:
            found.append(f"{self.total()} words of prose are more than {MOST_WORDS}")
        if self.long_share() >= MOST_LONG_SHARE:
            found.append(f"{self.long_share():.1%} of the sentences have more than {LONG_SENTENCE} words: under {MOST_LONG_SHARE:.0%} may")
        return found


def report(prose):
    lines = [f"words of prose: {prose.total()} (at most {MOST_WORDS}): "
             + ", ".join(f"{folder} {n}" for folder, n in prose.words.most_common()),
             f"sentences: {len(prose.sentences)}, {prose.long_share():.1%} over {LONG_SENTENCE} words "
             f"(under {MOST_LONG_SHARE:.0%}); the longest:"]
    return "\n".join(lines + [f"  {n:4d} {path}: {text[:90]}" for n, path, text in prose.longest()])


def main():
    arguments = [a for a in sys.argv[1:] if a != "--enforce"]
    if len(arguments) != 1:
        sys.exit(__doc__)
    prose = Prose(Path(arguments[0]))
    print(report(prose))
    for excess in prose.excess():
        print(f"prose: {excess}")
    sys.exit(1 if "--enforce" in sys.argv and prose.excess() else 0)


if __name__ == "__main__":
    main()
