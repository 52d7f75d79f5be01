#!/bin/sh
# run.sh PART --out FOLDER [--build FOLDER] [--seconds S] [--dry]: a part on a machine with a GPU; README.md says what it needs.
if [ "${1:-}" = nccl ]; then
  shift
  exec python3 "$(dirname "$0")/nccl.py" "$@"
fi
exec python3 "$(dirname "$0")/run.py" "$@"
