"""The figures. Each function draws one from the results, or raises Missing with the reason."""

from __future__ import annotations

import math
from functools import partial
from typing import Iterator

from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from results import Missing, Results, Row, device_of, show_shape, steps_of, title_of
from style import (
    COLOURS,
    DASHES,
    GREY,
    HATCHES,
    MARKERS,
    VERMILLION,
    caption_of,
    legend_below,
    new_figure,
    rate_unit,
    significant,
    spread_out,
    step_style,
)

TILED_CPU = "03_cpu_square_tiling"
LAYOUTS = "12_gpu_shared_layout"
DEVICE_NAMES = {"cpu": "CPU", "gpu": "GPU"}
PEAK_LINE = {"color": "black", "linewidth": 1.1, "linestyle": (0, (4, 2))}


def catalogue(results: Results) -> Iterator[tuple]:
    """(name, draw) of every figure that these results could give; draw() -> (figure, caption)."""
    for device in results.devices():
        for draw in (ladder, roofline, rate_against_size):
            yield f"{draw.__name__}_{device}", partial(draw, results, device)
    for step in steps_of(results.rows):
        if step == TILED_CPU:
            yield f"tile_size_{step[:2]}", partial(tile_size, results)
        elif len({row.kernel for row in results.select(lambda r: r.step == step)}) > 1:
            yield f"tiles_{step[:2]}", partial(tiles, results, step)
        if step == LAYOUTS:
            yield f"wavefronts_{step[:2]}", partial(wavefronts, results)
    yield "predicted_counted", partial(predicted_counted, results)
    yield "misses", partial(misses, results)


def log_axis(axis, low: float, high: float) -> None:
    """A logarithmic axis from low to high, with plain numbers at 1, 2, 5 x 10^n or at 10^n."""
    decades = math.log10(high / low)
    steps = (1, 2, 5) if decades < 3.2 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [m * 10.0**p for p in powers for m in steps if low <= m * 10.0**p <= high]
    number_axis(axis, ticks)
    axis.axes.set(**{f"{axis.axis_name}lim": (low, high)})


