#!/usr/bin/env python3
"""The log of fits (topology/history.json), which no program reads, stays JSON that a person can search."""
import datetime
import json
import unittest
from pathlib import Path

LOG = Path(__file__).resolve().parents[2] / "topology" / "history.json"
KEYS = ["date", "device", "about", "what", "evidence"]


def entry_problems(entry):
    if not isinstance(entry, dict) or list(entry) != KEYS:
        return [f"has not the keys {', '.join(KEYS)} in this order"]
    problems = [f"{key} is empty or no text" for key in KEYS if not isinstance(entry[key], str) or not entry[key].strip()]
    try:
        datetime.date.fromisoformat(entry["date"])
    except (TypeError, ValueError):
        problems.append("date is not like 2026-11-20")
    return problems


def problems(text):
    """What is wrong with a log; entries ascend by date."""
    try:
        log = json.loads(text)
    except ValueError as e:
        return [f"is no JSON: {e}"]
    if not isinstance(log, list) or not log:
        return ["must be a list of entries"]
    found = [f"entry {i}: {p}" for i, e in enumerate(log) for p in entry_problems(e)]
    if not found and [e["date"] for e in log] != sorted(e["date"] for e in log):
        found.append("dates must ascend: add new entries at the end")
    return found


def entry(**changes):
    return {"date": "2026-11-20", "device": "a100", "about": "launch_s", "what": "It is 23 us.", "evidence": "A fit.", **changes}


class History(unittest.TestCase):
    def test_the_log_is_a_list_of_dated_entries(self):
        self.assertEqual(problems(LOG.read_text(encoding="utf-8")), [])

    def test_what_is_wrong_with_a_log_is_found(self):
        good = entry()
        wrong = ["[", "{}", "[]", json.dumps([{"date": "2026-11-20"}]), json.dumps([entry(date="yesterday")]),
                 json.dumps([entry(what=" ")]), json.dumps([entry(evidence=3)]), json.dumps([entry(date="2026-11-21"), good])]
        for text in wrong:
            with self.subTest(text=text):
                self.assertNotEqual(problems(text), [])
        self.assertEqual(problems(json.dumps([good, entry(date="2026-11-21")])), [])


if __name__ == "__main__":
    unittest.main()
