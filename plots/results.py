"""Results of the steps: Google Benchmark's JSON, read into one Row per kernel, shape and device."""

from __future__ import annotations

import json
import math
import re
import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Callable, Iterable, Optional

Shape = tuple  # (M, N, K)

NAME = re.compile(r"^(?P<step>[^/]+)/(?P<kernel>.+?)/(?P<M>\d+)x(?P<N>\d+)x(?P<K>\d+)(?:/|$)")
BLOCKS = re.compile(r"KC=(\d+) NC=(\d+)")
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
PEER = "peer"
DEVICES = ("cpu", "gpu", "emulator")
LANE_MAPS = "lane_map.json"  # of build/steps/lane_map_benchmark

# Large enough for every idea to show. On the CPU no power of two, so that what one step gains over
# another is not hidden behind conflict misses, which step 03 looks at by themselves.
MAIN_SIZE = {"cpu": 1000, "gpu": 4096}

# What operands hold where times are spoken of: other numbers may take another time.
USUAL_INIT = "normal"


class Missing(Exception):
    """The results lack what a figure, table or value needs; the message says what."""


@dataclass(frozen=True)
class Level:
    """One level of memory; bytes is 0 where it is unbounded."""

    name: str
    bytes: float
    bytes_per_second: float


@dataclass(frozen=True)
class Machine:
    """The machine and settings of one result file. Levels: nearest first; 0: not measured."""

    name: str
    device: str
    date: str
    peak_flops: float
    levels: tuple
    facts: dict


@dataclass(frozen=True)
class Row:
    """One kernel at one shape on one device, over all its repetitions."""

    step: str
    kernel: str
    shape: Shape
    machine: Machine
    label: str
    seconds: tuple
    rates: tuple  # GFLOP/s of each repetition
    counters: dict  # medians over the repetitions
    trouble: str = ""  # why a candidate of --tune was not timed

    @property
    def device(self) -> str:
        return self.machine.device

    @property
    def element(self) -> str:
        """The format of the operands, "fp32" or "bf16"."""
        return self.machine.facts.get("element", "fp32")

    @property
    def init(self) -> str:
        """What the operands held, by the word of --init."""
        return self.machine.facts.get("init", USUAL_INIT)

    @property
    def seed(self) -> int:
        """Which draw of such operands."""
        return int(self.machine.facts.get("seed", 0))

    @property
    def pad(self) -> int:
        """Elements between the end of a row of A, B or C and the next one."""
        return int(self.machine.facts.get("pad", 0))

    @property
    def threads(self) -> int:
        """CPU threads that it ran on; what feeds another device does not count."""
        return int(self.machine.facts.get("threads", 1)) if self.device == "cpu" else 1

    @property
    def candidate(self) -> bool:
        """One of the tiles that --tune chose from, not a row of the step."""
        return self.machine.facts.get("rows") == "candidates"

    @property
    def plain(self) -> bool:
        """Run as the course runs every step: on one thread, with dense rows."""
        return self.pad == 0 and self.threads == 1

    @property
    def only_counted(self) -> bool:
        """Run once, for its counts: one time is no measurement."""
        return "accesses" in self.counters and len(self.rates) == 1

    @property
    def lacks_a_part(self) -> bool:
        """Whether it leaves out a part of its step, to show what that is worth."""
        return "without " in self.kernel

    @property
    def complete(self) -> bool:
        """Whether it is its step as it is meant: with all parts, and the blocks of the model."""
        return not self.lacks_a_part and not BLOCKS.fullmatch(self.kernel)

    @property
    def settings(self) -> tuple:
        """What two rows must share, besides shape and device, to be compared."""
        return self.element, self.init, self.seed, self.pad, self.threads, self.candidate

    @property
    def gflops(self) -> float:
        return statistics.median(self.rates)

    @property
    def of_peak(self) -> Optional[float]:
        """The share of the FMA peak: of the one beside each repetition, where it was measured."""
        peak = self.machine.peak_flops
        return self.get("of_peak") or (1e9 * self.gflops / peak if peak else None)

    def over(self, other: "Row") -> float:
        """Its rate over another's; of runs at different times, its share of the peak over theirs.

        In between, the clock may have changed.
        """
        if self.machine is not other.machine and self.of_peak and other.of_peak:
            return self.of_peak / other.of_peak
        return self.gflops / other.gflops

    @property
    def spread(self) -> tuple:
        """Distances from the median to the slowest and to the fastest repetition, in GFLOP/s."""
        return self.gflops - min(self.rates), max(self.rates) - self.gflops

    @property
    def flops(self) -> float:
        M, N, K = self.shape
        return 2.0 * M * N * K

    @property
    def timed(self) -> bool:
        """Whether the time is the machine's own: an emulator's is not, and it names no rate."""
        return self.device != "emulator" and bool(self.rates)

    def get(self, counter: str) -> Optional[float]:
        return self.counters.get(counter)

    def bytes(self, memory: str, prefix: str = "") -> float:
        """Bytes loaded and stored, of "global" or "shared" memory.

        prefix: "" for what the model predicts, "counted_" for what execution counted.
        """
        ways = ("loaded", "stored")
        return sum(self.counters.get(f"{prefix}{memory}_{way}", 0.0) for way in ways)

    def intensity(self, memory: str, prefix: str = "") -> Optional[float]:
        """FLOP per byte requested of a memory; None where nothing was requested of it."""
        requested = self.bytes(memory, prefix)
        return self.flops / requested if requested else None

    @property
    def compulsory_intensity(self) -> float:
        return self.flops / self.counters["compulsory_bytes"]


