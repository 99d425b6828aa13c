"""Runs the four tools of compute-sanitizer on one small case of every kernel family (gpu_families_test.cpp) and on the
kernels of lab/ (tests/lab). All processes run in parallel, because a tool spends most of its time instrumenting kernels
on the host. tools/gpu-check calls it."""
import pathlib
import re
import shutil

from gpu_check.process import Ended, run, say, side_by_side

FAMILIES = "*/GpuFamilies.*"
CALLS = "GpuContract.NoRows*:GpuContract.Lengths*"  # cases that FAMILIES does not cover
# Instrumenting cuBLAS's kernels takes minutes, so racecheck and synccheck check only Strobe's kernels. initcheck must
# see every write, so it skips the implementations `standard` and `frugal`, which call cuBLAS.
OURS = ["--kernel-name", "kns=strobe"]
WITHOUT_CUBLAS = "-*/standard_*:*/frugal_*"
TOOLS = {
    "memcheck": ([], ""),
    "racecheck": (OURS, ""),
    "initcheck": ([], WITHOUT_CUBLAS),
    "synccheck": (OURS, ""),
}
SHARDS = 3  # processes per tool
LADDER = "*/GpuRungs.*"  # tests of test_lab with small sizes, because larger ones would take minutes
LADDER_SHARDS = 2  # processes per tool for the tests of LADDER


def checker():
    found = shutil.which("compute-sanitizer")
    for folder in () if found else ("/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer"):
        if (pathlib.Path(folder) / "compute-sanitizer").exists():
            found = f"{folder}/compute-sanitizer"
    return found


def run_shard(program, tool, folder, shard, suppressions, timeout):
    extra, without = TOOLS[tool]
    command = [program, "--tool", tool, "--error-exitcode", "9", *extra]
    if suppressions.exists():
        command += ["--suppressions", suppressions]
    if shard >= SHARDS:
        shards = {"GTEST_TOTAL_SHARDS": str(LADDER_SHARDS), "GTEST_SHARD_INDEX": str(shard - SHARDS)}
        return run([*command, folder / "bin/test_lab", f"--gtest_filter={LADDER}"], shards, timeout)
    command += [folder / "bin/test_attention", f"--gtest_filter={FAMILIES}:{CALLS}{without}"]
    environment = {"STROBE_TEST_SEPARATE": "1", "GTEST_TOTAL_SHARDS": str(SHARDS), "GTEST_SHARD_INDEX": str(shard)}
    if without:
        environment["STROBE_TEST_KERNEL"] = "flash2"
    return run(command, environment, timeout)


def judge(parts):
    """Returns the result of one tool's shards: ok if every shard ended normally, reported no error and ran tests."""
    summaries = [re.search(r"(?:ERROR|RACECHECK) SUMMARY: (.*)", part.output) for part in parts]
    tests = [re.search(r"\[  PASSED  \] (\d+) test", part.output) for part in parts]
    fine = [part.code == 0 and found and found[1].startswith("0 ") and passed and int(passed[1]) > 0
            for part, found, passed in zip(parts, summaries, tests)]
    result = {"ok": all(fine), "tests": sum(int(passed[1]) for passed in tests if passed),
              "summaries": [found[1] if found else f"exit code {part.code}" for part, found in zip(parts, summaries)],
              "seconds": round(max(part.seconds for part in parts), 1)}
    if not result["ok"]:
        result["output"] = [part.output[-6000:] for part, good in zip(parts, fine) if not good]
    return result


def run_sanitizers(folder, suppressions, timeout):
    program = checker()
    if not program:
        return {"ok": False, "reason": "compute-sanitizer is not found: neither in PATH nor next to nvcc"}
    jobs = [(tool, shard) for tool in TOOLS for shard in range(SHARDS + LADDER_SHARDS)]
    parts = side_by_side([lambda tool=tool, shard=shard: run_shard(program, tool, folder, shard, suppressions, timeout)
                          for tool, shard in jobs])
    results = {tool: judge([part for (name, _), part in zip(jobs, parts) if name == tool]) for tool in TOOLS}
    for tool, result in results.items():
        say(f"  {tool}: {'ok' if result['ok'] else 'FAILED'}, {result['tests']} tests, {result['seconds']} s, "
            f"{'; '.join(sorted(set(result['summaries'])))}")
    return {**results, "ok": all(result["ok"] for result in results.values())}


def self_test():
    """Checks judge() on made-up compute-sanitizer output. tests/cli/report/require_test.cpp covers the speed limits."""
    clean, passed = "ERROR SUMMARY: 0 errors", "[  PASSED  ] 3 tests."
    cases = (("clean", 0, f"{passed}\n{clean}", True), ("no summary", 0, passed, False), ("nothing ran", 0, clean, False),
             ("ended badly", 9, f"{passed}\n{clean}", False),
             ("finding", 0, f"{passed}\nRACECHECK SUMMARY: 1 hazard displayed", False))
    failures = [name for name, code, output, good in cases if judge([Ended(code, output, 1.0)])["ok"] != good]
    say(f"failed: {', '.join(failures)}" if failures else "all as expected")
    return 1 if failures else 0
