#!/bin/sh
# run.sh test|bench|measure|nccl --out FOLDER [--build FOLDER] [--dry]: one part on a machine with a GPU; README.md says what it needs.
if [ "${1:-}" = nccl ]; then
  shift
  exec python3 "$(dirname "$0")/nccl.py" "$@"
fi
exec python3 "$(dirname "$0")/run.py" "$@"
