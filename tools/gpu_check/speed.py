"""The speed tables: a sweep of a grid beside its peers, then `strobe compare --require` with the limits of its name."""
from gpu_check.process import run


def run_speed(folder, grid, options):
    """grid: gpu-speed or hopper; with --quick a smaller one. The rows stay beside the JSON."""
    rows = options.json.with_name(f"{options.json.stem}-{grid}.jsonl")
    if grid == "hopper" and options.rows:
        rows = options.rows
    rows.unlink(missing_ok=True)
    program = folder / "bin/strobe"
    swept = run([program, "sweep", f"{grid}-quick" if options.quick else grid, "--time-limit", options.time_limit,
                 "--check", "off" if options.no_check else "on", "--output", rows], timeout=options.speed_timeout)
    if swept.code != 0:
        return {"ok": False, "reason": f"strobe sweep {grid}: exit code {swept.code}: {swept.output[-2000:].strip()}"}
    judged = run([program, "compare", rows, "--require", grid])
    return {"ok": judged.code == 0, "table": judged.output.splitlines(), "rows": str(rows)}
