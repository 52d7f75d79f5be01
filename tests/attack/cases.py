"""The attacks. Each takes a random generator, the material and an empty folder, puts damaged inputs there and says what to run."""
import dataclasses
import json
import os
import pathlib

import mutants

REFUSED = {2, 3, 4}


@dataclasses.dataclass
class Case:
    """A command, the files that it may write, and what must hold behind it."""
    arguments: list
    outputs: set = dataclasses.field(default_factory=set)  # files, or folders ending in /
    environment: dict = dataclasses.field(default_factory=dict)
    codes: set = None           # allowed exit codes; None: all but 1
    patient: bool = False       # a training may be long: it is told to end, and must
    kill_after: float = 0       # seconds until SIGKILL; 0: never
    after: object = None        # called with the run function and the folder; returns what is wrong
    stdin: bytes = b""


def plans(chance, material, folder):
    """Damaged plans, by each command that reads one."""
    name = chance.choice(("plan.json", "plan.json", "experts.json", "gpus.json"))
    plan = material.json(name)
    data = json.dumps(material.plans.bent(chance, plan)).encode("utf-8", "surrogatepass") if chance.random() < 0.6 else mutants.bent_text(chance, plan)
    (folder / "plan.json").write_bytes(data)
    material.put(folder, "text.txt")
    command = chance.choice(("simulate", "simulate", "files", "explain", "key", "report", "train"))
    if command == "train":
        return Case(["train", "plan.json", "--data", "text.txt", "--steps", "1"], patient=True)
    return {"simulate": Case(["simulate", "plan.json", *chance.choice(((), ("--json",), ("--allow-oversize",)))]),
            "files": Case(["simulate", "plan.json", "--timeline", "t.json", "--trace", "c.json", "--memory", "m.json"], {"t.json", "c.json", "m.json"}),
            "explain": Case(["explain", "plan.json"]), "key": Case(["explain", "plan.json", "step_time_s"]),
            "report": Case(["report", "plan.json"], {"plan.html"})}[command]


def studies(chance, material, folder):
    (folder / "study.json").write_bytes(mutants.bent_text(chance, material.json("study.json")))
    return Case(["sweep", "study.json", "--out", "rows", *chance.choice(((), ("--json",)))], {"rows/"})


def presets(chance, material, folder):
    """A preset of the user's own with damage in it, as TANDEM_PRESETS and as a cluster file."""
    name = chance.choice([n for n in material.files if n.startswith("presets/")])
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_bytes(mutants.bent_text(chance, material.json(name)))
    plan = material.json("gpus.json" if chance.random() < 0.6 else "plan.json")
    if name.count("/") == 3 and "topology/presets/" in name and chance.random() < 0.5:
        plan["cluster"]["preset"] = name
        environment = {}
    else:
        environment = {"TANDEM_PRESETS": str(folder / "presets")}
    (folder / "plan.json").write_text(json.dumps(plan))
    material.put(folder, "text.txt")
    arguments = chance.choice((["simulate", "plan.json"], ["simulate", "plan.json", "--json"], ["explain", "plan.json"],
                               ["explain", "plan.json", "step_time_s"], ["report", "plan.json"]))
    return Case(arguments, {"plan.html"}, environment)


def timelines(chance, material, folder):
    names = ["simulated.json", "trained.json", "routed.json"]
    material.put(folder, *names, "experts.json")
    name = chance.choice(names)
    data = material.files[name]
    (folder / name).write_bytes(mutants.bent_text(chance, json.loads(data)) if chance.random() < 0.7 else mutants.bent_bytes(chance, data))
    other = "simulated.json" if name != "simulated.json" else "trained.json"
    arguments = chance.choice((["compare", name, other], ["compare", other, name, "--json"], ["compare", name, name, "--html", "page.html"],
                               ["compare", other, name, "--tolerance", "5%"], ["report", name, "--out", "page.html"],
                               ["simulate", "experts.json", "--routing", name]))
    return Case(arguments, {"page.html"})


def checkpoints(chance, material, folder):
    material.put(folder, "plan.json", "text.txt", "state.safetensors")
    state = folder / "state.safetensors"
    data = state.read_bytes()
    kind = chance.randrange(5)
    if kind == 0:  # a header that is well-formed and wrong
        length = int.from_bytes(data[:8], "little")
        header = mutants.bent_text(chance, json.loads(data[8:8 + length]))
        state.write_bytes(sealed(len(header).to_bytes(8, "little") + header + data[8 + length:-8]))
    elif kind == 1:
        state.write_bytes(sealed(mutants.bent_bytes(chance, data[:-8])))
    elif kind == 2:
        os.truncate(state, chance.choice((0, 7, 8, len(data) - 1, len(data) + 1, 40 << 30)))
    elif kind == 3:
        state.write_bytes(chance.choice((1, 2, 2**20, 2**33, 2**63)).to_bytes(8, "little") + data[8:])
    else:
        state.write_bytes(mutants.bent_bytes(chance, data))
    return Case(["train", "plan.json", "--data", "text.txt", "--steps", "4", "--resume", "state.safetensors"], patient=True)


