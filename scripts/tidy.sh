#!/usr/bin/env bash
# tidy.sh [--changed | ROOM...]   clang-tidy over the sources of all rooms, or of these, or over the sources and headers that
# changed in the last 20 commits (all where there are not as many); any finding of .clang-tidy fails. The files of a room are
# read a dozen at a time, because reading LibTorch's headers takes most of the time; a dozen that does not compile as one file
# is read one by one.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build
cmake --preset cpu -DCMAKE_UNITY_BUILD=OFF -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >build/tidy.log 2>&1 || { tail -5 build/tidy.log >&2; exit 70; }
exec python3 - "$@" <<'PYTHON'
import concurrent.futures, json, os, shlex, subprocess, sys

root, wanted, changed = os.getcwd(), sys.argv[1:], None
if wanted == ["--changed"]:
    wanted = []
    diff = subprocess.run(["git", "diff", "--name-only", "--diff-filter=d", "HEAD~20", "--", "src", "include"], capture_output=True, text=True)
    if diff.returncode == 0:
        changed = [path for path in diff.stdout.split() if path.endswith((".cpp", ".hpp"))]
        if not changed:
            sys.exit(print("tidy: no source has changed"))
    print("tidy:", *(changed or ["all rooms"]))
os.makedirs("build/tidy", exist_ok=True)
rooms, flags_of = {}, {}
for entry in json.load(open("build/cpu/compile_commands.json")):
    path = os.path.relpath(entry["file"], root)
    if not path.startswith("src/") or wanted and path.split("/")[1] not in wanted:
        continue
    words, flags = shlex.split(entry["command"]), ["-Wno-everything"]
    for word, after in zip(words, words[1:] + [""]):
        if word == "-isystem":
            flags += [word, after]
        elif word.startswith(("-I", "-D", "-std=")):
            flags.append(word)
    room = path.split("/")[1]
    flags_of[room] = flags
    if changed is None or path in changed:
        rooms.setdefault(room, []).append((path, flags))
for path in changed or []:  # its sources may not have changed
    room = path.removeprefix("include/gpuhpc/").removeprefix("src/").split("/")[0]
    if path.endswith(".hpp") and room in flags_of:
        rooms.setdefault(room, []).append((path, flags_of[room]))

if not rooms:
    sys.exit("tidy: no source of these rooms is in build/cpu/compile_commands.json")


def tidy(source, flags, folders):
    run = subprocess.run(["clang-tidy", "--quiet", source, "--", *flags, *("-I" + f for f in folders)], capture_output=True, text=True)
    return run.returncode, run.stdout + ("" if run.returncode == 0 else run.stderr)


def check(group):
    number, room, files = group
    folders = sorted({os.path.dirname(os.path.join(root, path)) for path, _ in files})
    source = f"build/tidy/{room}_{number}.cpp"
    with open(source, "w") as out:
        out.writelines(f'#include "{root}/{path}"\n' for path, _ in files)
    code, text = tidy(source, files[0][1], folders)
    if "clang-diagnostic-error" in text and len(files) > 1:
        results = [tidy(path, flags, [os.path.dirname(path)]) for path, flags in files]
        code, text = max(r[0] for r in results), "".join(r[1] for r in results)
    return code, text


groups = []
for room, files in rooms.items():
    size = 1 if room == "kernels" else 12  # each kernel file sets an instruction set of its own
    for first in range(0, len(files), size):
        groups.append((first // size, room, sorted(files)[first : first + size]))
groups.sort(key=lambda group: -len(group[2]))
with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
    results = list(pool.map(check, groups))
for code, text in results:
    if code:
        print(text)
sys.exit("tidy: findings above" if any(code for code, _ in results) else 0)
PYTHON
