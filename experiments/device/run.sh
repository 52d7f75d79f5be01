#!/bin/sh
# run.sh PART --out FOLDER [--build FOLDER] [--programs FILE] [--seconds S] [--dry]: a part on a machine with a GPU. Without programs in
# --build it unpacks FILE there, or a programs.tar.xz that lies in it or beside it. README.md says what the machine needs.
if [ "${1:-}" = nccl ]; then
  shift
  exec python3 "$(dirname "$0")/nccl.py" "$@"
fi
exec python3 "$(dirname "$0")/run.py" "$@"
