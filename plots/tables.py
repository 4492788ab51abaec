#!/usr/bin/env python3
"""Writes the measured numbers of README.md and docs/*.md from plots/reference/<machine>/*.json.

    tables.py            fills every marker
    tables.py --check    changes nothing; exit status 1 when a page is out of date

Markers (MACHINE is a directory of plots/reference):

    <!-- generated: ladder MACHINE -->                       every step's best row, with links
    <!-- generated: step STEP MACHINE -->                    every row of one step at its main size
    <!-- generated: counts STEP MACHINE -->                  what executing the kernels counted
    <!-- generated: misses STEP MACHINE -->                  cache misses, model and simulation
    <!-- generated: counters MACHINE STEP ["ROW"..] .. -->   predicted, counted, read off the GPU
    <!-- generated: machine MACHINE -->                      what was measured on, and its ceilings
    <!-- generated: register_tiles STEP MACHINE -->          CPU register tiles, bounds and rates
    <!-- generated: parts STEP MACHINE ["WHOLE ROW"] -->     a step without each of its parts
    <!-- generated: peers STEP MACHINE -->                   a step over every peer at every shape
    <!-- generated: errors MACHINE STEP -->                  how far off a step and its peers are
    <!-- generated: lane_map MACHINE -->                     what a load costs a stream of FMAs
    <!-- generated: figure NAME MACHINE "What it shows" [STEP] -->
        one figure, with its alternative text; STEP is the one whose result it needs
    ... <!-- end generated -->

    <!-- v: MACHINE STEP ROW FIELD [SIZE] -->27.1<!-- /v -->
        ROW: best, peer (the one beside the best row), or a row's "name in quotes".
        FIELD: gflops, tflops, ms, percent_of_peak, x_peer, flop_per_byte, shared_flop_per_byte,
        compulsory_flop_per_byte, registers, mean_ratio_to_PEER (geometric, over all shapes of the
        row), or any counter of the result file.

Where a step of the course has no result on a machine, tables and values say so. A marker that
cannot be filled for another reason is named with page and line, and keeps what it holds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shlex
import statistics
import sys
from pathlib import Path

import counters
from results import LANE_MAPS, PEER, Missing, Results, Row, device_of, show_shape, title_of
from style import significant

OPEN = re.compile(r"<!-- generated: (?P<words>.+?) -->")
CLOSE = "<!-- end generated -->"
VALUE = re.compile(r"(?P<open><!-- v: (?P<words>[^>]+?) -->)(?P<text>.*?)(?P<close><!-- /v -->)")


class Reference:
    """The committed results of every machine, each read once, when first asked for."""

    def __init__(self, root: Path):
        self.root = root
        self.read: dict = {}

    def directory(self, machine: str) -> Path:
        return self.root / "plots" / "reference" / machine

    def unmeasured(self, words: list) -> str:
        """Says that a step named in a marker was not run on the machine named there, if so."""
        sources = {path.stem for path in (self.root / "steps").glob("*.c*")}
        for machine in (word for word in words if self.directory(word).is_dir()):
            for step in (word for word in words if word in sources):
                if not self.results(machine).select(lambda row: row.step == step):
                    return f"{title_of(step)} was not run on {machine}"
        return ""

    def results(self, machine: str) -> Results:
        if machine not in self.read:
            results = Results(self.directory(machine))
            if results.problems:
                raise Missing("; ".join(results.problems))
            self.read[machine] = results
        return self.read[machine]


def table(header: list, rows: list) -> list:
    """Lines of a markdown table without its empty columns, all but the first aligned right."""
    columns = zip(header, *rows)
    full = [column for column in columns if any(cell not in ("", "-") for cell in column[1:])]
    header, *rows = zip(*full)
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return ["| " + " | ".join(cells) + " |" for cells in [header, rule, *rows]]


def show(value, digits: int = 3) -> str:
    return "" if value is None else significant(value, digits)


def count(value) -> str:
    return f"{value:,.0f}" if value else ""


def percent(part: float, whole: float) -> str:
    return f"{significant(100 * part / whole, 2)} %" if whole else ""


def share_of_peak(row: Row) -> str:
    return percent(row.of_peak, 1) if row.of_peak else ""


def peak_column(rows: list) -> list:
    """A header, then each row's share of the peak: the AMX unit's own peak in a step with AMX. Where
    the units differ, every share says of which."""
    units = [row.machine.facts.get("peak_unit", "FMA") for row in rows]
    if len(set(units)) == 1:
        return [f"of {units[0]} peak", *map(share_of_peak, rows)]
    shares = [(share_of_peak(row), unit) for row, unit in zip(rows, units)]
    return ["of peak", *(f"{share} of {unit}" if share else "" for share, unit in shares)]


def show_time(row: Row) -> str:
    seconds = statistics.median(row.seconds)
    unit, name = (1e3, "ms") if seconds >= 1e-3 else (1e6, "us")
    return f"{significant(seconds * unit)} {name}"


def provenance(rows: list, results: Results, what: str) -> str:
    """The line under a table: shape, machine, peer, date, settings."""
    machine = rows[0].machine
    peers = sorted({peer.kernel for row in rows if (peer := results.peer_of(row))})
    words = [what, machine.name, machine.date]
    words += [f"peer: {' / '.join(peers)}"] if peers else []
    words += [f"{len(rows[0].rates)} runs, medians"] if len(rows[0].rates) > 1 else []
    return f"*{', '.join(words)}.*"


def link(step: str, page: Path, root: Path) -> str:
    target = os.path.relpath(root / "docs" / f"{step}.md", page.parent)
    return f"[{title_of(step)}]({Path(target).as_posix()})"


def ladder_table(reference: Reference, page: Path, machine: str) -> list:
    results = reference.results(machine)
    lines: list = []
    for device in results.devices():
        rows = results.best_rows(device)
        main = results.main_shape(device)
        of_peak, *shares = peak_column(rows)
        cells = [
            [
                link(row.step, page, reference.root),
                row.kernel + ("" if row.shape == main else f" ({show_shape(row.shape)})"),
                show(row.gflops),
                share,
                show(results.x_peer(row)),
                show(row.intensity("global")),
                show(row.compulsory_intensity),
            ]
            for row, share in zip(rows, shares)
        ]
        header = ["step", "best row", "GFLOP/s", of_peak, "x peer"]
        header += ["FLOP/byte requested", "compulsory"]
        lines += [""] if lines else []
        lines += table(header, cells)
        lines += ["", provenance(rows, results, show_shape(main))]
    return timed_lines(lines, machine)


def timed_lines(lines: list, machine: str) -> list:
    if not lines:
        raise Missing(f"{machine} holds no timed results")
    return lines


def step_table(reference: Reference, page: Path, step: str, machine: str) -> list:
    results = reference.results(machine)
    device = device_of(step)
    shape = results.best(step, device).shape
    rows = [row for row in results.timed(device) if row.step == step and row.shape == shape]
    of_peak, *shares = peak_column(rows)
    header = ["row", "time", "GFLOP/s", of_peak, "x peer", "FLOP/byte"]
    on_gpu = device == "gpu"
    if on_gpu:
        header += ["shared FLOP/byte", "registers", "shared bytes", "occupancy"]
    cells = []
    for row, share in zip(rows, shares):
        cells.append(
            [
                row.kernel,
                show_time(row),
                show(row.gflops),
                share,
                show(results.x_peer(row)),
                show(row.intensity("global")),
            ]
        )
        if on_gpu:
            occupancy = row.get("occupancy")
            cells[-1] += [
                show(row.intensity("shared")),
                count(row.get("registers")),
                count(row.get("shared_bytes")),
                f"{100 * occupancy:.0f} %" if occupancy else "",
            ]
    return table(header, cells) + ["", provenance(rows, results, show_shape(shape))]


def counted_rows(results: Results, step: str, counter: str) -> list:
    rows = results.select(lambda row: row.step == step and row.get(counter) is not None)
    if not rows:
        raise Missing(f"{step} has no row with {counter}")
    shape = max(row.shape for row in rows)
    return [row for row in rows if row.shape == shape]


def ratio(row: Row, part: str, whole: str) -> str:
    return show(row.get(part) / row.get(whole)) if row.get(part) and row.get(whole) else ""


def counts_table(reference: Reference, page: Path, step: str, machine: str) -> list:
    """Bytes predicted and counted, sectors and wavefronts per request of a warp."""
    results = reference.results(machine)
    rows = counted_rows(results, step, "counted_global_loaded")
    header = ["row", "global bytes", "FLOP/byte", "shared bytes", "FLOP/byte"]
    header += [
        "sectors / load",
        "sectors / store",
        "wavefronts / load",
        "wavefronts / store",
        "barriers",
    ]
    cells = []
    for row in rows:
        cells.append([row.kernel])
        for memory in ("global", "shared"):
            predicted, counted = row.bytes(memory), row.bytes(memory, "counted_")
            sign = "=" if predicted == counted else "but counted"
            cells[-1].append(f"{count(predicted)} {sign} {count(counted)}" if counted else "")
            cells[-1].append(show(row.intensity(memory, "counted_")))
        for memory, unit in (("global", "sectors"), ("shared", "wavefronts")):
            for access in ("load", "store"):
                name = f"{memory}_{access}"
                cells[-1].append(ratio(row, f"{name}_{unit}", f"{name}_requests"))
        cells[-1].append(count(row.get("barriers")))
    what = f"Predicted = counted by executing the kernel, {show_shape(rows[0].shape)}"
    return table(header, cells) + ["", f"*{what}. Sectors and wavefronts: per request of a warp.*"]


def misses_table(reference: Reference, page: Path, step: str, machine: str) -> list:
    results = reference.results(machine)
    rows = results.select(lambda r: r.step == step and r.get("simulated_misses_L1") is not None)
    if not rows and results.select(lambda row: row.step == step):
        return [f"*{title_of(step)} was not run through the cache simulation on {machine}.*"]
    if not rows:
        raise Missing(f"{step} has no row with simulated misses")
    header = [
        "row",
        "M = N = K",
        "L1 model",
        "L1 simulated",
        "L2 model",
        "L2 simulated",
        "accesses",
    ]
    cells = []
    for row in sorted(rows, key=lambda r: (r.shape, r.get("BM") or 0)):
        cells.append([row.kernel, short_shape(row.shape)])
        for level in ("L1", "L2"):
            for kind in ("predicted", "simulated"):
                cells[-1].append(count(row.get(f"{kind}_misses_{level}")))
        cells[-1].append(count(row.get("accesses")))
    note = "*Lines fetched into each cache; the simulated caches are set-associative, LRU.*"
    return table(header, cells) + ["", note]


def counters_table(reference: Reference, page: Path, machine: str, *words: str) -> list:
    """FLOP/byte predicted, counted and measured, and what was busy, in two tables.

    words: steps, each with the names of its rows behind it, or none for the one that stands for it.
    """
    results = reference.results(machine)
    profiles = profiles_of(results, words)
    counted = [counted_like(results, step, profile) for step, profile in profiles]
    names = [[link(step, page, reference.root), profile.row] for step, profile in profiles]
    sizes = sorted({profile.size for _, profile in profiles})
    where = f"{' / '.join(map(str, sizes))}, {machine}"
    cells = [intensity_cells(results, *pair, row) for pair, row in zip(profiles, counted)]
    lines = table(["step", "row", *INTENSITIES], [a + b for a, b in zip(names, cells)])
    note = f"FLOP/byte, M = N = K = {where}. Predicted: bytes requested, by the model"
    note += agreement([row for row in counted if row])
    note += ". Moved: Nsight Compute, in one run; of shared memory, whole wavefronts."
    lines += ["", f"*{note}*", ""]
    # The step alone names a line, unless it has several.
    named = slice(2 if len({step for step, _ in profiles}) < len(profiles) else 1)
    leading = {reason for _, profile in profiles for reason, _ in profile.stalls()[:3]}
    cells = [busy_cells(profile, leading) for _, profile in profiles]
    header = ["step", "row"][named] + BUSY
    lines += table(header, [a[named] + b for a, b in zip(names, cells)])
    note = "Nsight Compute, the same runs."
    if leading:
        note += " Stalls: warps of a scheduler that wait for it, for each instruction issued."
    if any(len(profile.launches) > 1 for _, profile in profiles):
        note += " Of several kernels, sums, or means over their time."
    return lines + ["", f"*{note}*"]


def profiles_of(results: Results, words: tuple) -> list:
    """(step, profile) of every row named behind its step; of a step without one, see to_show."""
    named: list = []
    for word in words:
        if re.fullmatch(r"\d\d_\w+", word):
            named.append((word, []))
        elif named:
            named[-1][1].append(word)
        else:
            raise Missing(f"counters of {word!r}: of which step?")
    found = []
    for step, rows in named:
        there = {profile.row: profile for profile in counters.read(results.directory, step)}
        if unknown := [row for row in rows if row not in there]:
            raise Missing(f"{step}.ncu.csv has no row {unknown[0]!r}")
        chosen = [there[row] for row in rows] or [counters.to_show(results, step)]
        found += [(step, profile) for profile in chosen]
    return found


INTENSITIES = ["global, predicted", "counted", "L2, moved", "memory, at most", "memory, moved"]
INTENSITIES += ["shared, predicted", "counted", "shared, moved"]
BUSY = ["shared loads / FMA", "wavefronts / FMA", "/ load", "/ store", "of them conflicts"]
BUSY += ["load/store pipe busy", "issue slots busy", "warps active", "registers", "leading stalls"]


def agreement(counted: list) -> str:
    """At what smaller size the emulator counted, and whether the model agrees with it there."""
    if not counted:
        return ""
    sizes = " / ".join(str(size) for size in sorted({row.shape[0] for row in counted}))
    memories = ("global", "shared")
    agree = all(row.bytes(m) == row.bytes(m, "counted_") for row in counted for m in memories)
    found = "to the byte" if agree else "not always"
    return f". Counted: by the emulator at {sizes}, {found} what the model predicts there"


def counted_like(results: Results, step: str, profile: counters.Profile) -> Row | None:
    """The row of a profile as the emulator counted it, at its largest size."""
    rows = results.select(lambda r: r.step == step and r.kernel == profile.row)
    rows = [row for row in rows if row.get("counted_global_loaded")]
    return max(rows, key=lambda row: row.shape, default=None)


def intensity_cells(
    results: Results, step: str, profile: counters.Profile, counted: Row | None
) -> list:
    shape = (profile.size,) * 3
    timed = [r for r in results.timed("gpu") if (r.step, r.kernel) == (step, profile.row)]
    model = next((row for row in timed if row.shape == shape), None)

    def requested(memory: str) -> list:
        return [
            show_or_dash(model and model.intensity(memory)),
            show_or_dash(counted and counted.intensity(memory, "counted_")),
        ]

    measured = {memory: show_or_dash(profile.intensity(memory)) for memory in counters.MOVED}
    at_most = show_or_dash(model and model.compulsory_intensity)
    cells = [*requested("global"), measured["L2"], at_most, measured["memory"]]
    return cells + [*requested("shared"), measured["shared"]]


def busy_cells(profile: counters.Profile, leading: set) -> list:
    """What was busy, and the stalls among `leading`: the same ones in every line of a table."""
    conflicts = profile.ratio(counters.BANK_CONFLICTS, counters.SHARED_WAVEFRONTS)
    shares = [counters.PIPE_BUSY, counters.ISSUE_BUSY, counters.WARPS_ACTIVE]
    stalls = [
        f"{reason.replace('_', ' ')} {show(n, 2)}"
        for reason, n in profile.stalls()
        if reason in leading
    ]
    return [
        show_or_dash(profile.per_fma(counters.SHARED_LOADS)),
        show_or_dash(profile.per_fma(counters.LOAD_WAVEFRONTS)),
        show_or_dash(profile.ratio(counters.LOAD_WAVEFRONTS, counters.SHARED_LOADS)),
        show_or_dash(profile.ratio(counters.STORE_WAVEFRONTS, counters.SHARED_STORES)),
        "-" if conflicts is None else percent(conflicts, 1),
        *(show_or_dash(profile.mean(name), unit=" %") for name in shares),
        show_or_dash(profile.largest(counters.REGISTERS)),
        ", ".join(stalls) or "-",
    ]


def show_or_dash(value: float | None, unit: str = "") -> str:
    return "-" if value is None else show(value) + unit


def machine_table(reference: Reference, page: Path, machine: str) -> list:
    """What the results of a machine were measured on: one part for each device."""
    results = reference.results(machine)
    lines: list = []
    for device in results.devices():
        owner = results.timed(device)[0].machine
        cells = [["FMA peak, measured", f"{significant(owner.peak_flops / 1e9)} GFLOP/s"]]
        for level in owner.levels:
            size = f", {significant(level.bytes / 1024)} KiB" if level.bytes else ""
            rate = significant(level.bytes_per_second / 1e9)
            cells.append([f"{level.name}, measured", f"{rate} GB/s{size}"])
        plain = [key for key in owner.facts if not re.match(r"level_|peak_|library_|json_", key)]
        hidden = {"executable", "step", "host_name", "machine", "caches", "load_avg"}
        known = [key for key in plain if key not in hidden and owner.facts[key] != "0"]
        cells += [[key.replace("_", " "), owner.facts[key]] for key in known]
        lines += [""] if lines else []
        lines += table([owner.name, ""], cells)
    return timed_lines(lines, machine)


def register_tiles_table(reference: Reference, page: Path, step: str, machine: str) -> list:
    """What bounds a register tile, by two loads and two FMAs of 4 clocks each, and its rates."""
    results = reference.results(machine)
    rows = square(r for r in results.timed("cpu") if r.step == step and not r.only_counted)
    if not rows:
        raise Missing(f"{step} was not timed on the cpu at a square size")
    lanes = min(int(row.get("TN")) for row in rows)
    sizes = sorted({row.shape[0] for row in rows})
    rates = {(row.kernel, row.shape[0]): row for row in rows}
    cells = []
    for kernel in dict.fromkeys(row.kernel for row in rows):
        some = next(row for row in rows if row.kernel == kernel)
        MR, NV = int(some.get("TM")), int(some.get("TN")) // lanes
        sums, loads = MR * NV, (MR + NV) / (MR * NV)
        tile = f"{MR} x {NV * lanes}" + (" *(spills)*" if kernel.endswith("spills") else "")
        cells.append([tile, str(sums + NV + 1), str(sums), f"{loads:.2f}"])
        cells[-1].append(percent(min(1, sums / 8, 1 / loads), 1))
        at = [rates.get((kernel, size)) for size in sizes]
        cells[-1] += [f"{show(row.gflops)}, {share_of_peak(row)}" if row else "" for row in at]
    header = ["tile", "registers", "sums", "loads / FMA", "bound"]
    header += [f"n = {size}" for size in sizes]
    return table(header, cells) + ["", provenance(rows, results, "GFLOP/s, and share of the peak")]


def square(rows) -> list:
    return [row for row in rows if len(set(row.shape)) == 1]


def square_first(shape: tuple) -> tuple:
    """Sorts shapes: square ones first, each sort by size."""
    return len(set(shape)) > 1, math.prod(shape), shape


def short_shape(shape: tuple) -> str:
    return str(shape[0]) if len(set(shape)) == 1 else " x ".join(map(str, shape))


def parts_table(
    reference: Reference, page: Path, step: str, machine: str, whole: str = "complete"
) -> list:
    """The rate of the row with every part by size, and what is left of it without each."""
    results = reference.results(machine)
    rows = square(row for row in results.timed(device_of(step)) if row.step == step)
    there = {(row.kernel, row.shape[0]): row for row in rows}
    parts = list(dict.fromkeys(row.kernel for row in rows if row.lacks_a_part))
    sizes = sorted({n for name, n in there if name in parts and (whole, n) in there})
    if not sizes:
        raise Missing(f'{step} was not timed with its rows "{whole}" and "without .."')
    wholes = [there[whole, n] for n in sizes]
    cells = [[f"{whole}, GFLOP/s", *(show(row.gflops) for row in wholes)]]
    for name in parts:
        found = [there.get((name, n)) for n in sizes]
        ratios = [row.over(complete) if row else None for row, complete in zip(found, wholes)]
        cells.append([f"{name}, x {whole}", *map(show, ratios)])
    header = ["row"] + [f"n = {n}" for n in sizes]
    return table(header, cells) + ["", provenance(wholes, results, "M = N = K = n")]


def geometric_mean(values: list) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def peers_table(reference: Reference, page: Path, step: str, machine: str) -> list:
    """The step over every peer that ran beside it, shape by shape.

    By its row "complete", which chooses for each shape what it does; without one by the fastest.
    """
    results = reference.results(machine)
    device = device_of(step)
    rows = [row for row in results.timed(device) if row.step == step and row.complete]
    there = {row.shape: row for row in rows if row.kernel == "complete"}
    shapes = sorted(there or {row.shape for row in rows}, key=square_first)
    best = [there.get(shape) or results.best(step, device, shape) for shape in shapes]
    best = [row for row in best if ratios_to_peers(row)]
    over = [ratios_by_name(results, row) for row in best]
    peers = sorted({name for ratios in over for name in ratios})
    if not peers:
        raise Missing(f"no peer ran beside {step}")
    of_peak, *shares = peak_column(best)
    cells = []
    for row, share, ratios in zip(best, shares, over):
        cells.append([short_shape(row.shape), show(row.gflops), share])
        cells[-1] += [show(ratios.get(name)) for name in peers]
    known = [[ratios[name] for ratios in over if name in ratios] for name in peers]
    means = [f"**{show(geometric_mean(ratios))}**" for ratios in known]
    cells.append(["**geometric mean**", "", "", *means])
    cells.append(["smallest", "", "", *(show(min(ratios)) for ratios in known)])
    header = ["M x N x K", "GFLOP/s", of_peak, *(f"x {name}" for name in peers)]
    kernels = dict.fromkeys(row.kernel for row in best)
    what = f"{best[0].kernel if len(kernels) == 1 else 'The best row of each shape'}"
    what += f", {len(best)} shapes"
    machine_of = best[0].machine
    note = f"*{what}, {machine_of.name}, {machine_of.date}, {len(best[0].rates)} runs, medians.*"
    return table(header, cells) + ["", note]


def ratios_by_name(results: Results, row: Row) -> dict:
    """A row's rate over that of each peer beside it, by the peer's name without its threads.

    A library may have run in several ways. The row has one ratio for its word, and so have they.
    """
    ratios: dict = {}
    beside = [peer for peer in results.rows if peer.step == PEER and peer.machine is row.machine]
    for peer in (peer for peer in beside if peer.shape == row.shape):
        word = peer.kernel.split()[0].lower()
        if word in (known := ratios_to_peers(row)):
            name = re.sub(r", \d+ threads?$", "", peer.kernel)
            ratios[name] = known[word] / ratios_to_peers(peer).get(word, 1)
    return ratios


ERROR_INITS = ("uniform", "positive", "wide")


def errors_table(reference: Reference, page: Path, machine: str, step: str) -> list:
    """Errors against fp64 of a step's complete rows and of the peers in the same files.

    They come from runs with the --init of each pair of columns, one for each --seed:
    STEP.errors.INIT*.json. The largest error and the root mean square are over all draws.
    """
    results = reference.results(machine)
    found = [row for row in results.other_operands if row.get("error_max") is not None]
    found = [row for row in found if row.init in ERROR_INITS]
    ours = [row for row in found if row.step == step and row.complete]
    if not ours:
        raise Missing(f"{step} has no errors with --init {', '.join(ERROR_INITS)}")
    files = {id(row.machine) for row in ours}
    rows = ours + [row for row in found if row.step == PEER and id(row.machine) in files]
    draws: dict = {}
    for row in rows:
        draws.setdefault((row.kernel, row.shape, row.init), []).append(row)
    cells = []
    for shape in sorted({row.shape for row in ours}, key=square_first):
        for kernel in dict.fromkeys(row.kernel for row in rows if row.shape == shape):
            cells.append([kernel, short_shape(shape)])
            for init in ERROR_INITS:
                here = draws.get((kernel, shape, init), [])
                squares = [row.get("error_rms") ** 2 for row in here]
                cells[-1] += [
                    show(max((row.get("error_max") for row in here), default=None)),
                    show(math.sqrt(sum(squares) / len(squares)) if here else None),
                ]
    header = ["row", "M x N x K"]
    header += [f"{init}, {which}" for init in ERROR_INITS for which in ("max", "rms")]
    names = sorted({row.machine.name for row in ours})
    dates = sorted({row.machine.date for row in ours})
    note = "Error against fp64, as a multiple of u (|A||B|), u = 2^-24"
    if (seeds := len({row.seed for row in ours})) > 1:
        note += f"; over {seeds} draws of the operands"
    return table(header, cells) + ["", f"*{', '.join([note, *names, *dates])}.*"]


def ratios_to_peers(row: Row) -> dict:
    """A row's rate over that of each peer beside it, by the peer's first word: "openblas"."""
    ratios = {name[9:]: value for name, value in row.counters.items() if name[:9] == "ratio_to_"}
    ratios.pop("peer", None)
    return ratios


def mean_ratio(row: Row, results: Results, word: str) -> str:
    """The geometric mean, over all shapes of a row, of its ratio to a peer."""
    same = results.select(lambda r: r.step == row.step and r.kernel == row.kernel and r.timed)
    ratios = [ratios_to_peers(r)[word] for r in same if word in ratios_to_peers(r)]
    return show(geometric_mean(ratios)) if ratios else ""


def lane_map_table(reference: Reference, page: Path, machine: str) -> list:
    """What lane_map_benchmark found: clocks of a loop of FMAs with other instructions in between."""
    path = reference.directory(machine) / LANE_MAPS
    if not path.is_file():
        return [f"*The lane maps were not measured on {machine}.*"]
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        context = data["context"]
        cells = [
            [
                row["name"],
                count(row.get("wavefronts_a")),
                count(row.get("wavefronts_b")),
                f"{row['clocks_per_k']:.1f}",
                f"{row['extra_clocks']:.1f}" if "extra_clocks" in row else "",
            ]
            for row in data["benchmarks"]
        ]
        note = f"{context['instructions']} for each k of a warp, beside {context['fmas']} FMAs"
    except (ValueError, KeyError, TypeError) as error:
        raise Missing(f"{path.name}: {type(error).__name__}: {error}") from error
    header = ["between the FMAs", "wavefronts of a load of A", "of B", "clocks for each k"]
    header += ["extra, for each instruction"]
    note += "; clocks of a scheduler with two warps. Wavefronts by the emulator's rule"
    return table(header, cells) + ["", f"*{context['machine']}: {note}.*"]


def figure_line(
    reference: Reference, page: Path, name: str, machine: str, text: str, step: str = ""
) -> list:
    path = reference.directory(machine) / "figures" / f"{name}.svg"
    if not path.is_file():
        raise Missing(f"{path.relative_to(reference.root)} is not there; draw.py makes it")
    return [f"![{text}]({Path(os.path.relpath(path, page.parent)).as_posix()})"]


BLOCKS = {
    "ladder": ladder_table,
    "step": step_table,
    "counts": counts_table,
    "misses": misses_table,
    "counters": counters_table,
    "machine": machine_table,
    "register_tiles": register_tiles_table,
    "parts": parts_table,
    "peers": peers_table,
    "errors": errors_table,
    "lane_map": lane_map_table,
    "figure": figure_line,
}

FIELDS = {
    "gflops": lambda row, results: show(row.gflops),
    "tflops": lambda row, results: show(row.gflops / 1e3),
    "ms": lambda row, results: show(statistics.median(row.seconds) * 1e3),
    "percent_of_peak": lambda row, results: share_of_peak(row),
    "x_peer": lambda row, results: show(results.x_peer(row)),
    "flop_per_byte": lambda row, results: show(row.intensity("global")),
    "shared_flop_per_byte": lambda row, results: show(row.intensity("shared")),
    "registers": lambda row, results: count(row.get("registers")),
    "compulsory_flop_per_byte": lambda row, results: show(row.compulsory_intensity),
}


def block(reference: Reference, page: Path, words: str) -> list:
    kind, *arguments = shlex.split(words)
    if reason := reference.unmeasured(arguments):
        return [f"*{reason}.*"]
    if kind not in BLOCKS:
        raise Missing(f"there is no table {kind!r}; there are {', '.join(BLOCKS)}")
    try:
        return BLOCKS[kind](reference, page, *arguments)
    except TypeError as error:
        raise Missing(f"wrong arguments for {kind}: {error}") from error


def value(reference: Reference, words: str) -> str:
    parts = shlex.split(words)
    if len(parts) not in (4, 5):
        raise Missing("a value is MACHINE STEP ROW FIELD [SIZE]")
    if reference.unmeasured(parts):
        return "(not run)"
    machine, step, name, field = parts[:4]
    results = reference.results(machine)
    shape = (int(parts[4]),) * 3 if len(parts) == 5 else None
    row = find_row(results, step, name, shape)
    if field.startswith("mean_ratio_to_"):
        text = mean_ratio(row, results, field.removeprefix("mean_ratio_to_"))
    else:
        text = FIELDS[field](row, results) if field in FIELDS else show(row.get(field))
    if not text:
        raise Missing(f"{step}, row {row.kernel!r} has no {field}")
    return text


def find_row(results: Results, step: str, name: str, shape) -> Row:
    if name not in ("best", "peer"):
        rows = results.select(lambda r: r.step == step and r.kernel == name)
        rows = [r for r in rows if shape is None or r.shape == shape]
        if not rows:
            where = f" at {show_shape(shape)}" if shape else ""
            raise Missing(f"{step} has no row {name!r}{where}")
        return max(rows, key=lambda r: (r.timed, r.shape))
    best = results.best(step, shape=shape)
    row = best if name == "best" else results.peer_of(best)
    if row is None:
        raise Missing(f"no peer ran beside {step}")
    return row


def fill(reference: Reference, page: Path) -> tuple:
    """The page's text with every marker filled, and what could not be."""
    lines = page.read_text(encoding="utf-8").splitlines()
    filled: list = []
    problems: list = []
    place = 0
    while place < len(lines):
        number = place + 1
        opened = OPEN.fullmatch(lines[place].strip())
        if not opened:
            filled.append(fill_values(reference, lines[place], number, problems))
            place += 1
            continue
        if CLOSE not in lines[place:]:
            problems.append((number, f"no {CLOSE!r} after this marker"))
            filled += lines[place:]
            break
        end = lines.index(CLOSE, place)
        try:
            body = ["", *block(reference, page, opened["words"]), ""]
        except Missing as reason:
            problems.append((number, str(reason)))
            body = lines[place + 1 : end]
        filled += [lines[place], *body, CLOSE]
        place = end + 1
    return "\n".join(filled) + "\n", problems


def fill_values(reference: Reference, line: str, number: int, problems: list) -> str:
    def replace(match) -> str:
        try:
            return match["open"] + value(reference, match["words"]) + match["close"]
        except Missing as reason:
            problems.append((number, str(reason)))
            return match[0]

    return VALUE.sub(replace, line)


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, only say what is old")
    here = Path(__file__).resolve().parent.parent
    parser.add_argument("--root", type=Path, default=here, help="the project (default: this one)")
    options = parser.parse_args(arguments)
    reference = Reference(options.root)
    status = 0
    for page in [options.root / "README.md", *sorted((options.root / "docs").glob("*.md"))]:
        if not page.is_file():
            continue
        text, problems = fill(reference, page)
        name = page.relative_to(options.root)
        for number, problem in problems:
            print(f"{name}:{number}: {problem}", file=sys.stderr)
            status = 1
        if text == page.read_text(encoding="utf-8"):
            continue
        if options.check:
            print(f"{name} is out of date: run plots/tables.py")
            status = 1
        else:
            page.write_text(text, encoding="utf-8")
            print(f"{name} written")
    return status


if __name__ == "__main__":
    sys.exit(main())