class Results:
    """Every row of a directory of result files. `problems` names what could not be read.

    `rows` are the plain ones; `variants` ran on several threads or with padded rows; `candidates`
    are the tiles that --tune tried, with those it refused. All of these multiply what steps usually
    do; `other_operands` have another --init. What --tune chose, and the benchmark of lane maps, are
    no result files.
    """

    def __init__(self, directory: Path):
        self.directory = Path(directory)
        self.problems: list = []
        rows: list = []
        for path in sorted(self.directory.glob("*.json")):
            if path.name.endswith((".tuned.json", LANE_MAPS)):
                continue
            try:
                rows += read_file(path)
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                self.problems.append(f"{path.name}: {type(error).__name__}: {error}")
        merged = merge_files(rows)
        self.other_operands = [row for row in merged if row.init != USUAL_INIT]
        merged = [row for row in merged if row.init == USUAL_INIT]
        self.candidates = [row for row in merged if row.candidate]
        merged = [row for row in merged if not row.candidate]
        self.rows = [row for row in merged if row.plain]
        self.variants = [row for row in merged if not row.plain]
        if not rows:
            self.problems.append(f"{directory}: no result rows in *.json")

    def select(self, keep: Callable[[Row], bool]) -> list:
        return [row for row in self.rows if row.step != PEER and keep(row)]

    def timed(self, device: str) -> list:
        return self.select(lambda row: row.timed and row.device == device)

    def devices(self) -> list:
        """Devices with times of their own, CPU first."""
        return sorted({row.device for row in self.rows if row.timed and row.step != PEER})

    def peer_of(self, row: Row) -> Optional[Row]:
        """The fastest peer that ran at this row's shape on this row's device."""
        peers = [r for r in self.rows + self.variants if r.step == PEER and r.timed]
        peers = [r for r in peers if r.shape == row.shape and r.device == row.device]
        same_run = [r for r in peers if r.machine is row.machine]
        peers = [r for r in peers if r.settings == row.settings]
        return max(same_run or peers, key=lambda r: r.gflops, default=None)

    def x_peer(self, row: Row) -> Optional[float]:
        """A row's rate over its peer's: of runs that alternated where there were such."""
        peer = self.peer_of(row)
        return (row.get("ratio_to_peer") or row.gflops / peer.gflops) if peer else None

    def main_shape(self, device: str) -> Shape:
        """The shape at which most steps of a device were timed.

        Of several: the one that the course speaks of (MAIN_SIZE), else the largest. Steps in another
        format than fp32 have sizes of their own, and no say where there are others.
        """
        shapes: dict = {}
        rows = self.timed(device)
        for row in [row for row in rows if row.element == "fp32"] or rows:
            shapes.setdefault(row.shape, set()).add(row.step)
        if not shapes:
            raise Missing(f"no timed results on the {device}")
        spoken_of = (MAIN_SIZE[device],) * 3
        return max(shapes, key=lambda shape: (len(shapes[shape]), shape == spoken_of, shape))

    def best(self, step: str, device: Optional[str] = None, shape: Optional[Shape] = None) -> Row:
        """The fastest complete row of a step: at `shape`, else at the main shape, else anywhere."""
        device = device or device_of(step)
        rows = [row for row in self.timed(device) if row.step == step and row.complete]
        wanted = shape or self.main_shape(device)
        there = [row for row in rows if row.shape == wanted]
        if not there and shape is None and rows:
            largest = max(row.shape for row in rows)
            there = [row for row in rows if row.shape == largest]
        if not there:
            raise Missing(f"{step} was not timed on the {device} at {show_shape(wanted)}")
        return max(there, key=lambda row: row.gflops)

    def best_rows(self, device: str) -> list:
        """The best row of every step of a device, in course order."""
        return [self.best(step, device) for step in steps_of(self.timed(device))]


