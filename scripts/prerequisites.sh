#!/usr/bin/env bash
# Makes sure that what building and testing need is there: Rust, a C compiler (libsecp256k1), and
# whatever is named on the command line (COMMAND:PACKAGE, or COMMAND/MODULE:PACKAGE for a module of
# Python, or a path with a pattern in it). Missing Debian packages are installed where that needs no
# password; otherwise this says what to install.
set -euo pipefail

if ! command -v cargo >/dev/null; then
  echo "Rust is missing: install it from https://rustup.rs (the version is in Cargo.toml, rust-version)." >&2
  exit 1
fi

has() {
  case $1 in
    # A folder of which Debian has one for each version.
    /*) ls -d $1 >/dev/null 2>&1 ;;
    */*) "${1%%/*}" -c "import ${1#*/}" 2>/dev/null ;;
    *) command -v "$1" >/dev/null ;;
  esac
}
missing=()
for need in cc:gcc "$@"; do
  has "${need%%:*}" || missing+=("${need#*:}")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "Missing: ${missing[*]} (names of Debian packages). Please install them and run this again." >&2
  exit 1
fi
if [ "$(id -u)" -eq 0 ]; then
  as_root=()
elif sudo -n true 2>/dev/null; then
  as_root=(sudo -n)
else
  echo "Missing packages. As root, run: apt-get install ${missing[*]}" >&2
  exit 1
fi
echo "Installing: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