def sealed(data):
    """With the checksum of a checkpoint: FNV-1a of 64 bits, least byte first."""
    digest = 0xCBF29CE484222325
    for byte in data:
        digest = (digest ^ byte) * 0x100000001B3 % 2**64
    return data + digest.to_bytes(8, "little")


def rows(chance, material, folder):
    """Damaged rows: a sweep either refuses the file as another's and keeps it, or ends with the rows that it would have without."""
    material.put(folder, "study.json", "rows/results.jsonl", "rows/study.json", "rows/results.csv")
    log = folder / "rows/results.jsonl"
    damaged = mutants.bent_bytes(chance, material.files["rows/results.jsonl"])
    if chance.random() < 0.3:
        lines = damaged.splitlines(True)
        damaged = b"".join(chance.sample(lines, len(lines)))
    log.write_bytes(damaged)
    if chance.random() < 0.2:
        return Case(["report", "rows"], {"rows/report.html"})

    def after(_, code):
        if code == 3:
            return [] if log.read_bytes() == damaged else ["a refused results.jsonl was changed"]
        kept = [line for line in log.read_bytes().splitlines() if line in material.files["rows/results.jsonl"].splitlines()]
        return [] if kept == material.files["rows/results.jsonl"].splitlines() else ["the rows are not those of an undamaged sweep"]

    return Case(["sweep", "study.json", "--out", "rows"], {"rows/"}, codes={0, 3}, after=after)


def tables(chance, material, folder):
    name, plan = chance.choice((("table.json", "plan.json"), ("products.json", "gpus.json")))
    (folder / "table.json").write_bytes(mutants.bent_text(chance, material.json(name)))
    material.put(folder, plan)
    return Case([chance.choice(("simulate", "report")), plan, "--cost-table", "table.json"], {plan.replace("json", "html")})


def measurements(chance, material, folder):
    lines = material.files["records.jsonl"].splitlines()
    bent = [mutants.bent_text(chance, json.loads(line)) if chance.random() < 0.7 else line for line in lines]
    (folder / "records.jsonl").write_bytes(b"\n".join(bent) + b"\n")
    return Case(["validate", "records.jsonl", *chance.choice(((), ("--json",), ("--csv", "r.csv", "--html", "r.html")))], {"r.csv", "r.html"})


def imports(chance, material, folder):
    (folder / "config.json").write_bytes(mutants.bent_text(chance, material.json(chance.choice(("config.json", "mixtral.json")))))
    (folder / "plan.json").write_text(json.dumps({**material.json("gpus.json"), "model": {"preset": "./config.json"}}))
    return Case(chance.choice((["import", "config.json"], ["import", "config.json", "--json", "--approximate"],
                               ["import", "config.json", "--out", "model.json", "--cluster", "dgx-a100-80gb"], ["simulate", "plan.json"])), {"model.json"})


def odd_files(chance, material, folder):
    """Things in a file's place that are none, or far too large."""
    material.put(folder, "plan.json", "text.txt")
    name = "odd.json"
    kind = chance.choice(("folder", "ring", "nowhere", "hole", "empty", "/dev/zero", "/dev/null", "/dev/urandom", "long", "stdin", "locked"))
    if kind == "folder":
        (folder / name).mkdir()
    elif kind in ("ring", "nowhere"):
        (folder / name).symlink_to(name if kind == "ring" else "is/not/there")
    elif kind in ("hole", "empty", "locked"):
        (folder / name).touch(mode=0o000 if kind == "locked" else 0o644)
        os.truncate(folder / name, 40 << 30 if kind == "hole" else 0)
    else:
        name = "x" * 5000 if kind == "long" else "/dev/stdin" if kind == "stdin" else kind
    stdin = chance.choice((b"", b"\0" * 100_000, b" " * 100_000, material.files["plan.json"], material.files["text.txt"])) if kind == "stdin" else b""
    train = ["train", "plan.json", "--data", "text.txt", "--steps", "1"]
    arguments = chance.choice((["simulate", name], ["explain", name], ["report", name, "--out", "page.html"], ["sweep", name, "--out", "rows"],
                               ["compare", name, name], ["validate", name], ["simulate", "plan.json", "--cost-table", name],
                               ["simulate", "plan.json", "--perturb", name], ["simulate", "plan.json", "--routing", name], [*train, "--resume", name],
                               ["train", "plan.json", "--data", name, "--steps", "1"], ["train", name, "--data", "text.txt"]))
    return Case(arguments, {"page.html", "rows/"}, patient=arguments[0] == "train", stdin=stdin)


