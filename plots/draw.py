#!/usr/bin/env python3
"""Draws every figure that a directory of results can give, as SVG and PNG.

    draw.py RESULTS_DIR [--out DIR]      DIR: RESULTS_DIR/figures where it is not given

A figure that lacks its data is named with the reason; the others go on. Exit status: 0 when at
least one figure was drawn and every file could be read, else 1.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from figures import catalogue
from results import Missing, Results
from style import save


def draw_all(results: Results, out: Path) -> int:
    """Draws into `out`, says what was drawn and what was not, and returns the number drawn."""
    out.mkdir(parents=True, exist_ok=True)
    drawn = 0
    for name, draw in catalogue(results):
        try:
            figure, caption = draw()
        except Missing as reason:
            print(f"  not drawn  {name}: {reason}")
            continue
        save(figure, caption, out, name)
        print(f"  drawn      {name}")
        drawn += 1
    return drawn


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, metavar="RESULTS_DIR", help="holds *.json")
    parser.add_argument("--out", type=Path, help="where figures go (default RESULTS_DIR/figures)")
    arguments = parser.parse_args()
    if not arguments.results.is_dir():
        parser.error(f"{arguments.results} is no directory")
    results = Results(arguments.results)
    out = arguments.out or arguments.results / "figures"
    try:
        drawn = draw_all(results, out)
    except OSError as error:
        parser.error(f"{out} cannot be written: {error.strerror}")
    for problem in results.problems:
        print(f"  unreadable {problem}", file=sys.stderr)
    print(f"{drawn} figures in {out}")
    return 0 if drawn and not results.problems else 1


if __name__ == "__main__":
    sys.exit(main())
