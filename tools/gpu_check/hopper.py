"""The table of Hopper's own kernels: beside cuDNN and PyTorch's FlashAttention-2 in one run of `strobe bench`, in turns,
over FlashAttention-2's grid, with the limits that they are held to."""
import json
import pathlib
import shutil
import tempfile

from gpu_check.process import run
from gpu_check.speed import LENGTHS, Cell, Measured, geometric_mean, shown, slim

OURS, CUDNN, FLASH2 = "hopper", "cudnn", "torch-flash"
LEAST_OF_FLASH2, LEAST_OF_CUDNN, MEAN_OF_CUDNN = 1.3, 0.85, 1.0
REPORT = Cell("report", "--dtype fp16 --batch_size 16 --seq_len 1024 --num_heads 32 --emb_dim 2048 --causal=on")
REPORT_MS = {"forward": 0.21, "backward": 0.70}
LEADERBOARD = Cell("leaderboard", "--dtype bf16 --batch_size 1 --seq_len 16384 --num_heads 16 --emb_dim 1024 --causal=on")
PASSES = ("forward", "backward")


def cells_of(quick):
    cells = [REPORT, LEADERBOARD]
    for dtype in ["bf16"] if quick else ["bf16", "fp16"]:
        for dim in (64, 128, 256):
            for length in LENGTHS:
                shape = (f"--dtype {dtype} --batch_size {16384 // length} --seq_len {length} "
                         f"--num_heads {2048 // dim} --emb_dim 2048")
                cells += [Cell("paper", f"{shape} --causal={causal}") for causal in ("off", "on")]
    return cells


class Both:
    """One cell against both peers."""

    def __init__(self, cell, rows, environment):
        ours, cudnn, flash2 = rows
        self.group = cell.group
        self.cudnn, self.flash2 = Measured(cell, ours, cudnn, environment), Measured(cell, ours, flash2, environment)

    def milliseconds(self, which):
        seconds = self.cudnn.median(self.cudnn.ours, which)
        return seconds and 1e3 * seconds

    def cudnn_milliseconds(self, which):
        seconds = self.cudnn.median(self.cudnn.peer, which)
        return seconds and 1e3 * seconds


def total(values):
    return None if None in values else sum(values)


def judge(measured):
    """What is asked of these kernels, each with what was found; a ratio above 1 is faster than the peer."""
    verdicts = []

    def hold(what, value, limit, most=False):
        fine = value is not None and (value < limit if most else value >= limit)
        verdicts.append({"what": what, "value": value and round(value, 3), "limit": limit, "ok": fine})

    paper = [one for one in measured if one.group == "paper"]
    for which in PASSES:
        of_flash2, of_cudnn = [one.flash2.ratio(which) for one in paper], [one.cudnn.ratio(which) for one in paper]
        hold(f"{which}, smallest ratio to {FLASH2}", None if None in of_flash2 else min(of_flash2), LEAST_OF_FLASH2)
        hold(f"{which}, smallest ratio to {CUDNN}", None if None in of_cudnn else min(of_cudnn), LEAST_OF_CUDNN)
    both = [one.cudnn.ratio(which) for one in paper for which in PASSES]
    hold(f"geometric mean of ratios to {CUDNN}", None if None in both else geometric_mean(both), MEAN_OF_CUDNN)
    for one in measured:
        if one.group == "report":
            for which, limit in REPORT_MS.items():
                hold(f"the reports' configuration, {which}, ms", one.milliseconds(which), limit, most=True)
        if one.group == "leaderboard":
            limit = total([one.cudnn_milliseconds(which) for which in PASSES])
            hold(f"leaderboard, both passes, ms, against {CUDNN}", total([one.milliseconds(which) for which in PASSES]),
                 round(limit, 3) if limit else 0, most=True)
    return verdicts


def means(measured):
    """Of every type, head dimension and pass: geometric means of the ratios to both peers."""
    result = {}
    for dtype in ("bf16", "fp16"):
        for dim in (64, 128, 256):
            for which in PASSES:
                chosen = [one for one in measured if one.group == "paper" and one.cudnn.config["dtype"] == dtype
                          and one.cudnn.config["head_dim"] == dim]
                for name in ("cudnn", "flash2"):
                    values = [getattr(one, name).ratio(which) for one in chosen]
                    if values and None not in values:
                        result[f"{dtype} D {dim} {which}, x {name}"] = {
                            "geometric_mean": round(geometric_mean(values), 3), "smallest": round(min(values), 3)}
    return result


def table(measured):
    lines = [f"| | forward ms | TFLOP/s | x {CUDNN} | x {FLASH2} | backward ms | TFLOP/s | x {CUDNN} | x {FLASH2} |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for one in measured:
        parts = [text for which in PASSES for text in (
            shown(one.milliseconds(which), 1, 4), shown(one.cudnn.rate(which), 1e-12, 1),
            shown(one.cudnn.ratio(which), 1, 2), shown(one.flash2.ratio(which), 1, 2))]
        reasons = [row.get("reason") or row["status"] for row in (one.cudnn.ours, one.cudnn.peer, one.flash2.peer)
                   if row["status"] != "ok"]
        lines.append(f"| {one.cudnn.name()} | {' | '.join(parts)} |{' ' + '; '.join(reasons) if reasons else ''}")
    return lines


def run_hopper(folder, options):
    cells = cells_of(options.quick)
    with tempfile.TemporaryDirectory() as scratch:
        listed, output = pathlib.Path(scratch) / "cells", pathlib.Path(scratch) / "rows.json"
        listed.write_text("".join(cell.flags + "\n" for cell in cells))
        ended = run([folder / "bin/strobe", "bench", "--device", "cuda", "--impl", f"{OURS},{CUDNN},{FLASH2}",
                     "--cells", listed, "--time-limit", options.time_limit, "--check",
                     "off" if options.no_check else "on", "--output", output], timeout=options.speed_timeout)
        if ended.code != 0 or not output.exists():
            return {"ok": False, "reason": f"strobe bench: exit code {ended.code}: {ended.output[-2000:].strip()}",
                    "output": ended.output}
        rows = json.loads(output.read_text())
        if options.rows:
            shutil.copyfile(output, options.rows)
    environment = rows[0]["environment"]
    measured = [Both(cell, rows[3 * n:3 * n + 3], environment) for n, cell in enumerate(cells)]
    verdicts = judge(measured)
    return {"ok": all(verdict["ok"] for verdict in verdicts), "verdicts": verdicts, "means": means(measured),
            "table": table(measured), "peer": f"{rows[1].get('kernel')}; {rows[2].get('kernel')}",
            "environment": environment, "rows": [slim(row) for row in rows]}
