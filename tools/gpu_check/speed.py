"""The speed table: flash2 beside PyTorch in one run of `strobe bench`, in turns, cell by cell; ratios, their geometric
means and smallest cells against the limits that this path is held to."""
import collections
import json
import math
import pathlib
import tempfile

from gpu_check.process import run

Cell = collections.namedtuple("Cell", "group flags")
OURS, PEER = "flash2", "torch-sdpa"
LENGTHS = [512, 1024, 2048, 4096, 8192, 16384]
MEMORY = Cell("memory", "--dtype fp16 --batch_size 16 --seq_len 1024 --num_heads 32 --emb_dim 2048 --causal=on")
MEMORY_LIMIT = 645  # MB = 2^20 bytes, of forward and backward in that configuration
COPY_SHARE = 0.8  # of the copy rate (read and written), reached by decoding with at least 1 GiB of K and V


def cells_of(quick):
    """B * S = 16384 and 2048 columns in 16 bits; fp32 with 8 heads; one query row over long caches."""
    cells = [MEMORY]
    for dtype in ["bf16"] if quick else ["bf16", "fp16"]:
        for dim in (64, 128, 256):
            for length in LENGTHS[::5] if quick else LENGTHS:
                shape = (f"--dtype {dtype} --batch_size {16384 // length} --seq_len {length} "
                         f"--num_heads {2048 // dim} --emb_dim 2048")
                cells += [Cell("16 bits", f"{shape} --causal={causal}") for causal in ("off", "on")]
    for dim in (32, 64):
        for length in [512, 16384] if quick else [*LENGTHS, 32768]:
            cells.append(Cell("fp32", f"--dtype fp32 --batch_size {max(1, 16384 // length)} --seq_len {length} "
                                      f"--num_heads 8 --emb_dim {8 * dim}"))
    for keys in [8192, 131072] if quick else [8192, 32768, 131072]:
        for batch in ((1 << 30) // cache_bytes(1, 4, keys, 128, 2), 1):
            cells.append(Cell("decode", f"--dtype bf16 --batch_size {batch} --seq_len 1 --seq_len_k {keys} "
                                        "--num_heads 32 --num_kv_heads 4 --emb_dim 4096 --pass forward"))
    return cells


def cache_bytes(batch, kv_heads, keys, dim, element):
    return 2 * batch * kv_heads * keys * dim * element  # K and V


def run_speed(folder, options):
    cells = cells_of(options.quick)
    with tempfile.TemporaryDirectory() as scratch:
        listed, output = pathlib.Path(scratch) / "cells", pathlib.Path(scratch) / "rows.json"
        listed.write_text("".join(cell.flags + "\n" for cell in cells))
        ended = run([folder / "bin/strobe", "bench", "--device", "cuda", "--impl", f"{OURS},{PEER}", "--cells", listed,
                     "--time-limit", options.time_limit, "--check", "off" if options.no_check else "on",
                     "--output", output], timeout=options.speed_timeout)
        if ended.code != 0 or not output.exists():
            return {"ok": False, "reason": f"strobe bench: exit code {ended.code}: {ended.output[-2000:].strip()}",
                    "output": ended.output}  # with the cells that were measured
        rows = json.loads(output.read_text())
    environment = rows[0]["environment"]
    measured = [Measured(cell, rows[2 * n], rows[2 * n + 1], environment) for n, cell in enumerate(cells)]
    verdicts = judge(measured)
    return {"ok": all(verdict["ok"] for verdict in verdicts), "verdicts": verdicts, "means": means(measured),
            "table": table(measured), "peer": measured[0].peer.get("configuration"), "environment": environment,
            "rows": [slim(row) for row in rows]}


def slim(row):
    """A row without what all rows share, and without single samples."""
    statistics = {region: {key: value for key, value in (series or {}).items() if key != "samples(s)"}
                  for region, series in (row.get("statistics") or {}).items()}
    return {**{key: row[key] for key in row if key not in ("environment", "command")}, "statistics": statistics}


class Measured:
    """One cell: medians of both implementations."""

    def __init__(self, cell, ours, peer, environment):
        self.group, self.ours, self.peer, self.config = cell.group, ours, peer, ours["config"]
        self.copy = environment["ceilings"]["copy(B/s)"]

    @staticmethod
    def median(row, which):
        series = (row.get("statistics") or {}).get(which)
        return series["median(s)"] if row["status"] == "ok" and series else None

    def ratio(self, which):
        mine, theirs = self.median(self.ours, which), self.median(self.peer, which)
        return theirs / mine if mine and theirs else None

    def read_rate(self):
        """Bytes of K and V a second; of decoding."""
        config, seconds = self.config, self.median(self.ours, "forward")
        read = cache_bytes(config["batch_size"], config["num_kv_heads"], config["seq_len_k"], config["head_dim"], 2)
        return read / seconds if seconds else None

    def rate(self, which):
        """FLOP/s by the nominal count."""
        config, seconds = self.config, self.median(self.ours, which)
        scores = config["seq_len"] * config["seq_len_k"] / (2 if config["causal"] else 1)
        flops = 4 * config["batch_size"] * config["num_heads"] * scores * config["head_dim"]
        return flops * (1 if which == "forward" else 2.5) / seconds if seconds else None

    def name(self):
        config = self.config
        keys = f"x{config['seq_len_k']}" if config["seq_len_k"] != config["seq_len"] else ""
        mask = " causal" if config["causal"] else ""
        return (f"{config['dtype']} D {config['head_dim']} S {config['seq_len']}{keys} B {config['batch_size']} "
                f"H {config['num_heads']}{mask}")


def ratios_of(measured, group, which, dtype=None):
    found = [one.ratio(which) for one in measured if one.group == group and dtype in (None, one.config["dtype"])]
    return found if found and None not in found else None


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def means(measured):
    """Of every type and pass: geometric mean, smallest and number of the ratios to the peer."""
    result = {}
    for dtype in ("bf16", "fp16", "fp32"):
        for which in ("forward", "backward"):
            values = ratios_of(measured, "fp32" if dtype == "fp32" else "16 bits", which, dtype)
            if values:
                result[f"{dtype} {which}"] = {"geometric_mean": round(geometric_mean(values), 3),
                                              "smallest": round(min(values), 3), "cells": len(values)}
    return result


def judge(measured):
    """What the issue asks for, each with what was found; a ratio above 1 is faster than the peer."""
    verdicts = []

    def hold(what, value, limit, most=False):
        fine = value is not None and (value <= limit if most else value >= limit)
        verdicts.append({"what": what, "value": value and round(value, 3), "limit": limit, "ok": fine})

    for which in ("forward", "backward"):
        values = ratios_of(measured, "16 bits", which)
        hold(f"16 bits {which}, geometric mean of ratios", values and geometric_mean(values), 0.9)
        hold(f"16 bits {which}, smallest ratio", values and min(values), 0.7)
    for which, limit in (("forward", 2.0), ("backward", 1.5)):
        values = ratios_of(measured, "fp32", which)
        hold(f"fp32 {which}, smallest ratio", values and min(values), limit)
    shares = [one.read_rate() / one.copy for one in measured
              if one.group == "decode" and one.config["batch_size"] > 1 and one.read_rate() and one.copy]
    hold("decode of 1 GiB, smallest share of the copy rate", min(shares, default=None), COPY_SHARE)
    memory = [one.ours.get("peak_memory_usage(MB)") for one in measured if one.group == "memory"]
    hold("memory of the reports' configuration, MB", memory[0], MEMORY_LIMIT, most=True)
    return verdicts


def table(measured):
    """Markdown, a table for each group."""
    lines = []
    for group in ("16 bits", "fp32"):
        lines += ["", f"| {group} | forward ms | TFLOP/s | x {PEER} | backward ms | TFLOP/s | x {PEER} |",
                  "|---|---:|---:|---:|---:|---:|---:|"]
        for one in measured:
            if one.group == group:
                parts = [text for which in ("forward", "backward") for text in (
                    shown(one.median(one.ours, which), 1e3, 4), shown(one.rate(which), 1e-12, 1),
                    shown(one.ratio(which), 1, 2))]
                lines.append(f"| {one.name()} | {' | '.join(parts)} |{failure(one)}")
    lines += ["", f"| decode | forward ms | read GB/s | of copy | x {PEER} |", "|---|---:|---:|---:|---:|"]
    for one in measured:
        if one.group == "decode":
            share = one.read_rate() / one.copy if one.read_rate() and one.copy else None
            lines.append(f"| {one.name()} | {shown(one.median(one.ours, 'forward'), 1e3, 4)} | "
                         f"{shown(one.read_rate(), 1e-9, 0)} | {shown(share, 100, 0)} % | "
                         f"{shown(one.ratio('forward'), 1, 2)} |{failure(one)}")
    return lines[1:]


def shown(value, factor, digits):
    return "-" if value is None else f"{value * factor:.{digits}f}"


def failure(one):
    """Why a row has no times, behind its line."""
    reasons = [row.get("reason") or row["status"] for row in (one.ours, one.peer) if row["status"] != "ok"]
    return f" {'; '.join(reasons)}" if reasons else ""
