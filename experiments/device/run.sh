#!/bin/sh
# run.sh test|bench|measure --out FOLDER [--build FOLDER] [--dry]: one part on a machine with a GPU; README.md says what it needs.
exec python3 "$(dirname "$0")/run.py" "$@"
