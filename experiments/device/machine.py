"""The machine that parts run on, and programs that end with all that they started."""
import datetime
import glob
import importlib.util
import lzma
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DRIVER = Path("/proc/driver/nvidia")  # what the driver tells without nvidia-smi
TOOLS = ("/usr/local/cuda*/bin", "/usr/local/cuda*/compute-sanitizer")


def first_line(command):
    """Returns the first line that a command prints; empty if it is missing or fails."""
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else ""


def text_of(file):
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def card_and_driver(driver=DRIVER):
    """Returns the name of the first card and the driver's version, by nvidia-smi or else by the driver's own files; empty if unknown."""
    card, _, version = first_line(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]).partition(", ")
    if card:
        return card, version
    model = next((m for f in sorted(driver.glob("gpus/*/information")) if (m := re.search(r"^Model:\s*(.*\S)", text_of(f), re.MULTILINE))), None)
    number = re.search(r"NVRM version:.*?\s(\d+\.\d+[.\d]*)\s", text_of(driver / "version"))
    return model.group(1) if model else "", number.group(1) if number else ""


def tool(name, places=TOOLS):
    """Returns the path of a program of the CUDA toolkit, which often is not on PATH; its name if it is nowhere."""
    found = [p for place in places for p in sorted(glob.glob(f"{place}/{name}"), reverse=True) if os.access(p, os.X_OK)]
    return shutil.which(name) or (found[0] if found else name)


def facts(build):
    card, driver = card_and_driver()
    commit = build / "commit"
    return {"card": card, "driver": driver, "date": datetime.date.today().isoformat(),
            "commit": commit.read_text(encoding="utf-8").strip() if commit.exists() else ""}


def unpack(build, programs):
    """Unpacks build.sh's programs into `build` if it has none. `programs`: their file, or None, for one in `build` or beside it."""
    if (build / "tandem").exists():
        return
    file = programs or next((f for f in (build / "programs.tar.xz", build.parent / "programs.tar.xz") if f.exists()), None)
    if file is None:
        return
    build.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(file) as packed:
            packed.extractall(build, filter="data")
    except (OSError, tarfile.TarError, lzma.LZMAError, EOFError) as e:
        sys.exit(f"run.sh: {file} cannot be unpacked into {build}: {e}")


def unsuitable(build, capability=None):
    """Returns why this machine's card cannot run the programs in `build`; empty if it can or nobody knows. `capability`: the card's, such
    as "9.0", by nvidia-smi if None."""
    built = re.findall(r"(\d+)\d[a-z]?-real", text_of(build / "architecture"))
    card = capability or first_line(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"])
    major = card.partition(".")[0]
    if not built or not major.isdigit() or major in built:
        return ""
    return (f"{build} has programs for cards of compute capability {' and '.join(m + '.x' for m in built)}, and this one has {card}: build them elsewhere with "
            f"experiments/device/build.sh FOLDER {card.replace('.', '')}-real")


def cluster():
    """Returns the preset of this card's cluster; that of an H100 where there is none."""
    words = card_and_driver()[0].lower().split()
    return next(("dgx-" + w for w in words if w in ("h100", "h200")), "dgx-h100")


def libraries():
    """Returns the folders of CUDA libraries that PyTorch installs among Python's packages."""
    spec = importlib.util.find_spec("nvidia")
    roots = list(spec.submodule_search_locations) if spec else []
    return sorted({os.path.dirname(p) for root in roots for p in glob.glob(root + "/*/lib/*.so*")})


def surroundings():
    path = ":".join([*libraries(), os.environ.get("LD_LIBRARY_PATH", "")]).strip(":")
    return os.environ | {"LD_LIBRARY_PATH": path, "TANDEM_PRESETS": str(ROOT), "TANDEM_SOURCE": str(ROOT)}


def start(command, environment):
    """Starts a program in a session of its own, with its output in pipes."""
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                            start_new_session=True)


def finish(program, seconds):
    """Waits. Returns exit code, stdout and stderr. After `seconds` the code is None, and the program's whole session is killed: what
    a killed program started would keep its pipes and the device."""
    try:
        out, err = program.communicate(timeout=seconds)
        return program.returncode, out, err
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)
        try:
            out, err = program.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            out, err = "", ""  # what left the session keeps the pipes
        return None, out, err + f"\nended after {seconds:.0f} s"


def ended(command, environment, seconds):
    """Runs a program: see finish(). A program that is not there has exit code 127."""
    try:
        return finish(start(command, environment), seconds)
    except OSError as e:
        return 127, "", str(e)
