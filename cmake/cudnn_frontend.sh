#!/bin/sh
# cudnn_frontend.sh FOLDER: takes the headers of the cuDNN frontend from its Python wheel into FOLDER/include. Prints one line that
# says why where that cannot be done.
set -u
folder=$1
wanted=$(dirname "$0")/cudnn_frontend.txt
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Debian's interpreter first, then whichever there is: one that has pip
for python in /usr/bin/python3 python3; do "$python" -m pip --version >/dev/null 2>&1 && break; python=; done
[ -n "$python" ] || { echo "no python3 with pip"; exit 1; }
mkdir -p "$folder"
if ! "$python" -m pip download --quiet --no-deps --only-binary :all: --require-hashes --platform manylinux_2_28_x86_64 \
     --python-version 3.11 --retries 1 --timeout 20 --dest "$folder" -r "$wanted" >"$log" 2>&1; then
  echo "no Python index gives $(sed -n 's/^\(nvidia[^ ]*\).*/\1/p' "$wanted"): $(grep -m 1 ERROR "$log")"
  exit 1
fi
"$python" - "$folder" <<'PYTHON' || { echo "its wheel in $folder cannot be unpacked"; exit 1; }
import pathlib, sys, zipfile
folder = pathlib.Path(sys.argv[1])
for wheel in folder.glob("*.whl"):
    with zipfile.ZipFile(wheel) as files:
        files.extractall(folder, [name for name in files.namelist() if name.startswith("include/")])
    wheel.unlink()
PYTHON