def device_of(step: str) -> str:
    """The device that a step's name speaks of: "09_gpu_square_tiling" -> "gpu"."""
    return "cpu" if "_cpu_" in step else "gpu"


def title_of(step: str) -> str:
    """ "09_gpu_square_tiling" -> "09 square tiling" """
    words = [word for word in step.split("_") if word not in ("cpu", "gpu")]
    return " ".join(words)


def label_of(row: Row) -> str:
    return title_of(row.step) + ("" if row.element == "fp32" else f" ({row.element.upper()})")


def steps_of(rows: Iterable[Row]) -> list:
    return sorted({row.step for row in rows if row.step != PEER})


def show_shape(shape: Shape) -> str:
    M, N, K = shape
    return f"M = N = K = {M}" if M == N == K else f"M x N x K = {M} x {N} x {K}"


def number(text) -> float:
    """A context entry as a number: Google Benchmark keeps custom ones as strings. 0 if absent."""
    return float(text) if text not in (None, "") else 0.0


def read_machine(context: dict) -> Machine:
    levels = []
    while f"level_{len(levels)}_name" in context:
        key = f"level_{len(levels)}_"
        levels.append(
            Level(
                context[key + "name"],
                number(context.get(key + "bytes")),
                number(context.get(key + "bytes_per_second")),
            )
        )
    if context["device"] not in DEVICES:
        raise ValueError(f"the device {context['device']!r} is none of {', '.join(DEVICES)}")
    name = context.get("machine") or context.get("gpu") or context.get("cpu")
    return Machine(
        name=name or context.get("host_name", "unknown machine"),
        device=context["device"],
        date=context["date"][:10],
        peak_flops=number(context.get("peak_flops")),
        levels=tuple(levels),
        facts={key: value for key, value in context.items() if isinstance(value, str)},
    )


def read_file(path: Path) -> list:
    """The rows of one file; repetitions are merged, aggregates left out, and failed runs as well,
    other than candidates of --tune.

    Runs are written as they were made, in random order; family_index is the step's own order.
    """
    data = json.loads(path.read_text(encoding="utf-8"))
    machine = read_machine(data["context"])
    runs: dict = {}
    for run in sorted(data["benchmarks"], key=lambda run: run.get("family_index", 0)):
        if run.get("run_type") == "aggregate":
            continue
        if run.get("error_occurred") and machine.facts.get("rows") != "candidates":
            continue
        match = NAME.match(run["name"])
        if not match:
            raise ValueError(f"the run name {run['name']!r} is not step/kernel/MxNxK")
        shape = tuple(int(match[dimension]) for dimension in "MNK")
        runs.setdefault((match["step"], match["kernel"], shape), []).append(run)
    return [merge(*key, machine, repetitions) for key, repetitions in runs.items()]


def merge_files(rows: list) -> list:
    """One row per step, kernel, shape, device and settings, of all files.

    One may time it, another count it.

    The file with more repetitions gives the times. Peers stay with the file they ran in.
    """
    kept: dict = {}
    for row in rows:
        own = id(row.machine) if row.step == PEER else row.device
        key = (row.step, row.kernel, row.shape, own, row.settings)
        before = kept.get(key)
        if before is None:
            kept[key] = row
            continue
        fewer, more = sorted((before, row), key=lambda r: len(r.rates))
        kept[key] = replace(more, counters={**fewer.counters, **more.counters})
    return list(kept.values())


def rate_of(run: dict) -> float:
    """GFLOP/s of a run; 0 where it has none, or where M, N or K is 0 and there was no work."""
    rate = run.get("gflops", 0)
    if type(rate) not in (int, float) or not 0 <= rate < math.inf:
        raise ValueError(f"the rate {rate!r} of {run['name']!r} is no number of GFLOP/s")
    return rate


def merge(step: str, kernel: str, shape: Shape, machine: Machine, runs: list) -> Row:
    names = {key for run in runs for key, value in run.items() if type(value) in (int, float)}
    counters = {
        name: statistics.median(run[name] for run in runs if name in run) for name in sorted(names)
    }
    return Row(
        step=step,
        kernel=kernel,
        shape=shape,
        machine=machine,
        label=runs[0].get("label", ""),
        seconds=tuple(run["real_time"] * SECONDS[run["time_unit"]] for run in runs),
        rates=tuple(filter(None, (rate_of(run) for run in runs))),
        counters=counters,
        trouble=runs[0].get("error_message", ""),
    )
