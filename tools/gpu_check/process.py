"""Runs child processes of gpu-check, with time limits and in parallel."""
import concurrent.futures
import dataclasses
import os
import signal
import subprocess
import sys
import time


@dataclasses.dataclass
class Ended:
    code: int  # 124 after the time limit, 127 if it did not start
    output: str  # standard output and standard error
    seconds: float


def say(text):
    print(text, flush=True)


def stop(text, code):
    """Prints one line and exits with the code: 2 for bad input, 3 if the machine lacks something."""
    print(f"gpu-check: {text}", file=sys.stderr, flush=True)
    sys.exit(code)


def run(command, environment=None, timeout=600, cores=None):
    """Runs the command on these cores. At the time limit kills it and all processes that it started."""
    words = [str(word) for word in command]
    if cores:
        words = ["taskset", "-c", ",".join(map(str, cores)), *words]
    started = time.monotonic()
    try:
        child = subprocess.Popen(words, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    except OSError as error:
        return Ended(127, str(error), 0)
    try:
        output, _ = child.communicate(timeout=timeout)
        code = child.returncode
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        output, _ = child.communicate()
        code, output = 124, f"{output}\nkilled after {timeout} s"
    return Ended(code, output, time.monotonic() - started)


def side_by_side(jobs):
    """Runs functions without arguments in parallel; returns their results in order."""
    with concurrent.futures.ThreadPoolExecutor(max(1, len(jobs))) as pool:
        return [future.result() for future in [pool.submit(job) for job in jobs]]


def core_groups(most):
    """Divides the cores of this process into at most `most` groups of at least two."""
    cores = sorted(os.sched_getaffinity(0))
    count = max(1, min(most, len(cores) // 2))
    return [cores[index::count] for index in range(count)]
