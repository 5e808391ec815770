#!/usr/bin/env bash
# format.sh [--check]   clang-format over all sources; --check changes nothing and fails on a file that is not formatted.
set -eu
cd "$(dirname "$0")/.."
how=(-i)
[ "${1:-}" != --check ] || how=(--dry-run --Werror)
git ls-files -z --cached --others --exclude-standard -- '*.cpp' '*.hpp' '*.inl' '*.cu' '*.cuh' |
  xargs -0 sh -c 'for f; do [ ! -e "$f" ] || printf "%s\0" "$f"; done' sh | xargs -0 clang-format "${how[@]}"
