#!/usr/bin/env bash
# alone.sh [COMMITS]   compiles (no more: nothing is written) each source and header that changed in the last so many commits (20) or not yet
# committed, alone: the builds compile the files of a room together, where one may live on the #include of another.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build
cmake --preset cpu -DCMAKE_UNITY_BUILD=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >build/alone.log 2>&1 || { tail -5 build/alone.log >&2; exit 70; }
commits=${1:-20}
# A clone without that many commits: all files.
{ git diff --name-only --diff-filter=d "HEAD~$commits" 2>/dev/null || git ls-files; git ls-files --others --exclude-standard; } >build/alone.files
exec python3 - <<'PYTHON'
import concurrent.futures, json, os, shlex, subprocess, sys
root = os.getcwd()
flags, rooms = {}, {}  # of each source; of a room's headers
for entry in json.load(open("build/cpu/compile_commands.json")):
    words = shlex.split(entry["command"])
    words = [w for w in words if not w.endswith("ccache")]
    at = words.index("-o")
    path = os.path.relpath(entry["file"], root)
    flags[path] = [w for w in words[:at] + words[at + 2 :] if w not in ("-c", entry["file"])]
    if path.startswith("src/"):
        rooms.setdefault(path.split("/")[1], flags[path])
jobs = []
for path in sorted(set(open("build/alone.files").read().split())):
    if path in flags:
        jobs.append((path, [*flags[path], path]))
    elif path.startswith("include/gpuhpc/") and path.split("/")[2] in rooms:
        jobs.append((path, [*rooms[path.split("/")[2]], "-include", path, "-x", "c++", "/dev/null"]))
def check(job):
    path, words = job
    run = subprocess.run([*words, "-fsyntax-only"], capture_output=True, text=True)
    return path, run.returncode, run.stderr
with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
    failed = [(path, text) for path, code, text in pool.map(check, jobs) if code]
for path, text in failed:
    print(text, f"alone: {path} does not compile by itself", sep="", file=sys.stderr)
print(f"alone: {len(jobs) - len(failed)} of {len(jobs)} files compile by themselves")
sys.exit(70 if failed else 0)
PYTHON
