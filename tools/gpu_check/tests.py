"""Runs the GPU tests and examples of a build; tools/gpu-check calls it. The tests of the attention grid compute float64
references on the host, so their shards run in parallel on a few cores each. All other tests run one at a time, because
some check the GPU's free memory or times."""
import json
import pathlib
import tempfile
import time

from gpu_check.process import core_groups, run, say, side_by_side

GRID = "*/GpuGrid.*"
OTHERS = f"Gpu*:*/Gpu*-{GRID}"
PROCESSES = 8


def gtest(binary, pattern, environment, cores=None):
    """Runs one test executable. Returns its counts and failures."""
    result = {"passed": 0, "failed": 0, "skipped": 0, "cases": 0, "failures": []}
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        ended = run([binary, f"--gtest_filter={pattern}", f"--gtest_output=json:{report}", "--gtest_brief=1"],
                    environment, cores=cores)
        if not report.exists():
            text = f"exit code {ended.code}: {ended.output[-2000:]}"
            return {**result, "failed": 1, "failures": [{"test": binary.name, "texts": [text]}]}
        suites = json.loads(report.read_text()).get("testsuites", [])
    for suite in suites:
        for test in suite["testsuite"]:
            result["cases"] += int(test.get("cases", 0))  # number of generated cases of the attention tests, which the test records
            if test.get("failures"):
                result["failed"] += 1
                texts = [failure["failure"] for failure in test["failures"]]
                result["failures"].append({"test": f"{suite['name']}.{test['name']}", "texts": texts})
            else:
                result["skipped" if test.get("result") == "SKIPPED" else "passed"] += 1
    return result


def run_grid(binary, environment):
    groups = core_groups(PROCESSES)
    shards = [{**environment, "GTEST_TOTAL_SHARDS": str(len(groups)), "GTEST_SHARD_INDEX": str(index)}
              for index in range(len(groups))]
    return side_by_side([lambda cores=cores, shard=shard: gtest(binary, GRID, shard, cores)
                         for cores, shard in zip(groups, shards)])


def run_example(program, environment):
    ended = run([program], environment)
    result = {"passed": 0, "failed": 0, "skipped": 0, "cases": 0, "failures": []}
    result["passed" if ended.code == 0 else "skipped" if ended.code == 77 else "failed"] = 1
    if ended.code not in (0, 77):
        result["failures"] = [{"test": program.name, "texts": [ended.output[-500:]]}]
    return result


def run_tests(folder, environment, binaries="test_*"):
    """Runs all test executables and examples. Returns the summed results, ok if no test failed and at least one ran."""
    started = time.monotonic()
    parts = run_grid(folder / "bin/test_attention", environment)
    grid_seconds = round(time.monotonic() - started, 1)
    say(f"  grid: {sum(part['cases'] for part in parts)} cases in {grid_seconds} s")
    parts += [gtest(binary, OTHERS, environment) for binary in sorted((folder / "bin").glob(binaries))]
    parts += [run_example(program, environment) for program in sorted((folder / "examples").glob("example_cuda_*"))]
    total = {key: sum((part[key] for part in parts), [] if key == "failures" else 0) for key in parts[0]}
    return {**total, "grid_seconds": grid_seconds, "ok": total["failed"] == 0 and total["passed"] > 0}


def translate(folder):
    """Compiles the PTX of a build that has only PTX into a cache, and returns the environment that selects the cache.
    The driver compiles one module at a time on one core, so one process per head dimension runs in parallel."""
    environment = {"CUDA_CACHE_PATH": str(folder.resolve() / "translated"), "CUDA_CACHE_MAXSIZE": str(4 << 30)}
    side_by_side([lambda dim=dim: run(
        [folder / "bin/strobe", "bench", "--device", "cuda", "--impl", "flash2", "--dtype", "bf16", "--batch_size", "1",
         "--num_heads", "1", "--seq_len", "256", "--emb_dim", dim, "--repeats", "1", "--check", "off", "--quick",
         "--output", "-"], environment) for dim in (32, 64, 96, 128, 192, 256)])
    return environment
