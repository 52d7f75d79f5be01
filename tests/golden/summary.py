"""Differences of golden outputs by field, for a commit message."""
import collections
import re


def by_field(rows):
    """One line a field: how many plans, and the smallest and largest relative change or what became what."""
    fields = collections.defaultdict(list)
    for plan, field, before, after in rows:
        fields[re.sub(r"\[\d+\]", "[]", field)].append((plan, before, after))
    return [f"{field}: {plans(found)}: {'; '.join(changes(found))}" for field, found in sorted(fields.items())]


def plans(found):
    count = len({plan for plan, _, _ in found})
    return f"{count} plan" + "s" * (count != 1)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def changes(found):
    """Relative changes of numbers that were not zero; of everything else, what became what and how often."""
    relative = [after / before - 1 for _, before, after in found if is_number(before) and is_number(after) and before != 0]
    others = collections.Counter(f"{before} -> {after}" for _, before, after in found
                                 if not (is_number(before) and is_number(after) and before != 0))
    span = [f"{100 * min(relative):+.3g} % to {100 * max(relative):+.3g} %"] if relative else []
    return span + [f"{what} in {count}" for what, count in others.most_common(5)]
