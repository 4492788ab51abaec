#!/usr/bin/env python3
"""Reads hardware counters while GPU steps run: STEP.ncu.csv, for counters.py, in a directory.

    profile_steps.py [--quick] --ncu NCU --steps DIR OUT STEP..

Each row runs by itself under Nsight Compute at the main size, and is kept if it was proved right.
--quick profiles the fastest row of a step alone. Needs nothing but Python. Exit status: 0 when
everything was profiled, 1 when something was not, 3 when the counters may not be read, 130 when
interrupted.
"""

from __future__ import annotations

import argparse
import csv
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from counters import METRICS, is_metric, launches_of
from results import MAIN_SIZE, Results

SIZE = MAIN_SIZE["gpu"]
# The kernel that makes the fp64 answer: it runs once after each of the two checks of a row.
REFERENCE = "reference_kernel"
FORBIDDEN = "ERR_NVGPUCTRPERM"


class Refused(Exception):
    """Counters may not be read here, by anyone who asks as we do."""


class Failed(Exception):
    """A step did not run, or was not proved right."""


def run(command: list) -> subprocess.CompletedProcess:
    words = [str(word) for word in command]
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1].strip()


def rows_of(program: Path) -> list:
    """The names of the rows that a step has for a GPU."""
    listed = run([program, "--list"])
    if listed.returncode != 0:
        raise Failed(last_line(listed.stdout))
    rows, on_gpu = [], False
    for line in listed.stdout.splitlines():
        if not line.startswith("  "):
            on_gpu = " on gpu: " in line
        elif on_gpu:
            rows.append(line.strip())
    if not rows:
        raise Failed(f"{program} was built without GPU code")
    return rows


def fastest_row(program: Path) -> str:
    """The name of the row that a short measurement finds fastest."""
    with tempfile.TemporaryDirectory() as scratch:
        flags = ["--device", "gpu", "--size", SIZE, "--repeats", 3, "--peer", "none"]
        timed = run([program, *flags, "--json", Path(scratch) / "times.json"])
        results = Results(Path(scratch))
    if timed.returncode != 0 or results.problems:
        raise Failed(last_line(timed.stdout))
    return results.best(program.name, "gpu").kernel


def only(row: str) -> str:
    """A regular expression for this row and no other."""
    return "^" + re.sub(r"([][\\.*^$(){}?+|])", r"\\\1", row) + "$"


def timed_run(names: list, launches: list) -> list:
    """Of all launches those of the row's last run: on the operands that are timed.

    A row runs on integers, is compared with the reference, and does both again on real numbers.
    """
    kernel = names.index("Kernel Name")
    runs: list = [[]]
    for launch in launches:
        if REFERENCE in launch[kernel]:
            runs.append([])
        else:
            runs[-1].append(launch)
    return [run for run in runs if run][-1:]


def profile(ncu: str, program: Path, row: str) -> tuple:
    """(names, units, launches) of one run of a row."""
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "log.csv"
        flags = ["--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]
        flags += ["--metrics", ",".join(METRICS), "--log-file", log]
        step = [program, "--device", "gpu", "--check-only", "--peer", "none", "--size", SIZE]
        done = run([ncu, *flags, *step, "--kernel", only(row)])
        report = log.read_text(encoding="utf-8") if log.is_file() else ""
    if FORBIDDEN in report + done.stdout:
        raise Refused
    if skipped := re.search(r"skipped \(.*\)", done.stdout):
        raise Failed(skipped[0])
    errors = re.findall(r"^==ERROR== .*", report + done.stdout, re.MULTILINE)
    if done.returncode != 0 or "verified" not in done.stdout:
        raise Failed(errors[0] if errors else last_line(done.stdout))
    names, units, launches = launches_of(report)
    runs = timed_run(names, launches) if names else []
    if not runs:
        raise Failed(errors[0] if errors else f"{ncu} reported no launch: {last_line(report)}")
    return names, units, runs[0]


def write(path: Path, profiles: list) -> None:
    """profiles: (row, names, units, launches). Keeps what tells the launch, and the metrics."""
    names = profiles[0][1]
    units = dict(zip(names, profiles[0][2]))
    told = {"Kernel Name", "Block Size", "Grid Size"}
    kept = [name for name in names if name in told or is_metric(name)]
    new = path.with_suffix(".new")
    with new.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["row", "size", *kept])
        lines.writerow(["", "", *(units[name] for name in kept)])
        for row, own_names, _units, launches in profiles:
            for launch in launches:
                values = dict(zip(own_names, launch))
                lines.writerow([row, SIZE, *(values.get(name, "") for name in kept)])
    new.replace(path)


def profile_step(ncu: str, program: Path, out: Path, quick: bool) -> bool:
    """Profiles a step and says so; False where a row of it could not be."""
    began, profiles, troubles = time.monotonic(), [], []
    print(f"{program.name:<28}", end="", flush=True)
    try:
        rows = [fastest_row(program)] if quick else rows_of(program)
    except Failed as failure:
        rows, troubles = [], [str(failure)]
    for row in rows:
        try:
            profiles.append((row, *profile(ncu, program, row)))
        except Failed as failure:
            troubles.append(f"{row}: {failure}")
    if profiles:
        write(out / f"{program.name}.ncu.csv", profiles)
    print(f"{len(profiles)} of {len(rows)} rows profiled in {time.monotonic() - began:.0f} s")
    for trouble in troubles:
        print(f"        {trouble}")
    return not troubles


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the fastest row of each step alone")
    parser.add_argument("--ncu", required=True, help="Nsight Compute's command line")
    parser.add_argument("--steps", type=Path, required=True, help="holds the built steps")
    parser.add_argument("out", type=Path, metavar="OUT", help="where STEP.ncu.csv goes")
    parser.add_argument("step", nargs="+", metavar="STEP", help="such as 09_gpu_square_tiling")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        done = [
            profile_step(options.ncu, options.steps / step, options.out, options.quick)
            for step in options.step
        ]
    except Refused:
        print(
            f"\nprofile_steps.py: the driver shows counters to administrators alone ({FORBIDDEN}): "
            "run this as root, or see docs/harness.md#counters-of-the-hardware",
            file=sys.stderr,
        )
        return 3
    except KeyboardInterrupt:
        print("\nInterrupted. The steps before this one are complete.")
        return 130
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
