#!/usr/bin/env python3
"""Prints one line a step: its best row, how fast that is, and whether every row was proved right.

    summary.py RESULTS_DIR
"""

from __future__ import annotations

import sys
from pathlib import Path

from results import Results, Row, show_shape, steps_of

HEADER = ("step", "on", "best row", "shape", "GFLOP/s", "of peak", "of peer", "FLOP/byte", "check")


def share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def check_of(rows: list) -> str:
    """The label of a row that is not exact where there is one."""
    return max((row.label or "not checked" for row in rows), key=lambda label: "exact" not in label)


def best_of(rows: list) -> Row:
    """The fastest row at the shape with the most work; what is only counted has no speed to show."""
    most = max(row.flops for row in rows)
    there = [row for row in rows if row.flops == most]
    return max(there, key=lambda row: row.gflops if row.timed else row.intensity("global") or 0)


def line_of(results: Results, step: str, device: str, rows: list) -> tuple:
    row = best_of(rows)
    rate, of_peak, of_peer = "-", "-", "-"
    if row.timed:
        peer = results.peer_of(row)
        rate = f"{row.gflops:.1f}"
        of_peak = share(row.of_peak, 1) if row.of_peak else "-"
        of_peer = share(row.gflops, peer.gflops if peer else 0)
    intensity = row.intensity("global")
    return (
        step, device, row.kernel, show_shape(row.shape), rate, of_peak, of_peer,
        f"{intensity:.2f}" if intensity else "-", check_of(rows),
    )


def lines(results: Results) -> list:
    """A step is shown on the devices that timed it, or where none did, as it was counted."""
    table = []
    for step in steps_of(results.rows):
        own = results.select(lambda row: row.step == step)
        shown = [row for row in own if row.timed] or own
        for device in sorted({row.device for row in shown}):
            table.append(line_of(results, step, device, [r for r in shown if r.device == device]))
    return table


def main() -> int:
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        print("usage: summary.py RESULTS_DIR", file=sys.stderr)
        return 2
    results = Results(Path(sys.argv[1]))
    table = [HEADER] + lines(results)
    widths = [max(map(len, column)) for column in zip(*table)]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    for problem in results.problems:
        print(f"unreadable: {problem}", file=sys.stderr)
    return 1 if results.problems else 0


if __name__ == "__main__":
    sys.exit(main())
