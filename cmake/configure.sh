#!/bin/sh
# configure.sh PRESET: configures the build tree of a preset. Where that fails and packages are missing, it ends with their list;
# CMake's own text stands only where it is the cause.
set -eu
here=$(dirname "$0")
cd "$here/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT

if ! command -v cmake >/dev/null; then echo "tandem: there is no cmake" > "$log"
elif cmake --preset "$1" > "$log" 2>&1; then cat "$log"; exit 0
fi
if ! missing=$("$here/install_deps.sh" --missing); then  # not a Debian-like machine: nobody knows what is missing
  cat "$log" >&2
  echo "tandem: the build cannot be configured; it needs (Debian names):" >&2
elif [ -n "$missing" ]; then
  echo 'tandem: the build cannot be configured: run `make install-deps`, or install by hand:' >&2
else
  cat "$log" >&2
  exit 1
fi
echo "$missing" | sed 's/^/  /' >&2
exit 1
