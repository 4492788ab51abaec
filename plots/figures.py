"""The figures. Each function draws one from the results, or raises Missing with the reason."""

from __future__ import annotations

import math
from functools import partial
from typing import Iterator

from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

import counters
from results import (
    BLOCKS,
    PEER,
    Missing,
    Results,
    Row,
    device_of,
    label_of,
    show_shape,
    steps_of,
    title_of,
)
from style import (
    COLOURS,
    DASHES,
    GREY,
    HATCHES,
    LIGHT,
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
REGISTERS, PACKED = "05_cpu_register_tiling", "06_cpu_packed"
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
    for step in steps_of(results.candidates):
        for draw in (tile_heat_map, occupancy):
            yield f"{draw.__name__}_{step[:2]}", partial(draw, results, step)
    yield "predicted_counted", partial(predicted_counted, results)
    yield "misses", partial(misses, results)
    for draw in (goto_picture, cpu_sizes, cpu_padding, cpu_ablation, cpu_blocking, cpu_threads):
        yield draw.__name__, partial(draw, results)


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
    peers = [results.peer_of(row) for row in rows]
    rates = [row.gflops for row in rows + [peer for peer in peers if peer]]
    unit, unit_name = rate_unit(max(rates))
    peak = max(row.machine.peak_flops for row in rows) / 1e9 / unit
    ax.barh(
        range(len(rows)),
        [row.gflops / unit for row in rows],
        height=0.66,
        color=[step_style(row.step)["color"] if is_fp32(row) else "white" for row in rows],
        edgecolor=["black" if is_fp32(row) else step_style(row.step)["color"] for row in rows],
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
        shares = [significant(100 * row.of_peak, 2) if row.of_peak else "" for row in rows]
        columns.append(("% of peak", shares))
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


def is_fp32(row: Row) -> bool:
    return row.element == "fp32"


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
        label_of(row) + ("" if row.shape == main else f"\n({show_shape(row.shape)})")
        for row in rows
    ]
    figure, ax = new_figure(0.38 * len(rows) + 1.0)
    bars_of_rates(ax, rows, labels, results, [])
    ax.set_title(f"Every step's best row on the {DEVICE_NAMES[device]}", pad=16)
    note = f"C = A B in fp32, {show_shape(main)}"
    if not all(map(is_fp32, rows)):
        note += ". Hollow: operands in BF16, with a peak of their own"
    return figure, caption_of(rows, note)


def tiles(results: Results, step: str):
    device = device_of(step)
    timed = [row for row in results.timed(device) if row.step == step]
    if not timed:
        raise Missing(f"{step} was not timed on a {DEVICE_NAMES[device]}")
    shape = results.best(step, device).shape
    rows = [row for row in timed if row.shape == shape and not BLOCKS.fullmatch(row.kernel)]
    extra = []
    if any(row.get("registers") for row in rows):
        extra.append(("registers", [f"{row.get('registers') or 0:.0f}" for row in rows]))
    if any(row.get("occupancy") for row in rows):
        extra.append(("occup. %", [f"{100 * (row.get('occupancy') or 0):.0f}" for row in rows]))
    figure, ax = new_figure(0.38 * len(rows) + 1.0)
    bars_of_rates(ax, rows, [row.kernel for row in rows], results, extra)
    ax.set_title(f"Step {title_of(step)}: influence of the tile numbers", pad=16)
    return figure, caption_of(rows, f"C = A B in fp32, {show_shape(shape)}")


def tuned_rows(results: Results, step: str) -> list:
    """The candidates of a step at the shape with the most work."""
    rows = [row for row in results.candidates if row.step == step]
    if not any(row.timed for row in rows):
        raise Missing(f"no candidate of {step} was timed (run it with --tune)")
    return of_the_largest(rows)


def tile_heat_map(results: Results, step: str):
    """The rate of each candidate: a panel for BM x BN, a cell for BK and TM x TN."""
    rows = tuned_rows(results, step)
    pairs = sorted({(row.get("BM"), row.get("BN")) for row in rows}, key=lambda p: (math.prod(p), p))
    depths = sorted({row.get("BK") for row in rows})
    threads = sorted({thread_tile(row) for row in rows}, key=lambda p: (math.prod(p), p))
    rates = [row.gflops for row in rows if row.timed]
    unit, unit_name = rate_unit(max(rates))
    across = min(4, len(pairs))
    down = math.ceil(len(pairs) / across)
    height = (0.3 * len(depths) + 0.75) * down + 0.6
    figure, axes = new_figure(height, (down, across), squeeze=False, sharex=True, sharey=True)
    look = {"cmap": "cividis", "vmin": min(rates) / unit, "vmax": max(rates) / unit}
    middle = (min(rates) + max(rates)) / 2
    for ax in axes.flat[len(pairs) :]:
        ax.set_axis_off()
    for ax, pair in zip(axes.flat, pairs):
        grid = [[math.nan] * len(threads) for _ in depths]
        for row in rows:
            if (row.get("BM"), row.get("BN")) != pair:
                continue
            y, x = depths.index(row.get("BK")), threads.index(thread_tile(row))
            if row.timed:
                # Candidates that differ in something else share a cell: the fastest is shown.
                grid[y][x] = max(row.gflops / unit, grid[y][x])
        image = ax.imshow(grid, origin="lower", aspect="auto", **look)
        for row in rows:
            if (row.get("BM"), row.get("BN")) != pair:
                continue
            y, x = depths.index(row.get("BK")), threads.index(thread_tile(row))
            if math.isnan(grid[y][x]):
                ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, hatch="////", **REFUSED))
            elif row.gflops / unit == grid[y][x]:
                colour = "white" if row.gflops < middle else "black"
                text = significant(row.gflops / unit)
                ax.text(x, y, text, ha="center", va="center", fontsize=6.5, color=colour)
        ax.set_title("{:.0f} x {:.0f}".format(*pair))
        ax.set_xticks(range(len(threads)), ["{:.0f}x{:.0f}".format(*pair) for pair in threads])
        ax.set_yticks(range(len(depths)), [f"{depth:.0f}" for depth in depths])
        ax.grid(visible=False)
    for ax in axes[:, 0]:
        ax.set_ylabel("BK")
    figure.supxlabel("TM x TN, elements of C of a thread", fontsize=8.5)
    title = f"Step {title_of(step)}: the rate by BM x BN (panels), BK and TM x TN"
    figure.suptitle(title, x=0.01, ha="left", fontsize=9.5, fontweight="bold")
    figure.colorbar(image, ax=list(axes.flat), label=unit_name)
    note = f"C = A B in fp32, {show_shape(rows[0].shape)}. Hatched: refused"
    return figure, caption_of(rows, note, bars=False)


