"""How every figure looks: palette, markers, units, captions, and files that redraw unchanged."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import Iterable

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

# Okabe and Ito's palette: told apart by colour-blind readers. Its yellow is too pale for lines on
# white; grey stands in. Black is kept for roofs and peers.
ORANGE, SKY, GREEN = "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILLION, PURPLE, SILVER = "#0072B2", "#D55E00", "#CC79A7", "#999999"
COLOURS = (BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, SILVER)
GREY, LIGHT = "#666666", "#CCCCCC"
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
DASHES = ("-", (0, (5, 1.5)), (0, (3, 1, 1, 1)), (0, (1, 1)))
HATCHES = ("", "////", "....", "xxxx")
WIDTH = 7.2  # inches: the text width of a page

plt.rcParams.update(
    {
        "font.family": "DejaVu Sans",
        "font.size": 8.5,
        "axes.titlesize": 9.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.grid": True,
        "grid.color": "#DDDDDD",
        "grid.linewidth": 0.6,
        "legend.frameon": False,
        "legend.fontsize": 7.5,
        "lines.linewidth": 1.5,
        "lines.markersize": 5.5,
        "hatch.linewidth": 0.6,
        "savefig.dpi": 200,
        "svg.hashsalt": "gemm",
    }
)


def step_style(step: str) -> dict:
    """Colour and marker of a step: the same in every figure."""
    number = int(step[:2])
    return {
        "color": COLOURS[(number - 1) % len(COLOURS)],
        "marker": MARKERS[(number - 1) % len(MARKERS)],
        "markeredgecolor": "black",
        "markeredgewidth": 0.6,
    }


def new_figure(height: float, panels: tuple = (1, 1), **keywords):
    return plt.subplots(*panels, figsize=(WIDTH, height), constrained_layout=True, **keywords)


def rate_unit(gflops: float) -> tuple:
    """Divisor and name of the unit that shows a rate of this size without long numbers."""
    return (1e3, "TFLOP/s") if gflops >= 2000 else (1.0, "GFLOP/s")


def significant(value: float, digits: int = 3) -> str:
    """A number to this many significant digits, without an exponent, thousands grouped."""
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def legend_below(figure, axes, **keywords) -> None:
    """One legend for all the axes, under them, each entry once."""
    entries: dict = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels()):
            entries.setdefault(label, handle)
    keywords.setdefault("ncol", 4)
    keywords.setdefault("bbox_to_anchor", (0.5, 0.0))
    if entries:
        figure.legend(entries.values(), entries.keys(), loc="upper center", **keywords)


def spread_out(positions: list, gap: float) -> list:
    """Moves positions apart to at least `gap`, keeping their order and their common centre."""
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    groups: list = []  # [members, centre]
    for i in order:
        groups.append([[i], positions[i]])
        while len(groups) > 1:
            (a, centre_a), (b, centre_b) = groups[-2:]
            if centre_b - centre_a >= gap * (len(a) + len(b)) / 2:
                break
            merged = a + b
            centre = sum(positions[j] for j in merged) / len(merged)
            groups[-2:] = [[merged, centre]]
    moved = list(positions)
    for members, centre in groups:
        for place, i in enumerate(members):
            moved[i] = centre + (place - (len(members) - 1) / 2) * gap
    return moved


def caption_of(rows: Iterable, note: str = "", counted: bool = False, bars: bool = True) -> str:
    """What is shown, the machine and the date: what a reader needs to judge the figure alone.

    counted: the figure shows counts, which repetitions do not change. bars: it has error bars.
    """
    rows = list(rows)
    machines = list({id(row.machine): row.machine for row in rows}.values())
    names = sorted({machine.name for machine in machines})
    dates = sorted({machine.date for machine in machines})
    words = ["; ".join(names), dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"]
    for key, word in (("init", "operands"), ("cache", "cache"), ("git_revision", "revision")):
        values = sorted({machine.facts[key] for machine in machines if machine.facts.get(key)})
        if values:
            words.append(f"{word} {'/'.join(values)}")
    repeats = {len(row.rates) for row in rows if row.timed and not counted}
    if repeats and max(repeats) > 1:
        words.append(f"medians of {max(repeats)} runs")
        words += ["error bars: slowest and fastest"] if bars else []
    text = ". ".join(part.rstrip(".") for part in (note, ", ".join(words)) if part) + "."
    return text[0].upper() + text[1:]


def save(figure, caption: str, directory: Path, name: str) -> list:
    """Writes name.svg and name.png with the caption under the figure; returns the paths."""
    figure.canvas.draw()
    drawn = figure.get_tightbbox(figure.canvas.get_renderer())
    width, height = figure.get_size_inches()
    figure.text(
        drawn.x0 / width,
        (drawn.y0 - 0.08) / height,
        textwrap.fill(caption, 125),
        fontsize=7,
        color=GREY,
        va="top",
        linespacing=1.35,
    )
    paths = [directory / f"{name}.svg", directory / f"{name}.png"]
    unstamped = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
    for path in paths:
        metadata = unstamped[path.suffix[1:]]
        figure.savefig(path, bbox_inches="tight", pad_inches=0.12, metadata=metadata)
    plt.close(figure)
    return paths
