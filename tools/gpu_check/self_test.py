"""What gpu-check concludes from made-up output of compute-sanitizer. tests/cli/require_test.cpp has the speed tables."""
from gpu_check.process import Ended, say
from gpu_check.sanitizers import judge


def self_test():
    clean, passed = "ERROR SUMMARY: 0 errors", "[  PASSED  ] 3 tests."
    cases = (("clean", 0, f"{passed}\n{clean}", True), ("no summary", 0, passed, False), ("nothing ran", 0, clean, False),
             ("ended badly", 9, f"{passed}\n{clean}", False),
             ("finding", 0, f"{passed}\nRACECHECK SUMMARY: 1 hazard displayed", False))
    failures = [name for name, code, output, good in cases if judge([Ended(code, output, 1.0)])["ok"] != good]
    say(f"failed: {', '.join(failures)}" if failures else "all as expected")
    return 1 if failures else 0