REFUSED = {"facecolor": "white", "edgecolor": GREY, "linewidth": 0}


def thread_tile(row: Row) -> tuple:
    return row.get("TM"), row.get("TN")


def occupancy(results: Results, step: str):
    """The rate of each candidate against the share of a multiprocessor's warps that it leaves room
    for; the fastest, the slowest and those at either end are named."""
    rows = [row for row in tuned_rows(results, step) if row.timed and row.get("occupancy")]
    if not rows:
        raise Missing(f"the candidates of {step} say nothing of their occupancy")
    unit, unit_name = rate_unit(max(row.gflops for row in rows))
    figure, ax = new_figure(3.9)
    for place, threads in enumerate(sorted({thread_tile(row) for row in rows}, key=math.prod)):
        own = [row for row in rows if thread_tile(row) == threads]
        ax.plot(
            [100 * row.get("occupancy") for row in own],
            [row.gflops / unit for row in own],
            linestyle="none",
            marker=MARKERS[place % len(MARKERS)],
            color=COLOURS[place % len(COLOURS)],
            markeredgecolor="black",
            markeredgewidth=0.5,
            label="{:.0f} x {:.0f}".format(*threads),
        )
    by_rate = sorted(rows, key=lambda row: row.gflops)
    by_occupancy = sorted(rows, key=lambda row: (row.get("occupancy"), row.gflops))
    ends = {id(row): row for row in (by_rate[0], by_rate[-1], by_occupancy[0], by_occupancy[-1])}
    for row in ends.values():
        left = row.get("occupancy") > 0.5 * by_occupancy[-1].get("occupancy")
        ax.annotate(
            row.kernel,
            (100 * row.get("occupancy"), row.gflops / unit),
            xytext=(-7 if left else 7, 0),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=7.5,
            zorder=5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.3, "alpha": 0.7},
        )
    ax.set_xlim(0, min(103, 125 * by_occupancy[-1].get("occupancy")))
    ax.set_ylim(0, 1.08 * by_rate[-1].gflops / unit)
    ax.set_xlabel("occupancy, % of a multiprocessor's warps (model)")
    ax.set_ylabel(f"GPU rate ({unit_name})")
    ax.set_title(f"Step {title_of(step)}: occupancy and rate")
    ax.legend(title="TM x TN", loc="center left", bbox_to_anchor=(1.0, 0.5))
    note = f"Every candidate of --tune; C = A B in fp32, {show_shape(rows[0].shape)}"
    return figure, caption_of(rows, note, bars=False)


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
        ends.append((rows[-1].shape[0], rows[-1].gflops / unit, label_of(rows[-1]), style["color"]))
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
    rows = [row for row in results.best_rows(device) if is_fp32(row)]
    machine = max((row.machine for row in rows), key=lambda m: m.peak_flops, default=None)
    measured = machine and machine.peak_flops
    if not measured or not any(level.bytes_per_second for level in machine.levels):
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
        moved = {row.step: moved_points(results, row, memory) for row in rows}
        draw_roofs(ax, rows, moved, memory, levels, unit, peak, low)
        draw_moved(ax, rows, moved, memory, unit)
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
    if any(counters.of_row(results, row) for row in rows):
        note += (
            ". White and grey marks: bytes that hardware moved, read by Nsight Compute, "
            "on one line with those that the same row requests"
        )
    caption = f"{show_shape(results.main_shape(device))}, best row of each step. {note}"
    return figure, caption_of(rows, caption)


