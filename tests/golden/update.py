#!/usr/bin/env python3
"""Writes the golden outputs anew and prints what changed, by field: the body of the commit that means the change.

    TANDEM=build/tandem tests/golden/update.py
"""
import golden
import summary


def write(outputs):
    golden.OUTPUTS.mkdir(exist_ok=True)
    for path in golden.OUTPUTS.glob("*.json"):
        if path.stem not in outputs:
            path.unlink()
    for name, output in outputs.items():
        (golden.OUTPUTS / f"{name}.json").write_text(golden.compact(output))


def main():
    before, after = golden.stored_all(), golden.simulate_all()
    rows = list(golden.all_differences(before, after))
    write(after)
    print(f"{len({row[0] for row in rows})} of {len(after)} golden outputs changed, {len(rows)} values")
    print("\n".join(summary.by_field(rows)))


if __name__ == "__main__":
    main()
