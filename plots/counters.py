"""What Nsight Compute (ncu) reads off the hardware while a row of a GPU step runs.

STEP.ncu.csv has a line of names, a line of units, and a line for each launch of a kernel: first the
row's name and M = N = K, then what ncu says. A row that launches several kernels has as many lines.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from results import Missing, Results, Row

TIME = "gpu__time_duration.sum"
MEMORY_BYTES = "dram__bytes.sum"
L1_SECTORS = "lts__t_sectors_srcunit_tex.sum"  # of L2, that an L1 asked for or wrote
SHARED_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
SHARED_LOADS = "smsp__inst_executed_op_shared_ld.sum"
SHARED_STORES = "smsp__inst_executed_op_shared_st.sum"
LOAD_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
STORE_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"
BANK_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
PIPE_BUSY = "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"
ISSUE_BUSY = "smsp__issue_active.avg.pct_of_peak_sustained_elapsed"
WARPS_ACTIVE = "sm__warps_active.avg.pct_of_peak_sustained_active"
REGISTERS = "launch__registers_per_thread"
STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")

# What ncu is asked for. Stall reasons differ between architectures: all that this one has.
METRICS = (
    TIME,
    MEMORY_BYTES,
    L1_SECTORS,
    SHARED_WAVEFRONTS,
    SHARED_LOADS,
    SHARED_STORES,
    LOAD_WAVEFRONTS,
    STORE_WAVEFRONTS,
    BANK_CONFLICTS,
    PIPE_BUSY,
    ISSUE_BUSY,
    WARPS_ACTIVE,
    REGISTERS,
    r"regex:smsp__average_warps_issue_stalled_.*_per_issue_active\.ratio",
)


def is_metric(name: str) -> bool:
    """Whether ncu was asked for this: its reports hold much of the machine besides."""
    return name in METRICS or STALL.fullmatch(name) is not None


# What moves bytes to and from each memory, and how many each time. A wavefront takes all 32 banks
# of 4 bytes, whether all are asked or not.
MOVED = {"L2": (L1_SECTORS, 32), "memory": (MEMORY_BYTES, 1), "shared": (SHARED_WAVEFRONTS, 128)}


@dataclass(frozen=True)
class Profile:
    """One run of a row: what was read in each launch of its kernels, name -> number."""

    row: str
    size: int
    launches: tuple

    @property
    def flops(self) -> float:
        return 2.0 * self.size**3

    def total(self, metric: str) -> Optional[float]:
        """The sum over the launches; None where it was not read in each of them."""
        values = [launch.get(metric) for launch in self.launches]
        return None if None in values else sum(values)

    def mean(self, metric: str) -> Optional[float]:
        """The mean over the time of the launches, of a share or a ratio."""
        if None in (self.total(metric), self.total(TIME)):
            return None
        weighted = sum(launch[metric] * launch[TIME] for launch in self.launches)
        return weighted / self.total(TIME)

    def largest(self, metric: str) -> Optional[float]:
        return max((launch[metric] for launch in self.launches if metric in launch), default=None)

    def ratio(self, part: str, whole: str) -> Optional[float]:
        """One sum over another; None where one was not read, or there is nothing to divide by."""
        parts, wholes = self.total(part), self.total(whole)
        return parts / wholes if parts is not None and wholes else None

    def per_fma(self, metric: str) -> Optional[float]:
        """A sum, for each FMA of a whole warp."""
        total = self.total(metric)
        return None if total is None else total / (self.flops / 2 / 32)

    def intensity(self, memory: str) -> Optional[float]:
        """FLOP per byte moved from and to a memory of MOVED; None where none was, or none read."""
        metric, bytes_each = MOVED[memory]
        moved = self.total(metric)
        return self.flops / (moved * bytes_each) if moved else None

    def stalls(self) -> list:
        """(reason, warps that wait for it per instruction issued), the most frequent first.

        "selected" is the warp that issues. Names with "not_issued" repeat the others for the clocks
        in which no warp issues.
        """
        reasons = {match[1]: name for name in self.launches[0] if (match := STALL.fullmatch(name))}
        means = [
            (reason, self.mean(name))
            for reason, name in reasons.items()
            if reason != "selected" and not reason.endswith("not_issued")
        ]
        return sorted((pair for pair in means if pair[1]), key=lambda pair: -pair[1])


def number(text: str) -> Optional[float]:
    """A number as ncu writes it, "16,626,369,792"; None for "n/a" and for nothing."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def read(directory: Path, step: str) -> list:
    """The profiles of a step, in the order of its file. Raises Missing where there are none."""
    path = Path(directory) / f"{step}.ncu.csv"
    if not path.is_file():
        raise Missing(f"{path.name} is not in {path.parent.name}")
    with path.open(encoding="utf-8", newline="") as file:
        names, _units, *lines = csv.reader(file)
    runs: dict = {}
    for line in lines:
        text = dict(zip(names, line))
        values = {name: number(text[name]) for name in names if "__" in name}
        read = {name: value for name, value in values.items() if value is not None}
        runs.setdefault((text["row"], int(text["size"])), []).append(read)
    if not runs:
        raise Missing(f"{path.name} holds no launches")
    return [Profile(row, size, tuple(launches)) for (row, size), launches in runs.items()]


def of_row(results: Results, row: Row) -> Optional[Profile]:
    """The profile of a row at its shape, where there is one."""
    try:
        profiles = read(results.directory, row.step)
    except Missing:
        return None
    same = [p for p in profiles if p.row == row.kernel and (p.size,) * 3 == row.shape]
    return same[0] if same else None


def to_show(results: Results, step: str) -> Profile:
    """The profile of a step's best row, or where that was not profiled, of the fastest that was."""
    fastest = min(read(results.directory, step), key=lambda profile: profile.total(TIME))
    return of_row(results, results.best(step, "gpu")) or fastest


def launches_of(report: str) -> tuple:
    """(names, units, launches) of a report by `ncu --csv --page raw`, between its other lines."""
    start = re.search(r'^"ID",', report, re.MULTILINE)
    if not start:
        return [], [], []
    names, units, *lines = csv.reader(io.StringIO(report[start.start() :]))
    return names, units, [line for line in lines if len(line) == len(names)]
