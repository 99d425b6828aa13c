"""Runs `strobe lm bench` for one cell. tools/lm-grid and tools/lm-compile use it."""
import json
import os
import pathlib
import subprocess
import sys

from .peer import WARM_UP

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def fail(text, code):
    print(f"{pathlib.Path(sys.argv[0]).name}: {text}", file=sys.stderr)
    sys.exit(code)


def program_of(options):
    program = options.program or ROOT / "build" / ("cuda" if options.device == "cuda" else "release") / "bin/strobe"
    if not pathlib.Path(program).exists():
        fail(f"--program {program}: no such file; ./strobe builds it", 2)
    return program


def cpu_threads():
    return len(os.sched_getaffinity(0))


def measure(program, cell, folder):
    """Runs `strobe lm bench` for the cell. Returns its result row and environment. If the cell does not fit in memory,
    the row has the status "oom"."""
    file = folder / "lm-grid-own.json"
    command = [program, "lm", "bench", "--size", cell["size"], "--precision", cell["precision"], "--batch", cell["batch"],
               "--device", cell["device"], "--pass", cell["pass"], "--steps", cell["steps"], "--warmup", WARM_UP,
               "--deterministic=off", "--quick", "--output", file]
    if cell["device"] == "cpu":
        command += ["--threads", cell["threads"]]
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if run.returncode == 3 and "no cell fits the memory" in run.stderr:
        return {"status": "oom", "reason": run.stdout.strip().splitlines()[-1]}, None
    if run.returncode != 0:
        fail(f"{' '.join(map(str, command))}: exit code {run.returncode}: {run.stderr.strip()}", 3)
    result = json.loads(file.read_text())
    file.unlink()
    return result["rows"][0], result["environment"]


def check_same_model(size, rows):
    """Exits with an error if the rows have different numbers of parameters."""
    counts = {row["parameters"] for row in rows if "parameters" in row}
    if len(counts) > 1:
        fail(f"{size}: {' and '.join(map(str, sorted(counts)))} parameters: not the same model", 3)
