"""Golden outputs: runs `tandem simulate --json` on every plan of plans/ and compares it with outputs/, number by number."""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
PLANS, OUTPUTS = FOLDER / "plans", FOLDER / "outputs"
PROGRAM = str(pathlib.Path(os.environ.get("TANDEM", "build/tandem")).resolve())
ABSENT = "absent"
# Names that a plan carries for its readers. No prediction depends on them.
NAMES = re.compile(r"plan\.(?:(?:model|parallel|training|cluster)\.)?(?:name|notes)")


def simulate(plan, name="plan"):
    """The prediction of a plan as a dictionary, with the exit code beside it; refusals have no prediction."""
    environment = {k: v for k, v in os.environ.items() if k != "TANDEM_PRESETS"}
    environment["TANDEM_MEASURED"] = str(FOLDER / "nothing_measured")  # no such folder: no table of this machine is used
    with tempfile.TemporaryDirectory(prefix="tandem_golden_") as folder:
        (pathlib.Path(folder) / f"{name}.json").write_text(json.dumps(plan))
        done = subprocess.run([PROGRAM, "simulate", "--json", f"{name}.json"], cwd=folder, capture_output=True, text=True,
                              env=environment, check=False)
    if done.returncode not in (0, 4):
        raise RuntimeError(f"{name}: exit {done.returncode}\n{done.stderr}")
    return {"exit_code": done.returncode, **(json.loads(done.stdout) if done.stdout.strip() else {})}


def plan_of(file):
    """The plan of a file, under the framework and the month that the file says."""
    plan, stack = file["plan"], file["plan"].get("stack", {})
    stack = dict(zip(("name", "as_of"), stack.split("@"))) if isinstance(stack, str) else dict(stack)
    stack.update({key: file[said] for key, said in (("name", "framework"), ("as_of", "as_of")) if file.get(said)})
    return {**plan, "stack": stack} if stack else plan


def simulate_all():
    """{name: prediction} of every plan, two at a time."""
    plans = {path.stem: plan_of(json.loads(path.read_text())) for path in sorted(PLANS.glob("*.json"))}
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        return dict(zip(plans, pool.map(simulate, plans.values(), plans)))


def stored_all():
    return {path.stem: json.loads(path.read_text()) for path in sorted(OUTPUTS.glob("*.json"))}


def compact(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")) + "\n"


def leaves(value, field=""):
    """(field, value) of everything that is compared: numbers, booleans and nulls anywhere, texts inside `plan` alone."""
    if isinstance(value, dict):
        for key in sorted(value):
            yield from leaves(value[key], f"{field}.{key}" if field else key)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from leaves(item, f"{field}[{i}]")
    elif not isinstance(value, str) or field.startswith("plan.") and not NAMES.fullmatch(field):
        yield field, value


def differences(before, after):
    """(field, before, after) of two outputs of one plan. 1 and 1.0 and true are three values, as they are printed differently."""
    old, new = dict(leaves(before)), dict(leaves(after))
    for field in sorted(old.keys() | new.keys()):
        a, b = old.get(field, ABSENT), new.get(field, ABSENT)
        if repr(a) != repr(b):
            yield field, a, b


def all_differences(before, after):
    """(plan, field, before, after) of two sets of outputs; a plan that only one of them has is one difference."""
    for name in sorted(before.keys() | after.keys()):
        if name in before and name in after:
            yield from ((name, *found) for found in differences(before[name], after[name]))
        else:
            yield name, "output", "present" if name in before else ABSENT, "present" if name in after else ABSENT