def number_axis(axis, ticks: list, form: str = "{:,.4g}") -> None:
    """A logarithmic axis with exactly these ticks, written as plain numbers."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_ticks(ticks)
    axis.set_major_formatter(FuncFormatter(lambda value, _: form.format(value)))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def error_bars(rows: list, unit: float) -> list:
    return [[row.spread[side] / unit for row in rows] for side in (0, 1)]


def bars_of_rates(ax, rows: list, labels: list, results: Results, extra: list) -> None:
    """Horizontal bars of the rates from top to bottom, the peer of each as a black diamond.

    The numbers stand in columns to the right: rate, share of the peak, ratio to the peer, then
    `extra`: (header, texts) each.
    """
    machine = rows[0].machine
    peers = [results.peer_of(row) for row in rows]
    rates = [row.gflops for row in rows + [peer for peer in peers if peer]]
    unit, unit_name = rate_unit(max(rates))
    peak = machine.peak_flops / 1e9 / unit
    ax.barh(
        range(len(rows)),
        [row.gflops / unit for row in rows],
        height=0.66,
        color=[step_style(row.step)["color"] for row in rows],
        edgecolor="black",
        linewidth=0.6,
        hatch=[HATCHES[place % len(HATCHES)] for place in range(len(rows))],
    )
    ax.errorbar(
        [row.gflops / unit for row in rows],
        range(len(rows)),
        xerr=error_bars(rows, unit),
        fmt="none",
        ecolor="black",
        elinewidth=0.9,
        capsize=2.5,
    )
    columns = [(unit_name, [significant(row.gflops / unit) for row in rows])]
    if peak:
        columns.append(("% of peak", [significant(100 * row.gflops / unit / peak, 2) for row in rows]))
        ax.axvline(peak, label="FMA peak, measured", **PEAK_LINE)
    known = [(peer.gflops / unit, place) for place, peer in enumerate(peers) if peer]
    if known:
        names = " / ".join(sorted({peer.kernel for peer in peers if peer}))
        ax.plot(*zip(*known), "d", color="black", markersize=6.5, zorder=5, label=names)
        ratios = [results.x_peer(row) for row in rows]
        columns.append(("x peer", [f"{ratio:.2f}" if ratio else "" for ratio in ratios]))
    for place, (header, texts) in enumerate(columns + extra):
        write_column(ax, 46 * (place + 1), header, texts)
    ax.set_yticks(range(len(rows)), labels)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlim(0, max(max(rates) / unit, peak) * 1.03)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel(f"{DEVICE_NAMES[rows[0].device]} rate ({unit_name})")
    legend_below(ax.figure, [ax])


def write_column(ax, offset: float, header: str, texts: list) -> None:
    """Right-aligned texts beside the rows of a bar chart, `offset` points right of the axes."""
    look = {"textcoords": "offset points", "ha": "right", "fontsize": 7.5}
    beside = {"xycoords": ("axes fraction", "data"), "xytext": (offset, 0), "va": "center"}
    for place, text in enumerate(texts):
        ax.annotate(text, (1, place), **beside, **look)
    ax.annotate(header, (1, 1), xycoords="axes fraction", xytext=(offset, 3), color=GREY, **look)


def ladder(results: Results, device: str):
    rows = results.best_rows(device)
    main = results.main_shape(device)
    labels = [
        title_of(row.step) + ("" if row.shape == main else f"\n({show_shape(row.shape)})")
        for row in rows
    ]
    figure, ax = new_figure(0.38 * len(rows) + 1.0)
    bars_of_rates(ax, rows, labels, results, [])
    ax.set_title(f"Every step's best row on the {DEVICE_NAMES[device]}", pad=16)
    return figure, caption_of(rows, f"C = A B in fp32, {show_shape(main)}")


def tiles(results: Results, step: str):
    device = device_of(step)
    timed = [row for row in results.timed(device) if row.step == step]
    if not timed:
        raise Missing(f"{step} was not timed on a {DEVICE_NAMES[device]}")
    shape = results.best(step, device).shape
    rows = [row for row in timed if row.shape == shape]
    extra = []
    if any(row.get("registers") for row in rows):
        extra.append(("registers", [f"{row.get('registers') or 0:.0f}" for row in rows]))
    if any(row.get("occupancy") for row in rows):
        extra.append(("occup. %", [f"{100 * (row.get('occupancy') or 0):.0f}" for row in rows]))
    figure, ax = new_figure(0.38 * len(rows) + 1.0)
    bars_of_rates(ax, rows, [row.kernel for row in rows], results, extra)
    ax.set_title(f"Step {title_of(step)}: influence of the tile numbers", pad=16)
    return figure, caption_of(rows, f"C = A B in fp32, {show_shape(shape)}")


def rate_against_size(results: Results, device: str):
    square = [row for row in results.timed(device) if len(set(row.shape)) == 1]
    sizes = sorted({row.shape[0] for row in square})
    if len(sizes) < 2:
        raise Missing(f"square sizes timed on the {device}: {sizes}; a curve needs two")
    unit, unit_name = rate_unit(max(row.gflops for row in square))
    figure, ax = new_figure(4.3)
    ends, drawn = [], []
    for step in steps_of(square):
        shapes = sorted({row.shape for row in square if row.step == step})
        rows = [results.best(step, device, shape) for shape in shapes]
        drawn += rows
        style = step_style(step)
        # A size like 4095 beside 4096 stands for itself: no line leads there.
        even = [row for row in rows if row.shape[0] % 8 == 0]
        odd = [row for row in rows if row.shape[0] % 8]
        line = DASHES[int(step[:2]) % len(DASHES)]
        hollow = {"linestyle": "", "markerfacecolor": "white", "markeredgecolor": style["color"]}
        for part, look in ((even, {"linestyle": line}), (odd, hollow)):
            if part:
                ax.errorbar(
                    [row.shape[0] for row in part],
                    [row.gflops / unit for row in part],
                    yerr=error_bars(part, unit),
                    elinewidth=0.8,
                    capsize=2,
                    **{**style, **look},
                )
        ends.append((rows[-1].shape[0], rows[-1].gflops / unit, title_of(step), style["color"]))
    peers = {row.shape[0]: peer for row in drawn if (peer := results.peer_of(row))}
    if peers:
        curve = [(n, peers[n].gflops / unit) for n in sorted(peers) if n % 8 == 0]
        ax.plot(*zip(*curve), color="black", marker="d", linestyle=":")
        ends.append((*curve[-1], peers[max(peers)].kernel, "black"))
    if drawn[0].machine.peak_flops:
        peak = drawn[0].machine.peak_flops / 1e9 / unit
        ax.axhline(peak, **PEAK_LINE)
        ax.annotate(
            "FMA peak, measured",
            (0, peak),
            xycoords=("axes fraction", "data"),
            xytext=(4, 3),
            textcoords="offset points",
            fontsize=7.5,
        )
    low = min(row.gflops for row in drawn) / unit
    high = max([y for _, y, _, _ in ends] + [drawn[0].machine.peak_flops / 1e9 / unit])
    log_axis(ax.yaxis, low / 1.5, high * 1.5)
    number_axis(ax.xaxis, apart(sizes, (sizes[-1] / sizes[0]) ** 0.06), "{:.0f}")
    places = spread_out([math.log(y) for _, y, _, _ in ends], math.log(high / low * 2.25) / 21)
    for (x, y, name, colour), place in zip(ends, places):
        ax.annotate(
            name,
            (x, y),
            xytext=(1.03, math.exp(place)),
            textcoords=("axes fraction", "data"),
            va="center",
            fontsize=7.5,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.5, "shrinkB": 4},
        )
    ax.set_xlabel("M = N = K (elements)")
    ax.set_ylabel(f"{DEVICE_NAMES[device]} rate ({unit_name})")
    ax.set_title("Rate against size, best row of each step")
    odd = " Hollow: sizes that are no multiple of 8." if any(n % 8 for n in sizes) else ""
    return figure, caption_of(drawn, f"C = A B in fp32.{odd}")


def apart(values: list, ratio: float) -> list:
    """The values from the largest down, without those closer than `ratio` to the last one kept."""
    kept: list = []
    for value in sorted(values, reverse=True):
        if not kept or kept[-1] >= ratio * value:
            kept.append(value)
    return kept[::-1]


def roofline(results: Results, device: str):
    rows = results.best_rows(device)
    machine = rows[-1].machine
    if not machine.peak_flops or not any(level.bytes_per_second for level in machine.levels):
        raise Missing("the ceilings (FMA peak, bandwidths) are not in the results' context")
    on_chip = [level for level in machine.levels if level.name.lower().startswith("shared")]
    panels = [("global", [level for level in machine.levels if level not in on_chip])]
    if on_chip:
        panels.append(("shared", on_chip))
    figure, axes = new_figure(3.9, (1, len(panels)), sharey=True, squeeze=False)
    unit, unit_name = rate_unit(machine.peak_flops / 1e9)
    low = min(row.gflops for row in rows) / unit
    peak = machine.peak_flops / 1e9 / unit
    for ax, (memory, levels) in zip(axes[0], panels):
        draw_roofs(ax, rows, memory, levels, unit, peak, low)
        log_axis(ax.yaxis, low / 2, peak * 2)
        ax.set_title(f"{memory} memory")
        ax.set_xlabel(f"FLOP per byte requested of {memory} memory")
    if device == "cpu":
        axes[0][0].set_title("Roofline of the CPU steps")
        axes[0][0].set_xlabel("FLOP per byte requested by the code's loads and stores")
    axes[0][0].set_ylabel(f"{DEVICE_NAMES[device]} rate ({unit_name})")
    legend_below(figure, axes[0])
    note = (
        "Roofs are measured. A point above the roof of a memory is no error: "
        "part of what it requested was answered by a nearer level"
    )
    caption = f"{show_shape(results.main_shape(device))}, best row of each step. {note}"
    return figure, caption_of(rows, caption)


def draw_roofs(ax, rows, memory, levels, unit, peak, low) -> None:
    points = [(row, row.intensity(memory)) for row in rows]
    points = [(row, x) for row, x in points if x]
    if not points:
        raise Missing(f"no step says what it requests of {memory} memory")
    compulsory = rows[-1].compulsory_intensity if memory == "global" else None
    ridges = [peak * unit * 1e9 / lv.bytes_per_second for lv in levels if lv.bytes_per_second]
    right = 3 * max([x for _, x in points] + ridges + ([compulsory] if compulsory else []))
    left = min(x for _, x in points) / 2.5
    log_axis(ax.xaxis, left, right)
    ax.plot([min(ridges), right], [peak, peak], color="black", linewidth=1.6)
    ax.annotate(
        f"FMA peak {significant(peak)}",
        (right, peak),
        xytext=(-2, 3),
        textcoords="offset points",
        ha="right",
        fontsize=7.5,
    )
    for place, level in enumerate(level for level in levels if level.bytes_per_second):
        slope = level.bytes_per_second / 1e9 / unit
        start = max(left, low / 2 / slope)
        ridge = peak / slope
        ax.plot(
            [start, ridge],
            [slope * start, peak],
            color="black",
            linewidth=1.2,
            linestyle=DASHES[place % len(DASHES)],
            label=f"{level.name}: {show_bandwidth(level.bytes_per_second)}",
        )
    if compulsory:
        ax.axvline(compulsory, color=GREY, linewidth=1, linestyle=":")
        ax.annotate(
            "compulsory",
            (compulsory, 0.02),
            xycoords=("data", "axes fraction"),
            xytext=(-2, 0),
            textcoords="offset points",
            rotation=90,
            ha="right",
            va="bottom",
            fontsize=7.5,
            color=GREY,
        )
    columns: dict = {}
    for row, x in points:
        ax.plot(
            x,
            row.gflops / unit,
            linestyle="none",
            label=title_of(row.step),
            zorder=4,
            **step_style(row.step),
        )
        columns.setdefault(round(6 * math.log10(x)), []).append((row, x))
    for column in columns.values():
        heights = [math.log(row.gflops / unit) for row, _ in column]
        for (row, x), height in zip(column, spread_out(heights, math.log(4 * peak / low) / 26)):
            ax.annotate(
                row.step[:2],
                (x, math.exp(height)),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                fontsize=7.5,
                zorder=5,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.3, "alpha": 0.7},
            )


def show_bandwidth(bytes_per_second: float) -> str:
    if bytes_per_second >= 1e12:
        return f"{significant(bytes_per_second / 1e12)} TB/s"
    return f"{significant(bytes_per_second / 1e9)} GB/s"


def tile_size(results: Results):
    """Step 03: the rate against T above, simulated and predicted misses against T below."""
    timed = [r for r in results.timed("cpu") if r.step == TILED_CPU and r.get("BM")]
    counted = results.select(
        lambda r: r.step == TILED_CPU and r.get("simulated_misses_L1") and r.get("BM")
    )
    if not timed and not counted:
        raise Missing(f"{TILED_CPU} has neither times nor simulated misses against T")
    timed, counted = largest_three(timed), largest_three(counted)
    figure, axes = new_figure(5.4, (2, 1), sharex=True)
    shapes = sorted({row.shape for row in timed + counted})
    for place, shape in enumerate(shapes):
        style = {
            "color": COLOURS[place % len(COLOURS)],
            "marker": MARKERS[place % len(MARKERS)],
            "markeredgecolor": "black",
            "markeredgewidth": 0.5,
        }
        rows = by_tile(timed, shape)
        if rows:
            axes[0].errorbar(
                [row.get("BM") for row in rows],
                [row.gflops for row in rows],
                yerr=error_bars(rows, 1.0),
                elinewidth=0.8,
                capsize=2,
                label=f"N = {shape[0]}",
                **style,
            )
        rows = by_tile(counted, shape)
        if rows:
            sides = [row.get("BM") for row in rows]
            simulated = [misses_per_fma(row, "simulated", "L1") for row in rows]
            predicted = [misses_per_fma(row, "predicted", "L1") for row in rows]
            axes[1].plot(sides, simulated, label=f"N = {shape[0]}, simulated", **style)
            axes[1].plot(
                sides,
                predicted,
                color=style["color"],
                linestyle=(0, (2, 1.2)),
                linewidth=2.2,
                label=f"N = {shape[0]}, model",
            )
    marked = {row.get("BM"): row.kernel for row in timed + counted if "(model" in row.kernel}
    for side, kernel in sorted(marked.items()):
        for ax in axes:
            ax.axvline(side, color=VERMILLION, linewidth=1.2, linestyle=(0, (4, 2)))
        axes[0].annotate(
            kernel,
            (side, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            fontsize=7.5,
            color=VERMILLION,
        )
    sides = sorted({row.get("BM") for row in timed + counted})
    number_axis(axes[1].xaxis, apart(sides, 1.15), "{:.0f}")
    axes[0].set_ylim(bottom=0)
    axes[0].set_ylabel("CPU rate (GFLOP/s)")
    axes[0].set_title("Step 03: rate and cache misses against T", pad=14)
    shown = [misses_per_fma(row, kind, "L1") for row in counted for kind in MISS_KINDS]
    if shown := [value for value in shown if value > 0]:
        log_axis(axes[1].yaxis, min(shown) / 1.4, max(shown) * 1.4)
    axes[1].set_ylabel("L1 misses per FMA (lines)")
    axes[1].set_xlabel("T, side of the square tile (elements)")
    for ax in axes:
        if ax.get_legend_handles_labels()[0]:
            ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure, caption_of(
        timed + counted, "Misses: the simulated L1 (set-associative, LRU), and the model"
    )


MISS_KINDS = ("predicted", "simulated")


def misses_per_fma(row: Row, kind: str, level: str) -> float:
    """Lines fetched into a cache for every multiplication; kind: "simulated" or "predicted"."""
    misses_of_level = row.get(f"{kind}_misses_{level}")
    return math.nan if misses_of_level is None else 2 * misses_of_level / row.flops


def largest_three(rows: list) -> list:
    """The rows of the three largest shapes: more lines than that cannot be told apart."""
    shapes = sorted({row.shape for row in rows})[-3:]
    return [row for row in rows if row.shape in shapes]


def by_tile(rows: list, shape: tuple) -> list:
    return sorted((row for row in rows if row.shape == shape), key=lambda row: row.get("BM"))


REQUESTS = (
    ("shared_load", "shared loads"),
    ("shared_store", "shared stores"),
)


def wavefronts(results: Results):
    """Step 12: how many passes of shared memory one request of a warp takes, by layout."""
    rows = results.select(lambda r: r.step == LAYOUTS and r.get("shared_load_requests"))
    if not rows:
        raise Missing(f"{LAYOUTS} was not counted on the emulator")
    shape = max(row.shape for row in rows)
    rows = [row for row in rows if row.shape == shape]
    figure, ax = new_figure(0.55 * len(rows) + 1.3)
    height = 0.36
    for kind, (counter, name) in enumerate(REQUESTS):
        values = [row.get(f"{counter}_wavefronts") / row.get(f"{counter}_requests") for row in rows]
        places = [place + (kind - 0.5) * height for place in range(len(rows))]
        ax.barh(
            places,
            values,
            height=height,
            color=COLOURS[kind],
            edgecolor="black",
            linewidth=0.6,
            hatch=HATCHES[kind],
            label=name,
        )
        for place, value in zip(places, values):
            ax.annotate(
                significant(value),
                (value, place),
                xytext=(3, 0),
                textcoords="offset points",
                va="center",
                fontsize=7.5,
            )
    ax.set_yticks(range(len(rows)), [row.kernel for row in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlim(left=0)
    ax.margins(x=0.1)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("wavefronts per request of a warp, mean over all requests")
    ax.set_title("Step 12: shared-memory wavefronts by layout")
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    note = f"Counted by executing the kernel, {show_shape(shape)}"
    return figure, caption_of(rows, note, counted=True)


def predicted_counted(results: Results):
    """FLOP/byte of every counted row: by the model, against the count of the executed kernel."""
    rows = results.select(lambda r: "counted_global_loaded" in r.counters)
    if not rows:
        raise Missing("no row was counted (run with --device emulator)")
    figure, ax = new_figure(4.6)
    ax.set_aspect("equal")
    seen, equal, total, points = set(), 0, 0, []
    for row in rows:
        for memory, filled in (("global", True), ("shared", False)):
            x, y = row.intensity(memory), row.intensity(memory, "counted_")
            if not x or not y:
                continue
            total += 1
            equal += row.bytes(memory) == row.bytes(memory, "counted_")
            points += [x, y]
            style = step_style(row.step)
            if not filled:
                style.update(markerfacecolor="white", markeredgecolor=style["color"])
                style.update(markeredgewidth=1.4)
            label = f"{title_of(row.step)}, {memory}"
            shown = label if label not in seen else "_"
            seen.add(label)
            ax.plot(x, y, linestyle="none", alpha=0.9, label=shown, **style)
    if not points:
        raise Missing("the counted rows say nothing of their predicted bytes")
    low, high = min(points) / 1.6, max(points) * 1.6
    ax.plot([low, high], [low, high], color="black", linewidth=1, zorder=1)
    for axis in (ax.xaxis, ax.yaxis):
        log_axis(axis, low, high)
    ax.set_xlabel("FLOP per byte requested, predicted by the model")
    ax.set_ylabel("FLOP per byte requested, counted by execution")
    ax.set_title("Predicted against counted")
    ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    note = f"On the diagonal the model is exact: {equal} of {total} points agree to the byte"
    return figure, caption_of(rows, note, counted=True)


def misses(results: Results):
    """CPU steps: cache misses of the model against the simulation, for each cache level."""
    levels = ("L1", "L2")
    rows = results.select(lambda r: any(r.get(f"simulated_misses_{lv}") for lv in levels))
    rows = [r for r in rows if any(r.get(f"predicted_misses_{lv}") for lv in levels)]
    if not rows:
        raise Missing("no row carries simulated and predicted misses (run with --count)")
    figure, axes = new_figure(3.9, (1, 2))
    for ax, level in zip(axes, levels):
        points = [
            (misses_per_fma(r, "predicted", level), misses_per_fma(r, "simulated", level), r)
            for r in rows
        ]
        points = [point for point in points if point[0] > 0 and point[1] > 0]
        if not points:
            ax.set_axis_off()
            continue
        for x, y, row in points:
            style = step_style(row.step)
            if power_of_two(row.shape[1]):
                style.update(markerfacecolor="white", markeredgecolor=style["color"])
            label = f"{title_of(row.step)}, N = {row.shape[1]}"
            ax.plot(x, y, linestyle="none", label=label, **style)
        values = [value for x, y, _ in points for value in (x, y)]
        low, high = min(values) / 1.8, max(values) * 1.8
        ax.plot([low, high], [low, high], color="black", linewidth=1, zorder=1)
        for axis in (ax.xaxis, ax.yaxis):
            log_axis(axis, low, high)
        ax.set_aspect("equal")
        ax.set_title(level)
        ax.set_xlabel("misses per FMA, model")
    axes[0].set_ylabel("misses per FMA, simulated")
    legend_below(figure, axes)
    note = (
        "Above the diagonal: misses that the fully associative model does not know. "
        "Hollow: rows of B a power of two apart, which compete for the same sets"
    )
    return figure, caption_of(rows, note, counted=True)


def power_of_two(number: int) -> bool:
    return number & (number - 1) == 0