def draw_roofs(ax, rows, moved: dict, memory: str, levels, unit, peak, low) -> None:
    """Roofs and requested bytes; each step's number stands right of its last mark, moved or not."""
    points = [(row, row.intensity(memory)) for row in rows]
    points = [(row, x) for row, x in points if x]
    if not points:
        raise Missing(f"no step says what it requests of {memory} memory")
    compulsory = rows[-1].compulsory_intensity if memory == "global" else None
    ridges = [peak * unit * 1e9 / lv.bytes_per_second for lv in levels if lv.bytes_per_second]
    known = [x for _, x in points] + [point[0] for row in rows for point in moved[row.step]]
    right = 3 * max(known + ridges + ([compulsory] if compulsory else []))
    left = min(known) / 2.5
    log_axis(ax.xaxis, left, right)
    ax.plot([min(ridges), right], [peak, peak], color="black", linewidth=1.6)
    ax.annotate(
        f"FMA peak {significant(peak)}",
        (min(ridges), peak),
        xytext=(2, 3),
        textcoords="offset points",
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
        last = max([x] + [point[0] for point in moved[row.step]])
        columns.setdefault(round(6 * math.log10(last)), []).append((row, last))
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


# The memories of counters.MOVED that each panel of a roofline shows, and how they are filled.
MOVED_IN = {
    "global": {
        "L2": ("white", "moved from and to L2"),
        "memory": (LIGHT, "moved from and to memory"),
    },
    "shared": {"shared": ("white", "moved, whole wavefronts")},
}


def moved_points(results: Results, row: Row, memory: str) -> list:
    """(FLOP per byte moved, fill, label) of what a profiler read of a row that requests any."""
    profile = counters.of_row(results, row)
    if not profile or not row.intensity(memory):
        return []
    points = [(profile.intensity(moved), *look) for moved, look in MOVED_IN[memory].items()]
    return [point for point in points if point[0]]


def draw_moved(ax, rows, moved: dict, memory: str, unit: float) -> None:
    """Marks of measured bytes, each joined to the mark of those that its row requests."""
    labels = {}
    for row in rows:
        y, colour = row.gflops / unit, step_style(row.step)["color"]
        for x, fill, label in moved[row.step]:
            ax.plot([row.intensity(memory), x], [y, y], color=colour, linewidth=0.7, zorder=2)
            look = {**step_style(row.step), "markerfacecolor": fill, "markeredgecolor": colour}
            ax.plot(x, y, linestyle="none", zorder=3, **look)
            labels[label] = fill
    for label, fill in labels.items():
        look = {"marker": "o", "markerfacecolor": fill, "markeredgecolor": GREY}
        ax.plot([], [], linestyle="none", label=label, **look)


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


def hatched_bars(ax, places, values, height, series, label, show):
    """Horizontal bars of one series, each with its value, as `show` writes it, at its end."""
    ax.barh(
        places,
        values,
        height=height,
        color=COLOURS[series],
        edgecolor="black",
        linewidth=0.6,
        hatch=HATCHES[series],
        label=label,
    )
    for place, value in zip(places, values):
        look = {"textcoords": "offset points", "va": "center", "fontsize": 7.5}
        ax.annotate(show(value), (value, place), xytext=(3, 0), **look)


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
        hatched_bars(ax, places, values, height, kind, name, significant)
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


def fastest(rows: list) -> list:
    """The fastest of the rows at each size, by size."""
    best: dict = {}
    for row in rows:
        n = row.shape[0]
        if n not in best or row.gflops > best[n].gflops:
            best[n] = row
    return [best[n] for n in sorted(best)]


def square_rows(rows: list, step: str) -> list:
    timed = [row for row in rows if row.timed and row.device == "cpu" and not row.only_counted]
    own = [row for row in timed if row.step == step and row.complete]
    return [row for row in own if len(set(row.shape)) == 1]


def library_of(peer: Row) -> str:
    """ "OpenBLAS 0.3.21 Zen, 1 thread" -> "OpenBLAS 0.3.21 Zen": the same at every thread count."""
    return peer.kernel.split(",")[0]


def beside(rows: list, peers: list) -> dict:
    """The peers that ran in the files of these rows at their sizes, by library."""
    machines = {id(row.machine) for row in rows}
    sizes = {row.shape for row in rows}
    libraries: dict = {}
    for peer in peers:
        if id(peer.machine) in machines and peer.shape in sizes:
            libraries.setdefault(library_of(peer), []).append(peer)
    return {name: libraries[name] for name in sorted(libraries)}


def library_style(place: int) -> dict:
    return {"color": (GREY, "black", COLOURS[4], COLOURS[5])[place % 4], "markeredgewidth": 0.6}


def near_power(n: int) -> int:
    """-1 for one less than a power of two, 1 for one more, else 0; below 16 nothing is near."""
    return (power_of_two(n - 1) - power_of_two(n + 1)) if n > 16 else 0


def cpu_sizes(results: Results):
    """Step 06 and the libraries against n: rate above, share of the peak below."""
    ours = fastest(square_rows(results.rows, PACKED))
    if len(ours) < 2:
        raise Missing(f"{PACKED} was timed at {len(ours)} square sizes; a curve needs two")
    curves = [(label_of(ours[0]), ours, step_style(PACKED))]
    libraries = beside(square_rows(results.rows, PACKED), square_rows(results.rows, PEER))
    for place, (name, rows) in enumerate(libraries.items()):
        curves.append((name, fastest(rows), library_style(place)))
    figure, axes = new_figure(5.6, (2, 1), sharex=True)
    values = (lambda row: row.gflops, lambda row: 100 * row.of_peak if row.of_peak else math.nan)
    for ax, value in zip(axes, values):
        for name, rows, style in curves:
            look = {"color": style["color"], "markeredgecolor": "black", "markeredgewidth": 0.5}
            far = [row for row in rows if not near_power(row.shape[0])]
            ax.plot(
                [row.shape[0] for row in far],
                [value(row) for row in far],
                marker="o",
                markersize=4,
                label=name,
                **look,
            )
            for side, marker in ((-1, "<"), (1, ">")):
                near = [row for row in rows if near_power(row.shape[0]) == side]
                ax.plot(
                    [row.shape[0] * 1.035**side for row in near],
                    [value(row) for row in near],
                    marker,
                    markersize=5,
                    **{**look, "markerfacecolor": "white", "markeredgecolor": style["color"]},
                )
        ax.set_ylim(0, 1.08 * ax.dataLim.ymax)
    sizes = [row.shape[0] for row in ours if not near_power(row.shape[0])]
    sizes = sizes or [row.shape[0] for row in ours]
    number_axis(axes[1].xaxis, apart(sizes, max(1.01, (sizes[-1] / sizes[0]) ** 0.06)), "{:.0f}")
    axes[0].set_ylabel("CPU rate (GFLOP/s)")
    axes[0].set_title("Step 06 and the libraries, by size")
    axes[1].set_ylabel("% of FMA peak")
    axes[1].set_xlabel("M = N = K (elements)")
    legend_below(figure, [axes[0]])
    note = "Triangles, drawn to the left and right: one less and one more than a power of two"
    return figure, caption_of([row for _, rows, _ in curves for row in rows], note, bars=False)


def cpu_padding(results: Results):
    """Steps 05 and 06 with rows as long as they are, and with gaps between them."""
    figure, ax = new_figure(3.9)
    drawn: list = []
    for step in (REGISTERS, PACKED):
        padded = square_rows([row for row in results.variants if row.threads == 1], step)
        dense = fastest(square_rows(results.rows, step))
        if not padded or not dense:
            continue
        sizes = {row.shape[0] for row in padded}
        dense = [row for row in dense if row.shape[0] in sizes]
        for place, pad in enumerate([0] + sorted({row.pad for row in padded})):
            rows = fastest([row for row in padded if row.pad == pad]) if pad else dense
            drawn += rows
            hollow = {"markerfacecolor": "white"} if pad else {}
            ax.plot(
                [row.shape[0] for row in rows],
                [row.gflops for row in rows],
                linestyle=DASHES[place % len(DASHES)],
                label=f"{title_of(step)}, ld = n" + (f" + {pad}" if pad else ""),
                **{**step_style(step), **hollow},
            )
    if not drawn:
        raise Missing(f"neither {REGISTERS} nor {PACKED} was timed both without and with --pad")
    sizes = sorted({row.shape[0] for row in drawn})
    number_axis(ax.xaxis, apart(sizes, max(1.01, (sizes[-1] / sizes[0]) ** 0.06)), "{:.0f}")
    ax.set_ylim(0, 1.08 * ax.dataLim.ymax)
    ax.set_xlabel("M = N = K (elements)")
    ax.set_ylabel("CPU rate (GFLOP/s)")
    ax.set_title("Rows side by side, and with gaps between them")
    legend_below(figure, [ax])
    note = "Leading dimension ld: elements from one row of A, B or C to the next"
    return figure, caption_of(drawn, note, bars=False)


def goto_picture(results: Results):
    """Which part of A, B and C stays where, with the numbers of step 06 on this machine."""
    rows = [row for row in packed_rows(results) if row.kernel == "complete" and row.get("BK")]
    if not rows:
        raise Missing(f'{PACKED} was not timed with its row "complete"')
    row = rows[-1]
    KC, NC, MR, NR = (int(row.get(name)) for name in ("BK", "BN", "TM", "TN"))
    sizes = {level.name: level.bytes for level in row.machine.levels}
    if not {"L1", "L2"} <= sizes.keys():
        raise Missing("the sizes of L1 and L2 are not in the results' context")
    figure, ax = new_figure(4.3)
    ax.set_axis_off()
    ax.set_xlim(0, 100)
    ax.set_ylim(0, 58)
    blue, orange, green = COLOURS[:3]  # B, A, C

    def box(x, y, width, height, colour, alpha=0.12, line=1.0):
        look = {"edgecolor": "black", "linewidth": line}
        ax.add_patch(Rectangle((x, y), width, height, facecolor="none", **look))
        ax.add_patch(Rectangle((x, y), width, height, facecolor=colour, alpha=alpha))

    def word(x, y, text, **look):
        ax.text(x, y, text, **{"ha": "center", "va": "center", "fontsize": 7.5, **look})

    def arrow(start, end, style="-|>", bend=0.0):
        look = {"arrowstyle": style, "color": "black", "shrinkA": 1, "shrinkB": 1, "linewidth": 1.1}
        ax.annotate("", end, start, arrowprops={**look, "connectionstyle": f"arc3,rad={bend}"})

    titles = {
        0: "memory",
        41: f"L2, {show_size(sizes['L2'])}",
        62: f"L1, {show_size(sizes['L1'])}",
        82: "registers",
    }
    for x, title in titles.items():
        width = {0: 38, 41: 18}.get(x, 17)
        box(x, 0, width, 53, GREY, alpha=0.06, line=0.6)
        word(x + width / 2, 55.5, title, fontweight="bold", fontsize=8.5)

    # Memory: B above C, A to the left of C.
    box(16, 29, 20, 20, blue)
    word(26, 51, "B   K x N")
    box(20, 39, 5, 6, blue, 0.8)
    word(19.5, 42, "KC", ha="right", fontsize=6.5)
    word(22.5, 46.3, "NC", fontsize=6.5)
    box(1.5, 3, 13, 20, orange)
    word(8, 25, "A   M x K")
    box(5, 13, 5, 1.6, orange, 0.8)
    word(4.6, 13.8, "MR", ha="right", fontsize=6.5)
    word(7.5, 16, "KC", fontsize=6.5)
    box(16, 3, 20, 20, green)
    word(30, 25, "C   M x N")
    box(22, 13, 2, 1.6, green, 0.9)
    word(21.6, 13.8, "MR", ha="right", fontsize=6.5)
    word(23, 16, "NR", fontsize=6.5)

    # L2: the packed block, panel beside panel.
    panels = max(1, NC // NR)
    box(44, 33, 12, 13, blue, 0.35)
    for panel in range(1, panels):
        ax.plot([44 + 12 * panel / panels] * 2, [33, 46], color="black", linewidth=0.5)
    box(44, 33, 12 / panels, 13, blue, 0.8)
    word(50, 48.5, f"block of B, packed:\n{panels} panels of {NR} columns")
    word(50, 29, f"KC x NC = {KC} x {NC}\n{show_size(4 * KC * NC)}, {share(KC * NC, sizes['L2'])}")

    # L1: the strip of A, in place.
    box(63.5, 13, 14, 1.6, orange, 0.8)
    word(70.5, 17.5, "strip of A, in place")
    word(70.5, 9, f"MR x KC = {MR} x {KC}\n{show_size(4 * MR * KC)}, {share(MR * KC, sizes['L1'])}")
    word(70.5, 43, f"panels of B\nstream through:\n{4 / MR:.2f} bytes an FMA", fontsize=7)

    # Registers: the tile, with a row of B above and an element of A beside it.
    box(85.5, 20, 11, 1.6, blue, 0.8)
    word(91, 23.8, f"a row of {NR} of B")
    box(85.5, 10, 11, 8, green, 0.5)
    word(91, 14, f"{MR} x {NR}\nsums", fontsize=7)
    box(83.4, 15.6, 1.2, 1.6, orange, 0.8)
    word(90.5, 6, f"MR x NR = {MR} x {NR}\n{loads_per_fma(MR, NR)}", fontsize=7)

    arrow((25, 42), (44, 39.5))
    word(31, 44, "copied once", fontsize=7)
    arrow((56, 39.5), (85.5, 20.8))
    arrow((77.5, 13.8), (83.4, 16.4))
    arrow((10, 13.2), (63.5, 13.2), bend=0.32)
    word(50, 12, f"fetched for each\n{NC} columns", fontsize=7)
    arrow((24, 14.3), (85.5, 17.5), style="<|-|>", bend=-0.14)
    word(50, 23.5, f"added to once for each\n{KC} of K", fontsize=7)
    ax.set_title("Step 06: what stays where, and how large it is here")
    return figure, caption_of([row], "Rectangles are not to scale", counted=True)


def show_size(size: float) -> str:
    return f"{size / 2**20:g} MiB" if size >= 2**20 else f"{size / 2**10:g} KiB"


def share(floats: int, of: float) -> str:
    return f"{400 * floats / of:.0f} % of it"


def loads_per_fma(MR: int, NR: int) -> str:
    return f"{MR + NR} floats for {MR * NR} FMAs"


def of_the_largest(rows: list) -> list:
    """The rows of the shape with the most work."""
    largest = max(row.flops for row in rows)
    return [row for row in rows if row.flops == largest]


def packed_rows(results: Results) -> list:
    return [row for row in results.timed("cpu") if row.step == PACKED]


def cpu_ablation(results: Results):
    """Step 06 without one of its parts at a time, relative to the whole."""
    every = packed_rows(results)
    whole = {row.shape: row for row in every if row.kernel == "complete"}
    rows = [r for r in every if r.lacks_a_part and r.shape in whole]
    if not rows:
        raise Missing(f'{PACKED} was not timed with its rows "complete" and "without .."')
    shapes = sorted({row.shape for row in rows}, key=math.prod)[-2:]
    rows = [row for row in rows if row.shape in shapes]
    names = list(dict.fromkeys(row.kernel for row in rows))
    figure, ax = new_figure(0.3 * len(shapes) * len(names) + 1.0)
    height = 0.8 / len(shapes)
    for series, shape in enumerate(shapes):
        there = {row.kernel: row for row in rows if row.shape == shape}
        places = [names.index(name) + (series - (len(shapes) - 1) / 2) * height for name in there]
        ratios = [row.over(whole[shape]) for row in there.values()]
        hatched_bars(ax, places, ratios, height, series, show_shape(shape), "{:.2f}".format)
    ax.axvline(1, **PEAK_LINE)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xlim(left=0)
    ax.margins(x=0.1)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("rate, relative to the complete step")
    ax.set_title("Step 06 without one of its parts")
    legend_below(figure, [ax])
    return figure, caption_of(rows, "Dashed: the complete step", bars=False)


def cpu_blocking(results: Results):
    """Step 06: the rate for each pair of block sizes KC and NC."""
    rows = [row for row in packed_rows(results) if BLOCKS.fullmatch(row.kernel)]
    if not rows:
        raise Missing(f'{PACKED} was not timed with rows like "KC=512 NC=256"')
    rows = of_the_largest(rows)
    rates = {tuple(map(int, BLOCKS.fullmatch(row.kernel).groups())): row.gflops for row in rows}
    depths = sorted({KC for KC, _ in rates})
    widths = sorted({NC for _, NC in rates})
    grid = [[rates.get((KC, NC), math.nan) for NC in widths] for KC in depths]
    figure, ax = new_figure(0.42 * len(depths) + 1.4)
    image = ax.imshow(grid, origin="lower", aspect="auto", cmap="cividis")
    middle = (min(rates.values()) + max(rates.values())) / 2
    for y, KC in enumerate(depths):
        for x, NC in enumerate(widths):
            if (KC, NC) in rates:
                rate = rates[KC, NC]
                look = {"ha": "center", "va": "center", "fontsize": 7.5}
                look["color"] = "white" if rate < middle else "black"
                ax.text(x, y, significant(rate), **look)
    ax.set_xticks(range(len(widths)), widths)
    ax.set_yticks(range(len(depths)), depths)
    ax.grid(visible=False)
    ax.set_xlabel("NC, columns of a block of B")
    ax.set_ylabel("KC, depth of a block")
    ax.set_title("Step 06: the size of its blocks")
    figure.colorbar(image, ax=ax, label="GFLOP/s")
    return figure, caption_of(rows, f"C = A B in fp32, {show_shape(rows[0].shape)}", bars=False)


def cpu_threads(results: Results):
    """Speed-up of step 06 and of the libraries with the threads, each over itself on one."""
    dense = [row for row in results.rows + results.variants if row.pad == 0]
    several = [row for row in square_rows(dense, PACKED) if row.threads > 1]
    alone = {row.shape for row in square_rows(dense, PACKED) if row.threads == 1}
    several = [row for row in several if row.shape in alone]
    if not several:
        raise Missing(f"no size of {PACKED} was timed on one and on several threads")
    shape = max(row.shape for row in several)
    ours = [row for row in square_rows(dense, PACKED) if row.shape == shape]
    curves = [(title_of(PACKED), ours, step_style(PACKED))]
    for place, (name, rows) in enumerate(beside(ours, square_rows(dense, PEER)).items()):
        curves.append((name, rows, {**library_style(place), "marker": "d"}))
    figure, ax = new_figure(3.9)
    drawn: list = []
    for name, rows, style in curves:
        best = {
            t: max((row for row in rows if row.threads == t), key=lambda row: row.gflops)
            for t in sorted({row.threads for row in rows})
        }
        if 1 not in best or len(best) < 2:
            continue
        drawn += best.values()
        speed_up = [row.gflops / best[1].gflops for row in best.values()]
        ax.plot(list(best), speed_up, label=name, **style)
    most = max(row.threads for row in drawn)
    ax.plot([1, most], [1, most], label="one for one", **PEAK_LINE)
    threads = sorted({row.threads for row in drawn})
    number_axis(ax.xaxis, threads, "{:.0f}")
    number_axis(ax.yaxis, threads, "{:.0f}")
    ax.set_xlabel("threads")
    ax.set_ylabel("rate over that on one thread")
    ax.set_title("Speed-up with the threads")
    legend_below(figure, [ax])
    return figure, caption_of(drawn, f"C = A B in fp32, {show_shape(shape)}", bars=False)
