"""What gpu-check concludes from made-up results: every verdict on both sides of its limit."""
from gpu_check import hopper
from gpu_check.process import Ended, say
from gpu_check.sanitizers import judge as judge_tool
from gpu_check.speed import OURS, PEER, Measured, cells_of, judge, means, table

COPY = 4e12  # B/s


def config_of(cell):
    words = cell.flags.replace("=", " ").split()
    flags = dict(zip(words[::2], words[1::2]))
    heads, rows = int(flags["--num_heads"]), int(flags["--seq_len"])
    return {"dtype": flags["--dtype"], "batch_size": int(flags["--batch_size"]), "num_heads": heads, "seq_len": rows,
            "num_kv_heads": int(flags.get("--num_kv_heads", heads)), "seq_len_k": int(flags.get("--seq_len_k", rows)),
            "head_dim": int(flags["--emb_dim"]) // heads, "causal": flags.get("--causal") == "on"}


def made_up(cells, ratio, decode_ms, megabytes):
    """Every cell `ratio` times as fast as the peer."""
    def row(cell, name, forward):
        passes = {"forward": forward, "backward": None if cell.group == "decode" else 2 * forward}
        return {"implementation": name, "status": "ok", "config": config_of(cell), "peak_memory_usage(MB)": megabytes,
                "statistics": {which: time and {"median(s)": time} for which, time in passes.items()}}
    measured = []
    for cell in cells:
        time = decode_ms / 1e3 if cell.group == "decode" else 1e-3
        measured.append(Measured(cell, row(cell, OURS, time), row(cell, PEER, time * ratio),
                                 {"ceilings": {"copy(B/s)": COPY}}))
    return measured


def made_up_hopper(ratio, milliseconds):
    """Every cell takes so long, and its peers `ratio` times that."""
    def row(cell, name, time):
        return {"implementation": name, "status": "ok", "config": config_of(cell),
                "statistics": {which: {"median(s)": time} for which in hopper.PASSES}}
    return [hopper.Both(cell, [row(cell, name, time) for name, time in (
        (hopper.OURS, milliseconds / 1e3), (hopper.CUDNN, ratio * milliseconds / 1e3),
        (hopper.FLASH2, ratio * milliseconds / 1e3))], {"ceilings": {"copy(B/s)": COPY}})
        for cell in hopper.cells_of(True)]


def missed(measured):
    return [verdict["what"] for verdict in judge(measured) if not verdict["ok"]]


def self_test():
    failures = []

    def expect(name, holds):
        if not holds:
            failures.append(name)

    cells = cells_of(False)
    expect("93 cells", len(cells) == 93)
    expect("all fine", missed(made_up(cells, 2.1, 0.3, 644)) == [])
    expect("slow, large", len(missed(made_up(cells, 0.6, 0.5, 646))) == 8)
    expect("fp32 alone", missed(made_up(cells, 1.0, 0.3, 644)) == ["fp32 forward, smallest ratio",
                                                                   "fp32 backward, smallest ratio"])
    expect("means", means(made_up(cells, 2.0, 0.3, 644))["bf16 forward"] ==
           {"geometric_mean": 2.0, "smallest": 2.0, "cells": 36})
    without_peer = made_up(cells_of(True), 2.1, 0.3, 644)
    without_peer[1].peer = {"status": "unsupported", "reason": "no PyTorch"}
    expect("no peer, no ratio", len(missed(without_peer)) == 4)
    expect("the reason is told", any("no PyTorch" in line for line in table(without_peer)))
    fast, slow = hopper.judge(made_up_hopper(1.4, 0.2)), hopper.judge(made_up_hopper(0.8, 0.8))
    expect("hopper: all fine", len(fast) == 8 and all(verdict["ok"] for verdict in fast))
    expect("hopper: all slow", not any(verdict["ok"] for verdict in slow))
    expect("hopper: report alone", [verdict["what"] for verdict in hopper.judge(made_up_hopper(1.4, 0.5))
                                    if not verdict["ok"]] == ["the reports' configuration, forward, ms"])
    expect("hopper: table", len(hopper.table(made_up_hopper(1.4, 0.2))) == 2 + 2 + 36)
    clean, passed = "ERROR SUMMARY: 0 errors", "[  PASSED  ] 3 tests."
    for name, code, output, good in (("clean", 0, f"{passed}\n{clean}", True), ("no summary", 0, passed, False),
                                     ("nothing ran", 0, clean, False), ("ended badly", 9, f"{passed}\n{clean}", False),
                                     ("finding", 0, f"{passed}\nRACECHECK SUMMARY: 1 hazard displayed", False)):
        expect(f"sanitizer: {name}", judge_tool([Ended(code, output, 1.0)])["ok"] == good)
    say(f"failed: {', '.join(failures)}" if failures else "all as expected")
    return 1 if failures else 0
