#!/bin/sh
# Installs what packages.txt lists and this Debian or Ubuntu machine lacks. Touches nothing when all is there.
#   install_deps.sh --missing   only prints what is missing, a line each; on another kind of machine the whole list, and fails
set -eu
list=$(dirname "$0")/../packages.txt
lines() { sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$list"; }
installed() { dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }
available() { [ -n "$(apt-cache show --no-all-versions "$1" 2>/dev/null | head -n 1)" ]; }
debian_like() { command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; }

# satisfied "a | b": one of the alternatives is installed
satisfied() { for p in $(echo "$1" | tr '|' ' '); do installed "$p" && return 0; done; return 1; }
# choose "a | b": the first alternative that the distribution has
choose() {
  for p in $(echo "$1" | tr '|' ' '); do available "$p" && { echo "$p"; return 0; }; done
  echo "tandem: no package for '$1' in this distribution; install it by hand" >&2
  return 1
}
missing() { lines | while IFS= read -r line; do satisfied "$line" || echo "$line"; done; }

if [ "${1:-}" = --missing ]; then
  debian_like || { lines; exit 1; }
  missing
  exit 0
fi
if ! debian_like; then
  echo "tandem: not a Debian-like machine; needed are (Debian names):" $(lines | tr '\n' ',') >&2
  exit 0
fi
missing=$(missing)
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then root=
elif command -v sudo >/dev/null; then root=sudo
else
  echo "tandem: missing packages and neither root nor sudo; as root run: apt-get install" $(echo "$missing" | sed 's/ *|.*//') >&2
  exit 1
fi
echo "tandem: installing" $(echo "$missing" | tr '\n' ',') >&2
$root apt-get update -q >&2
packages=$(echo "$missing" | while IFS= read -r line; do choose "$line"; done)
$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $packages >&2
left=$(missing)
[ -z "$left" ] || { echo "tandem: still missing: $left" >&2; exit 1; }