def over_inputs(chance, material, folder):
    """An output that is an input by one of its names: refused, and the input is as it was."""
    material.put(folder, "plan.json", "study.json", "text.txt", "state.safetensors", "simulated.json", "trained.json", "records.jsonl", "config.json",
                 "presets/topology/presets/cpu-host.json", "presets/topology/presets/devices/cpu-core.json")
    train = ["train", "plan.json", "--data", "text.txt", "--steps", "4", "--resume", "state.safetensors"]
    cluster = ["presets/topology/presets/cpu-host.json", "presets/topology/presets/devices/cpu-core.json"]
    arguments, options, inputs = chance.choice((
        (["simulate", "plan.json"], ["--timeline", "--trace", "--memory"], ["plan.json", *cluster]),
        (["import", "config.json"], ["--out"], ["config.json"]),
        (["report", "plan.json"], ["--out"], ["plan.json", *cluster]), (["report", "trained.json"], ["--out"], ["trained.json"]),
        (["compare", "simulated.json", "trained.json"], ["--html"], ["simulated.json", "trained.json"]),
        (train, ["--timeline", "--trace"], ["plan.json", "text.txt", "state.safetensors", *cluster]),
        (train, ["--save"], ["plan.json", "text.txt", *cluster]),
        (["validate", "records.jsonl"], ["--html", "--csv", "--write-errors"], ["records.jsonl", *cluster]),
        (["sweep", "study.json"], ["--out"], ["study.json"])))
    target = chance.choice(inputs)
    (folder / "sub").mkdir()
    if options == ["--out"] and arguments[0] == "sweep":
        spelling = {0: ".", 1: "sub/..", 2: "sub"}[chance.randrange(3)]
        if spelling == "sub":
            os.link(folder / target, folder / "sub/study.json") if chance.random() < 0.5 else (folder / "sub/study.json").symlink_to("../study.json")
    else:
        spelling = chance.choice((target, "./" + target, "sub/../" + target, str(folder / target), "soft", "hard", "sub/soft"))
        if spelling == "hard":
            os.link(folder / target, folder / "hard")
        elif "soft" in spelling:
            (folder / spelling).symlink_to(folder / target)
    return Case([*arguments, chance.choice(options), spelling], environment={"TANDEM_PRESETS": str(folder / "presets")}, codes={2, 3})


def killed_training(chance, material, folder):
    """SIGKILL at any moment leaves no checkpoint or a whole one."""
    material.put(folder, "plan.json", "text.txt")
    train = ["train", "plan.json", "--data", "text.txt", "--steps"]

    def after(run, _):
        if not (folder / "s.safetensors").exists():
            return []
        code, _, err = run([*train, "100000", "--resume", "s.safetensors"], patient=True)
        return [] if code == 130 else [f"the checkpoint of a killed run is not one to go on from: exit {code}: {err}"]

    return Case([*train, "100000", "--save", "s.safetensors", "--save-every", "1"], {"s.safetensors", "s.safetensors.*.new", "s.safetensors.lock"},
                kill_after=chance.choice((0.05, 0.15, 0.3, 0.6)) * (1 + chance.random()), after=after)


def killed_sweep(chance, material, folder):
    """SIGKILL at any moment leaves rows that the next sweep completes to those of one that nobody killed."""
    study = material.json("study.json")
    study["axes"][0]["values"] = list(range(30))
    study.pop("points")
    (folder / "study.json").write_text(json.dumps(study))

    def after(run, _):
        code, _, err = run(["sweep", "study.json", "--out", "rows"])
        if code != 0:
            return [f"a sweep over the rows of a killed one: exit {code}: {err}"]
        code, _, err = run(["sweep", "study.json", "--out", "fresh"])
        if code != 0:
            return [f"a sweep beside that of a killed one: exit {code}: {err}"]
        same = (folder / "rows/results.jsonl").read_bytes() == (folder / "fresh/results.jsonl").read_bytes()
        return [] if same else ["the rows are not those of a sweep that nobody killed"]

    return Case(["sweep", "study.json", "--out", "rows", "--jobs", "2"], {"rows/"}, kill_after=0.02 + chance.random() * 0.5, after=after)


KINDS = {plans: 6, studies: 3, presets: 4, timelines: 4, checkpoints: 3, rows: 2, tables: 2, measurements: 2, imports: 2, odd_files: 3, over_inputs: 3,
         killed_training: 0.5, killed_sweep: 0.5}


def choose(chance):
    return chance.choices(list(KINDS), list(KINDS.values()))[0]


def is_output(path, outputs):
    """Whether a path from the folder is one of the files that a command may write."""
    return any(path.startswith(o) if o.endswith("/") else pathlib.PurePath(path).match(o) for o in outputs)
