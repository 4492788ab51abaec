"""Tests of plots/: results invented here go in, figures and tables come out."""

import contextlib
import csv
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "plots"))

import counters  # noqa: E402
import draw  # noqa: E402
import figures  # noqa: E402
import profile_steps  # noqa: E402
import tables  # noqa: E402
from results import Missing, Results  # noqa: E402
from style import plt, significant, spread_out  # noqa: E402

GPU_ROWS = [
    # step, kernel, BM BN BK TM TN, share of the peak, registers
    ("07_gpu_naive", "32x32 threads", (0, 0, 0, 1, 1), 0.01, 32),
    ("08_gpu_coalesced", "32x32 threads", (0, 0, 0, 1, 1), 0.1, 32),
    ("09_gpu_square_tiling", "16x16x16", (16, 16, 16, 1, 1), 0.11, 34),
    ("09_gpu_square_tiling", "32x32x32", (32, 32, 32, 1, 1), 0.14, 34),
    ("10_gpu_thread_tiling", "64x64x8, 8x1 per thread", (64, 64, 8, 8, 1), 0.28, 48),
    ("11_gpu_register_tiling", "64x64x8, 4x4 per thread", (64, 64, 8, 4, 4), 0.35, 64),
    ("11_gpu_register_tiling", "128x128x8, 8x8 per thread", (128, 128, 8, 8, 8), 0.42, 128),
    ("12_gpu_shared_layout", "plain", (128, 128, 16, 8, 8), 0.43, 128),
    ("12_gpu_shared_layout", "padded", (128, 128, 16, 8, 8), 0.5, 128),
    ("12_gpu_shared_layout", "swizzled", (128, 128, 16, 8, 8), 0.52, 128),
    ("13_gpu_double_buffering", "compute, then load", (128, 128, 16, 8, 8), 0.51, 128),
    ("13_gpu_double_buffering", "load, then compute", (128, 128, 16, 8, 8), 0.58, 128),
]
PEAK = 60e12


def context(step, device, levels, peak, **settings):
    words = {
        "date": "2001-02-03T04:05:06+00:00",
        "host_name": "invented",
        "machine": f"an invented {device}",
        "device": device,
        "step": step,
        "init": "normal",
        "cache": "warm",
        "git_revision": "0000000",
        "peak_flops": str(peak),
        **settings,
    }
    for i, (name, size, rate) in enumerate(levels):
        words[f"level_{i}_name"] = name
        words[f"level_{i}_bytes"] = str(size)
        words[f"level_{i}_bytes_per_second"] = str(rate)
    return words


def runs(step, kernel, shape, gflops, counters, repeats=3):
    """Repetitions 2 % apart, the middle one at `gflops`, and an aggregate to be ignored."""
    M, N, K = shape
    name = f"{step}/{kernel}/{M}x{N}x{K}/manual_time"
    entries = []
    for repetition in range(repeats):
        rate = gflops * (1 + 0.02 * (repetition - repeats // 2))
        entries.append(
            {
                "name": name,
                "run_type": "iteration",
                "repetitions": repeats,
                "repetition_index": repetition,
                "real_time": 2e-6 * M * N * K / rate,
                "time_unit": "ms",
                "label": "verified (exact)",
                "gflops": rate,
                "peak_gflops": PEAK / 1e9,
                "M": float(M),
                "N": float(N),
                "K": float(K),
                **counters,
            }
        )
    mean = dict(entries[0], name=f"{name}_mean", run_type="aggregate", gflops=1e9)
    return entries + [mean]


def tile_counters(shape, tile):
    M, N, K = shape
    BM, BN, BK, TM, TN = tile
    shared = 4.0 * M * N * K / (TM * TN) * (TM + TN) if BM else 0.0
    return {
        "BM": BM,
        "BN": BN,
        "BK": BK,
        "TM": TM,
        "TN": TN,
        "global_loaded": 4.0 * M * N * K * (1 / (BN or 1) + 1 / (BM or 1)),
        "global_stored": 4.0 * M * N,
        "shared_loaded": shared,
        "shared_stored": 4.0 * M * N * K * (1 / BN + 1 / BM) if BM else 0.0,
        "compulsory_bytes": 4.0 * (M * K + K * N + M * N),
    }


def write_file(directory, name, words, entries):
    text = json.dumps({"context": words, "benchmarks": entries}, indent=1)
    (directory / name).write_text(text, encoding="utf-8")


def write_gpu(directory):
    levels = [("shared", 232448, 3.3e13), ("L2", 6e7, 8e12), ("memory", 0, 4.2e12)]
    for step in sorted({row[0] for row in GPU_ROWS}):
        timed, counted = [], []
        for _, kernel, tile, share, registers in (row for row in GPU_ROWS if row[0] == step):
            for size in (1024, 2048, 4096):
                shape = (size,) * 3
                counters = tile_counters(shape, tile)
                counters.update(registers=registers, threads=256, shared_bytes=8192, occupancy=0.25)
                rate = share * PEAK / 1e9 * (0.5 if size == 1024 else 1)
                timed += runs(step, kernel, shape, rate, counters)
            shape = (256,) * 3
            counters = tile_counters(shape, tile)
            counters.update({f"counted_{k}": v for k, v in counters.items() if "ed" in k})
            conflicts = {"plain": 4, "padded": 1, "swizzled": 1}.get(kernel, 2)
            for access in ("global_load", "global_store", "shared_load", "shared_store"):
                counters[f"{access}_requests"] = 1000.0
                unit = "sectors" if "global" in access else "wavefronts"
                counters[f"{access}_{unit}"] = 1000.0 * conflicts
            counted += runs(step, kernel, shape, 0.1, counters, repeats=1)
        for size in (1024, 2048, 4096):
            timed += runs("peer", "cuBLAS SGEMM", (size,) * 3, 0.78 * PEAK / 1e9, {})
        write_file(directory, f"{step}.json", context(step, "gpu", levels, PEAK), timed)
        for run in counted:
            del run["gflops"]
        emulated = context(step, "emulator", [], 0)
        write_file(directory, f"{step}.counts.json", emulated, counted)


def write_cpu(directory):
    levels = [("L1", 32768, 6e10), ("L2", 524288, 4e10), ("memory", 0, 1e10)]
    peak = 3e10
    plain = [("01_cpu_naive", 0.3), ("02_cpu_loop_order", 4.0), ("04_cpu_cache_oblivious", 9.0)]
    for step, rate in plain:
        shape = (1000,) * 3
        entries = runs(step, "plain", shape, rate, tile_counters(shape, (0, 0, 0, 1, 1)))
        entries += runs("peer", "OpenBLAS", shape, 26.0, {})
        write_file(directory, f"{step}.json", context(step, "cpu", levels, peak), entries)
    step, timed, counted = "03_cpu_square_tiling", [], []
    for size in (1000, 1024, 1040):
        for side in (8, 16, 32, 52, 64, 128):
            shape, tile = (size,) * 3, (side, side, side, 1, 1)
            kernel = f"T={side}" + (" (model: L1)" if side == 52 else "")
            slow = 0.4 if size == 1024 else 1.0
            rate = slow * (10 - abs(side - 52) / 10)
            timed += runs(step, kernel, shape, rate, tile_counters(shape, tile))
            predicted = 2 * size**3 / (16 * side) + size**2 / 16
            measured = predicted * (1 if side < 64 else 20) * (30 if size == 1024 else 1)
            counters = {
                **tile_counters(shape, tile),
                "accesses": 4.0 * size**3,
                "predicted_misses_L1": predicted,
                "simulated_misses_L1": measured,
                "predicted_misses_L2": predicted / 4,
                "simulated_misses_L2": measured / 4,
            }
            counted += runs(step, kernel, shape, 0.1, counters, repeats=1)
    write_file(directory, f"{step}.json", context(step, "cpu", levels, peak), timed)
    write_file(directory, f"{step}.counts.json", context(step, "cpu", levels, peak), counted)


CPU_LEVELS = [("L1", 32768, 6e10), ("L2", 524288, 4e10), ("memory", 0, 1e10)]
CPU_PEAK = 30.0  # GFLOP/s


def write_packed(directory):
    """Steps 05 and 06 at several sizes, without parts, with other blocks, padded, on threads."""
    sizes = (100, 127, 128, 129, 255, 256, 257, 1000)

    def measured(step, kernel, size, share, threads=1):
        rate = share * CPU_PEAK * threads**0.9
        counters = {**tile_counters((size,) * 3, (0, 64, 128, 6, 16)), "of_peak": share}
        if step != "peer":
            counters.update(ratio_to_openblas=share / 0.8, ratio_to_blis=share / 0.7)
        return runs(step, kernel, (size,) * 3, rate, counters)

    def write(step, name, kernels, sizes, threads=1, pad=0):
        entries = []
        for size in sizes:
            for kernel, share in kernels.items():
                share -= 0.2 if size == 256 and not pad else 0
                entries += measured(step, kernel, size, share, threads)
            for library, share in (("OpenBLAS 1 Zen", 0.8), ("BLIS 2", 0.7)):
                kernel = f"{library}, {threads} thread{'s' if threads > 1 else ''}"
                entries += measured("peer", kernel, size, share, threads)
        settings = {"threads": str(threads), "pad": str(pad)}
        words = context(step, "cpu", CPU_LEVELS, CPU_PEAK * 1e9 * threads, **settings)
        write_file(directory, name, words, entries)

    complete, few = {"complete": 0.9}, (256, 1000)
    parts = {f"without {part}": 0.5 for part in ("packing", "fetching A")}
    blocks = {f"KC={KC} NC={NC}": 0.6 + KC / 5000 for KC in (128, 256) for NC in (64, 512)}
    write("05_cpu_register_tiling", "05_cpu_register_tiling.json", {"6x16": 0.6}, few)
    write("05_cpu_register_tiling", "05_cpu_register_tiling.pad16.json", {"6x16": 0.6}, few, pad=16)
    write("06_cpu_packed", "06_cpu_packed.json", {**complete, **parts, **blocks}, few)
    write("06_cpu_packed", "06_cpu_packed.sizes.json", complete, sizes)
    write("06_cpu_packed", "06_cpu_packed.pad16.json", complete, few, pad=16)
    write("06_cpu_packed", "06_cpu_packed.t2.json", complete, few, threads=2)
    write("06_cpu_packed", "06_cpu_packed.t4.json", complete, few, threads=4)


def write_candidates(directory):
    """What --tune leaves of step 13: a result of every candidate, refused ones too, and its choice.

    Those of fewer threads occupy less; 128 x 128 x 8 with 8 x 8 is fastest.
    """
    step, entries = "13_gpu_double_buffering", []
    for size in (256, 2048):
        for BM, BN in ((64, 64), (128, 128), (256, 128)):
            for BK in (8, 16):
                for TM, TN in ((4, 4), (8, 8), (16, 8)):
                    threads = BM // TM * BN // TN
                    counters = tile_counters((size,) * 3, (BM, BN, BK, TM, TN))
                    counters["occupancy"] = min(1.0, threads / 1024)
                    kernel = f"{BM}x{BN}x{BK}, {TM}x{TN}"
                    share = 1 - BK / 80 if (BM, TM) == (128, 8) else 0.1 + BK / 100
                    timed = runs(step, kernel, (size,) * 3, share * PEAK / 1e9, counters)
                    if threads > 1024:
                        why = f"skipped (has {threads} threads, 1024 at most)"
                        timed = [{**timed[0], "error_occurred": True, "error_message": why}]
                        del timed[0]["gflops"]
                    entries += timed
        entries += runs("peer", "cuBLAS SGEMM", (size,) * 3, 0.78 * PEAK / 1e9, {})
    words = context(step, "gpu", [], PEAK, rows="candidates")
    write_file(directory, f"{step}.tune.json", words, entries)
    choice = {"step": step, "device": "an invented gpu", "best": []}
    (directory / f"{step}.tuned.json").write_text(json.dumps(choice), encoding="utf-8")


TUNE_FIGURES = {"tile_heat_map_13", "occupancy_13"}


def write_bf16(directory):
    entries = runs("22_cpu_amx", "tiles", (1000,) * 3, 20 * CPU_PEAK, {})
    entries += runs("peer", "MKL 3, 1 thread", (1000,) * 3, 25 * CPU_PEAK, {})
    words = context("22_cpu_amx", "cpu", CPU_LEVELS, 0, element="bf16")
    write_file(directory, "22_cpu_amx.json", words, entries)


def write_errors(directory, step, kernel, inits, shapes, ours=1.5, peers=3.0, seed=0):
    """The errors of one row and of cuBLAS: of each further init ten times as large."""
    for place, init in enumerate(inits):
        entries = []
        for shape in shapes:
            for name, row, largest in ((step, kernel, ours), ("peer", "cuBLAS SGEMM", peers)):
                error = largest * 10**place
                numbers = {"error_max": error, "error_rms": error / 8}
                entries += runs(name, row, shape, 2 * PEAK / 1e9, numbers)
        words = context(step, "gpu", [], PEAK, init=init, seed=str(seed))
        write_file(directory, f"{step}.errors.{init}.{seed}.json", words, entries)


CPU_FIGURES = ("goto_picture", "cpu_sizes", "cpu_padding", "cpu_ablation", "cpu_blocking")
CPU_FIGURES += ("cpu_threads",)


class PlotsTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.addCleanup(plt.close, "all")
        self.root = Path(temporary.name)
        self.machine = self.root / "plots" / "reference" / "invented"
        self.machine.mkdir(parents=True)

    def draw(self, out):
        """Draws self.machine's results; returns what was drawn, what was not, and the text."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            draw.draw_all(Results(self.machine), out)
        words = [line.split() for line in said.getvalue().splitlines()]
        drawn = {line[1] for line in words if line[0] == "drawn"}
        return drawn, {line[2].rstrip(":") for line in words if line[0] == "not"}, said.getvalue()


class Reading(PlotsTest):
    def test_rows_are_medians_of_repetitions_and_aggregates_are_ignored(self):
        entries = runs("09_gpu_square_tiling", "32x32x32", (8, 16, 24), 100.0, {"registers": 7})
        words = context("09_gpu_square_tiling", "gpu", [("L2", 10, 20)], 5e11)
        write_file(self.machine, "a.json", words, entries)
        (row,) = Results(self.machine).rows
        self.assertEqual((row.kernel, row.shape, row.gflops), ("32x32x32", (8, 16, 24), 100.0))
        self.assertAlmostEqual(row.spread[0], 2.0)
        self.assertEqual(row.get("registers"), 7)
        self.assertEqual((row.machine.date, row.machine.peak_flops), ("2001-02-03", 5e11))
        self.assertEqual(row.machine.levels[0].bytes_per_second, 20)

    def test_a_broken_file_is_named_and_the_others_are_read(self):
        write_gpu(self.machine)
        (self.machine / "broken.json").write_text("{", encoding="utf-8")
        (self.machine / "directory.json").mkdir()
        write_file(self.machine, "list.json", context("07_gpu_naive", "gpu", [], 0), [1])
        entries = runs("07_gpu_naive", "x", (8, 8, 8), 1.0, {})
        write_file(self.machine, "device.json", context("07_gpu_naive", "tpu", [], 0), entries)
        entries[0]["gflops"] = None
        write_file(self.machine, "rate.json", context("07_gpu_naive", "gpu", [], 0), entries)
        results = Results(self.machine)
        self.assertTrue(results.rows)
        named = [problem.split(":")[0] for problem in results.problems]
        broken = ["broken.json", "device.json", "directory.json", "list.json", "rate.json"]
        self.assertEqual(named, broken)

    def test_a_shape_without_work_has_no_rate(self):
        entries = runs("07_gpu_naive", "x", (8, 8, 0), 1.0, {})
        for entry in entries:
            entry["gflops"] = 0.0
        write_file(self.machine, "a.json", context("07_gpu_naive", "gpu", [], 0), entries)
        (row,) = Results(self.machine).rows
        self.assertFalse(row.timed)

    def test_failed_runs_have_no_rate(self):
        entries = runs("07_gpu_naive", "x", (8, 8, 8), 1.0, {})
        for entry in entries:
            entry["error_occurred"] = True
        write_file(self.machine, "a.json", context("07_gpu_naive", "gpu", [], 0), entries)
        self.assertEqual(Results(self.machine).rows, [])

    def test_rows_keep_the_order_of_the_step_whatever_order_they_ran_in(self):
        entries = []
        for place, kernel in ((2, "c"), (0, "a"), (1, "b")):
            for run in runs("12_gpu_shared_layout", kernel, (8, 8, 8), 1.0, {}):
                entries.append({**run, "family_index": place})
        write_file(self.machine, "a.json", context("12_gpu_shared_layout", "gpu", [], 0), entries)
        self.assertEqual([row.kernel for row in Results(self.machine).rows], ["a", "b", "c"])

    def test_a_row_timed_in_one_file_and_counted_in_another_is_one_row(self):
        words, shape = context("01_cpu_naive", "cpu", [], 0), (8, 8, 8)
        timed = runs("01_cpu_naive", "ijk", shape, 2.0, {})
        counted = runs("01_cpu_naive", "ijk", shape, 1.0, {"simulated_misses_L1": 5.0}, repeats=1)
        write_file(self.machine, "01.counts.json", words, counted)
        write_file(self.machine, "01.json", words, timed)
        (row,) = Results(self.machine).rows
        self.assertEqual((row.gflops, row.get("simulated_misses_L1")), (2.0, 5.0))

    def test_padded_and_threaded_rows_are_kept_apart(self):
        write_packed(self.machine)
        results = Results(self.machine)
        self.assertEqual({(row.pad, row.threads) for row in results.rows}, {(0, 1)})
        kept = {(row.pad, row.threads) for row in results.variants}
        self.assertEqual(kept, {(16, 1), (0, 2), (0, 4)})
        for row in results.variants:
            self.assertEqual(results.peer_of(row).settings, row.settings)

    def test_rows_with_other_operands_are_kept_apart(self):
        write_gpu(self.machine)
        write_candidates(self.machine)

        def all_but_others():
            results = Results(self.machine)
            self.assertEqual(results.problems, [])
            rows = results.rows + results.variants + results.candidates
            return [(row.kernel, row.shape, row.rates, row.counters) for row in rows]

        before = all_but_others()
        step, kernel = GPU_ROWS[6][:2]
        shapes = [(4096,) * 3, (8192,) * 3]
        write_errors(self.machine, step, kernel, ("uniform", "wide"), shapes)
        self.assertEqual(all_but_others(), before)
        others = Results(self.machine).other_operands
        self.assertEqual({row.init for row in others}, {"uniform", "wide"})
        self.assertEqual(len(others), 8)

    def test_candidates_are_no_rows_of_their_step(self):
        write_gpu(self.machine)
        before = [(row.kernel, row.shape, row.rates) for row in Results(self.machine).rows]
        write_candidates(self.machine)
        results = Results(self.machine)
        self.assertEqual([(row.kernel, row.shape, row.rates) for row in results.rows], before)
        self.assertEqual((results.variants, results.problems), ([], []))
        refused = {row.kernel: row.trouble for row in results.candidates if row.trouble}
        self.assertEqual(set(refused), {"256x128x8, 4x4", "256x128x16, 4x4"})
        self.assertIn("2048 threads", refused["256x128x8, 4x4"])
        self.assertFalse(any(row.timed for row in results.candidates if row.trouble))

    def test_other_blocks_and_missing_parts_are_never_a_steps_best_row(self):
        write_packed(self.machine)
        entries = runs("06_cpu_packed", "KC=1024 NC=64", (1000,) * 3, 99 * CPU_PEAK, {})
        write_file(self.machine, "z.json", context("06_cpu_packed", "cpu", [], 0), entries)
        self.assertEqual(Results(self.machine).best("06_cpu_packed").kernel, "complete")

    def test_runs_at_different_times_are_compared_by_their_shares_of_the_peak(self):
        for name, rate in (("now", 10.0), ("later", 30.0)):
            entries = runs("06_cpu_packed", name, (8,) * 3, rate, {"of_peak": 0.5})
            entries += runs("06_cpu_packed", name + " too", (8,) * 3, 2 * rate, {"of_peak": 0.5})
            write_file(self.machine, f"{name}.json", context("06", "cpu", [], 0), entries)
        rows = {row.kernel: row for row in Results(self.machine).rows}
        self.assertEqual(rows["now"].over(rows["later"]), 1)
        self.assertEqual(rows["now"].over(rows["now too"]), 0.5)

    def test_the_peak_beside_a_row_goes_before_the_machines(self):
        shape = (8, 8, 8)
        entries = runs("06_cpu_packed", "beside", shape, 10.0, {"of_peak": 0.8})
        entries += runs("06_cpu_packed", "old", shape, 10.0, {})
        write_file(self.machine, "a.json", context("06_cpu_packed", "cpu", [], 2e10), entries)
        rows = {row.kernel: row.of_peak for row in Results(self.machine).rows}
        self.assertEqual(rows, {"beside": 0.8, "old": 0.5})

    def test_emulated_times_are_never_rates(self):
        write_gpu(self.machine)
        results = Results(self.machine)
        self.assertEqual(results.devices(), ["gpu"])
        self.assertTrue(all(row.device == "gpu" for row in results.timed("gpu")))

    def test_best_row_peer_and_main_shape(self):
        write_gpu(self.machine)
        results = Results(self.machine)
        self.assertEqual(results.main_shape("gpu"), (4096, 4096, 4096))
        best = results.best("11_gpu_register_tiling")
        self.assertEqual(best.kernel, "128x128x8, 8x8 per thread")
        self.assertAlmostEqual(results.peer_of(best).gflops, 0.78 * PEAK / 1e9)
        with self.assertRaises(Missing):
            results.best("19_gpu_wgmma")

    def test_numbers_are_written_to_significant_digits(self):
        pairs = [
            (0, "0"),
            (0.01234, "0.0123"),
            (1.2345, "1.23"),
            (27.149, "27.1"),
            (1234.6, "1,235"),
        ]
        for value, text in pairs:
            self.assertEqual(significant(value), text)

    def test_labels_keep_their_distance_and_order(self):
        moved = spread_out([3.0, 1.0, 1.1, 1.2], 0.5)
        ordered = [moved[i] for i in (1, 2, 3, 0)]
        gaps = [b - a for a, b in zip(ordered, ordered[1:])]
        self.assertGreaterEqual(min(gaps), 0.5 - 1e-9)
        self.assertEqual(moved[0], 3.0)


class Drawing(PlotsTest):
    def test_every_figure_is_drawn_as_svg_and_png(self):
        write_gpu(self.machine)
        write_cpu(self.machine)
        write_packed(self.machine)
        write_bf16(self.machine)
        write_candidates(self.machine)
        drawn, missing, _ = self.draw(self.root / "out")
        expected = {"ladder_cpu", "ladder_gpu", "roofline_cpu", "roofline_gpu", "tile_size_03"}
        expected |= {"rate_against_size_gpu", "wavefronts_12", "predicted_counted", "misses"}
        expected |= {"tiles_09", "tiles_11", "tiles_12", "tiles_13", "rate_against_size_cpu"}
        expected |= {"tiles_06", *CPU_FIGURES, *TUNE_FIGURES}
        self.assertEqual((drawn, missing), (expected, set()))
        for name in expected:
            self.assertIn("<svg", (self.root / "out" / f"{name}.svg").read_text(encoding="utf-8"))
            self.assertEqual((self.root / "out" / f"{name}.png").read_bytes()[1:4], b"PNG")

    def test_each_figure_of_the_packed_step_needs_its_own_results(self):
        needs = {
            "cpu_sizes": "06_cpu_packed*.json",
            "cpu_padding": "*.pad16.json",
            "cpu_ablation": "06_cpu_packed.json",
            "cpu_blocking": "06_cpu_packed.json",
            "cpu_threads": "*.t?.json",
        }
        for figure, files in needs.items():
            write_packed(self.machine)
            for path in self.machine.glob(files):
                path.unlink()
            missing, results = set(), Results(self.machine)
            for name in CPU_FIGURES:
                try:
                    getattr(figures, name)(results)
                except Missing:
                    missing.add(name)
            same_files = {name for name in needs if needs[name] == files}
            without_06 = set(CPU_FIGURES) - {"cpu_padding"}  # which step 05 still gives
            self.assertEqual(missing, without_06 if figure == "cpu_sizes" else same_files)

    def test_the_blocks_of_the_packed_step_are_no_bars_of_its_table_of_rows(self):
        write_packed(self.machine)
        figure, _ = figures.tiles(Results(self.machine), "06_cpu_packed")
        labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
        self.assertEqual(labels, ["complete", "without packing", "without fetching A"])

    def test_speed_up_is_over_the_same_on_one_thread(self):
        write_packed(self.machine)
        figure, _ = figures.cpu_threads(Results(self.machine))
        lines = {line.get_label(): line for line in figure.axes[0].get_lines()}
        self.assertEqual(set(lines), {"06 packed", "OpenBLAS 1 Zen", "BLIS 2", "one for one"})
        for name in ("06 packed", "BLIS 2"):
            self.assertEqual(list(lines[name].get_xdata()), [1, 2, 4])
            for drawn, wanted in zip(lines[name].get_ydata(), (1, 2**0.9, 4**0.9)):
                self.assertAlmostEqual(drawn, wanted)

    def test_ablation_is_relative_to_the_complete_step(self):
        write_packed(self.machine)
        figure, _ = figures.cpu_ablation(Results(self.machine))
        widths = sorted(bar.get_width() for bar in figure.axes[0].patches)
        for drawn, wanted in zip(widths, (0.3 / 0.7, 0.3 / 0.7, 0.5 / 0.9, 0.5 / 0.9)):
            self.assertAlmostEqual(drawn, wanted)

    def test_neighbours_of_powers_of_two_have_marks_of_their_own(self):
        write_packed(self.machine)
        figure, _ = figures.cpu_sizes(Results(self.machine))
        by_marker = {line.get_marker(): line for line in figure.axes[0].get_lines()[:3]}
        self.assertEqual(list(by_marker["o"].get_xdata()), [100, 128, 256, 1000])
        self.assertEqual([round(n * 1.035) for n in by_marker["<"].get_xdata()], [127, 255])
        self.assertEqual([round(n / 1.035) for n in by_marker[">"].get_xdata()], [129, 257])
        shares = figure.axes[1].get_lines()[0].get_ydata()
        self.assertAlmostEqual(shares[0], 90)

    def test_the_heat_map_has_a_panel_for_each_block_tile_and_hatches_what_was_refused(self):
        write_candidates(self.machine)
        step = "13_gpu_double_buffering"
        figure, caption = figures.tile_heat_map(Results(self.machine), step)
        panels = {ax.get_title(loc="left"): ax for ax in figure.axes if ax.images}
        self.assertEqual(list(panels), ["64 x 64", "128 x 128", "256 x 128"])
        self.assertIn("M = N = K = 2048", caption)
        rates = panels["128 x 128"].images[0].get_array()
        self.assertEqual(rates.shape, (2, 3))
        self.assertAlmostEqual(rates[0][1], 0.9 * PEAK / 1e12)
        self.assertAlmostEqual(rates[1][1], 0.8 * PEAK / 1e12)
        hatched = {name: [p for p in ax.patches if p.get_hatch()] for name, ax in panels.items()}
        self.assertEqual([len(hatched[name]) for name in panels], [0, 0, 2])
        corners = [patch.get_xy() for patch in hatched["256 x 128"]]
        self.assertEqual(corners, [(-0.5, -0.5), (-0.5, 0.5)])

    def test_occupancy_names_the_fastest_and_the_ends(self):
        write_candidates(self.machine)
        figure, _ = figures.occupancy(Results(self.machine), "13_gpu_double_buffering")
        (ax,) = figure.axes
        points = [point for line in ax.get_lines() for point in zip(*line.get_data())]
        self.assertEqual(len(points), 16)
        self.assertAlmostEqual(max(rate for _, rate in points), 0.9 * PEAK / 1e12)
        named = {text.get_text() for text in ax.texts}
        self.assertIn("128x128x8, 8x8", named)  # fastest
        self.assertIn("64x64x8, 16x8", named)  # fewest threads, and slowest
        self.assertIn("128x128x16, 4x4", named)  # most threads

    def test_figures_of_candidates_need_one_that_was_timed(self):
        write_candidates(self.machine)
        path = self.machine / "13_gpu_double_buffering.tune.json"
        data = json.loads(path.read_text(encoding="utf-8"))
        data["benchmarks"] = [run for run in data["benchmarks"] if run.get("error_occurred")]
        path.write_text(json.dumps(data), encoding="utf-8")
        drawn, missing, _ = self.draw(self.root / "out")
        self.assertEqual(drawn & TUNE_FIGURES, set())
        self.assertLessEqual(TUNE_FIGURES, missing)

    def test_operands_in_bf16_stay_out_of_the_roofline_of_fp32(self):
        write_packed(self.machine)
        write_bf16(self.machine)
        results = Results(self.machine)
        figure, _ = figures.roofline(results, "cpu")
        labels = [line.get_label() for line in figure.axes[0].get_lines()]
        self.assertIn("06 packed", labels)
        self.assertNotIn("22 amx", labels)
        figure, caption = figures.ladder(results, "cpu")
        labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
        self.assertIn("22 amx (BF16)", labels)
        self.assertIn("BF16", caption)
        best = results.best("06_cpu_packed")
        self.assertEqual(results.peer_of(best).kernel, "OpenBLAS 1 Zen, 1 thread")

    def test_a_roofline_joins_what_hardware_moved_to_what_is_requested(self):
        write_gpu(self.machine)
        results = Results(self.machine)
        row = results.best("11_gpu_register_tiling")
        lines = [["row", "size", counters.TIME, counters.MEMORY_BYTES], [""] * 4]
        lines.append([row.kernel, row.shape[0], 5, int(row.flops / 300)])
        with (self.machine / f"{row.step}.ncu.csv").open("w", newline="") as file:
            csv.writer(file).writerows(lines)
        figure, caption = figures.roofline(results, "gpu")
        drawn = figure.axes[0].get_lines()
        marks = [line for line in drawn if line.get_markerfacecolor() == figures.LIGHT]
        joined = [line for line in drawn if list(line.get_xdata())[:1] == [row.intensity("global")]]
        self.assertAlmostEqual(marks[0].get_xdata()[0], 300, places=3)
        self.assertAlmostEqual(joined[-1].get_xdata()[1], 300, places=3)
        self.assertIn("moved from and to memory", [line.get_label() for line in drawn])
        self.assertIn("read by Nsight Compute", caption)
        self.assertNotIn("moved", str([line.get_label() for line in figure.axes[1].get_lines()]))

    def test_redrawing_gives_the_same_bytes(self):
        write_gpu(self.machine)
        for path in self.machine.glob("*.json"):
            if not path.name.startswith(("12", "13")):
                path.unlink()
        self.draw(self.root / "one")
        self.draw(self.root / "two")
        self.assertTrue((self.root / "one" / "wavefronts_12.svg").exists())
        for path in sorted((self.root / "one").iterdir()):
            self.assertEqual(path.read_bytes(), (self.root / "two" / path.name).read_bytes(), path)

    def test_missing_data_is_named_and_the_others_go_on(self):
        entries = runs("07_gpu_naive", "x", (8, 8, 8), 1.0, {})
        write_file(self.machine, "a.json", context("07_gpu_naive", "gpu", [], 0), entries)
        drawn, missing, said = self.draw(self.root / "out")
        self.assertEqual(drawn, {"ladder_gpu"})
        self.assertIn("predicted_counted", missing)
        self.assertIn("roofline_gpu: the ceilings", said)


# Nsight Compute and a step, as far as profile_steps.py sees them. "two kernels" launches a kernel
# that packs before the one that multiplies.
FAKE_NCU = """#!/bin/sh
while [ "$1" != --log-file ]; do shift; done
log=$2 row=$(echo "$*" | sed 's/.*--kernel ^//; s/[$]$//; s/[\\\\]//g')
launch() {
  echo "\\"$1\\",\\"7\\",\\"$2<(int)8, 8>(int, const float *)\\",\\"(256, 1, 1)\\",\\"(4, 1, 1)\\",\\"$3\\",\\"$4\\",\\"$5\\",\\"n/a\\""
}
[ ! "$FORBIDDEN" ] || { echo "==ERROR== ERR_NVGPUCTRPERM - no permission" >"$log"; exit 1; }
case $row in
  *wrong*) echo "  $row  FAILED: C[0,0] is 1, expected 2"; exit 1 ;;
  *refused*) echo "  skipped (needs sm_90)"; echo "==ERROR== The application returned an error code (3)." >"$log"; exit 3 ;;
esac
echo "  $row  verified (exact)"
{
  echo "==PROF== Connected to process 7 (/somewhere/step)"
  echo '"ID","Process ID","Kernel Name","Block Size","Grid Size","dram__bytes.sum","gpu__time_duration.sum","smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio","lts__t_sectors_srcunit_tex.sum"'
  echo '"","","","","","byte","ns","inst","sector"'
  for operands in 1 2; do
    case $row in *two*) launch 0 pack "${operands}00" 10 4 ;; esac
    launch 1 "void main" "${operands},000" 30 2
    launch 2 "gemm::reference_kernel" 5 5 5
  done
  echo "==PROF== Disconnected from process 7"
} >"$log"
"""
FAKE_STEP = """#!/bin/sh
for last; do :; done
case $* in *--json*) cp "$0.json" "$last"; exit ;; esac
cat <<'END'
11_gpu_register_tiling on gpu: a title
  one kernel, 8x8 (plain)
  two kernels
ROWS11_gpu_register_tiling on emulator: a title
  for the emulator alone
END
"""


class Profiling(PlotsTest):
    STEP = "11_gpu_register_tiling"

    def profile(self, *flags, rows="", forbidden=""):
        """Runs profile_steps.py with a fake ncu; returns its exit status and what was said."""
        programs = {"ncu": FAKE_NCU.replace("$FORBIDDEN", forbidden)}
        programs[self.STEP] = FAKE_STEP.replace("ROWS", rows)
        for name, text in programs.items():
            (self.root / name).write_text(text, encoding="utf-8")
            (self.root / name).chmod(0o755)
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            where = ["--ncu", str(self.root / "ncu"), "--steps", str(self.root)]
            status = profile_steps.main([*flags, *where, str(self.machine), self.STEP])
        return status, said.getvalue()

    def test_each_row_is_profiled_on_the_operands_that_are_timed(self):
        status, said = self.profile()
        self.assertEqual(status, 0, said)
        one, two = counters.read(self.machine, self.STEP)
        self.assertEqual((one.row, one.size), ("one kernel, 8x8 (plain)", 4096))
        self.assertEqual(one.total(counters.MEMORY_BYTES), 2000)
        self.assertEqual(one.intensity("memory"), 2 * 4096**3 / 2000)
        self.assertIsNone(one.total(counters.L1_SECTORS))
        self.assertIsNone(one.intensity("L2"))
        self.assertIn("2 of 2 rows profiled", said)
        self.assertEqual(len(two.launches), 2)

    def test_quick_profiles_the_fastest_row_alone(self):
        entries = runs(self.STEP, "one kernel, 8x8 (plain)", (4096,) * 3, 1.0, {})
        entries += runs(self.STEP, "two kernels", (4096,) * 3, 2.0, {})
        write_file(self.root, f"{self.STEP}.json", context(self.STEP, "gpu", [], 0), entries)
        status, said = self.profile("--quick")
        self.assertEqual(status, 0, said)
        rows = [profile.row for profile in counters.read(self.machine, self.STEP)]
        self.assertEqual(rows, ["two kernels"])

    def test_several_kernels_of_a_row_are_summed_and_weighted_by_time(self):
        self.profile()
        _, two = counters.read(self.machine, self.STEP)
        self.assertEqual(two.total(counters.MEMORY_BYTES), 2200)
        self.assertEqual(two.stalls(), [("barrier", (10 * 4 + 30 * 2) / 40)])

    def test_a_row_that_is_wrong_or_refused_is_named_and_the_others_are_kept(self):
        status, said = self.profile(rows="  wrong\n  refused\n")
        self.assertEqual(status, 1)
        self.assertIn("2 of 4 rows profiled", said)
        self.assertIn("wrong: wrong  FAILED: C[0,0] is 1, expected 2", said)
        self.assertIn("refused: skipped (needs sm_90)", said)
        self.assertEqual(len(counters.read(self.machine, self.STEP)), 2)

    def test_counters_that_may_not_be_read_are_one_line_and_exit_status_3(self):
        status, said = self.profile(forbidden="yes")
        self.assertEqual(status, 3)
        self.assertIn("ERR_NVGPUCTRPERM): run this as root", said)
        self.assertEqual(list(self.machine.glob("*.ncu.csv")), [])

    def test_what_keeps_run_all_from_profiling_is_one_line(self):
        script = Path(__file__).resolve().parent.parent / "run_all.sh"
        without_gpu = self.root / "nvidia-smi"
        without_gpu.write_text("#!/bin/sh\nexit 9\n", encoding="utf-8")
        without_gpu.chmod(0o755)
        paths = {**os.environ, "PATH": f"{self.root}:{os.environ['PATH']}"}
        for flags, line in (
            ([], "no GPU answers here"),
            (["--device", "emulator"], "leave --device emulator out"),
            (["--test"], "at a time"),
            (["--tune"], "leave it out"),
        ):
            ran = subprocess.run(
                [script, "--counters", *flags], env=paths, capture_output=True, text=True
            )
            self.assertEqual((ran.returncode, ran.stdout), (2, ""))
            self.assertRegex(ran.stderr, f"^run_all.sh: .*{line}.*\n$")

    def test_a_row_is_named_to_a_step_by_an_expression_that_only_it_matches(self):
        self.assertEqual(profile_steps.only("a (b), c+d"), r"^a \(b\), c\+d$")


class Tables(PlotsTest):
    def fill(self, text, check=False):
        """Runs tables.py on one page; returns its exit status, the page and what was said."""
        page = self.root / "docs" / "page.md"
        page.parent.mkdir(exist_ok=True)
        if text is not None:
            page.write_text(text, encoding="utf-8")
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            status = tables.main((["--check"] if check else []) + ["--root", str(self.root)])
        return status, page.read_text(encoding="utf-8"), said.getvalue()

    def block(self, directive):
        status, page, said = self.fill(f"<!-- generated: {directive} -->\n<!-- end generated -->\n")
        self.assertEqual(status, 0, said)
        return page

    def test_tables_say_what_the_results_say(self):
        write_gpu(self.machine)
        write_cpu(self.machine)
        ladder = self.block("ladder invented")
        self.assertIn("[11 register tiling](11_gpu_register_tiling.md)", ladder)
        self.assertIn("| 25,200 | 42 % | 0.538 |", ladder)
        self.assertIn("| 128 |", self.block("step 11_gpu_register_tiling invented"))
        self.assertIn("| plain |", self.block("counts 12_gpu_shared_layout invented"))
        self.assertIn("| T=52 (model: L1) |", self.block("misses 03_cpu_square_tiling invented"))
        self.assertIn("an invented gpu", self.block("machine invented"))

    def test_register_tiles_beside_what_bounds_them(self):
        entries = []
        for MR, NV in ((1, 1), (4, 1), (12, 1), (7, 2)):
            counters = {"TM": MR, "TN": 8 * NV, "of_peak": 0.4}
            name = f"{MR}x{8 * NV}" + (", spills" if MR == 7 else "")
            entries += runs("05_cpu_register_tiling", name, (48,) * 3, 12.0, counters)
        words = context("05_cpu_register_tiling", "cpu", CPU_LEVELS, CPU_PEAK * 1e9)
        write_file(self.machine, "a.json", words, entries)
        counted = {"TM": 1, "TN": 8, "accesses": 7.0}
        entries = runs("05_cpu_register_tiling", "1x8", (52,) * 3, 1.0, counted, repeats=1)
        write_file(self.machine, "a.counts.json", words, entries)
        page = self.block("register_tiles 05_cpu_register_tiling invented")
        self.assertIn("| loads / FMA | bound | n = 48 |\n", page)
        self.assertIn("| 1 x 8 | 3 | 1 | 2.00 | 12 % | 12.0, 40 % |", page)  # one sum of 8
        self.assertIn("| 4 x 8 | 6 | 4 | 1.25 | 50 % |", page)  # four sums of 8
        self.assertIn("| 12 x 8 | 14 | 12 | 1.08 | 92 % |", page)  # loads
        self.assertIn("| 7 x 16 *(spills)* | 17 | 14 | 0.64 | 100 % |", page)

    def test_parts_are_relative_to_the_complete_step(self):
        write_packed(self.machine)
        page = self.block("parts 06_cpu_packed invented")
        self.assertIn("| row | n = 256 | n = 1000 |", page)
        self.assertIn("| complete, GFLOP/s | 21.0 | 27.0 |", page)
        self.assertIn("| without packing, x complete | 0.429 | 0.556 |", page)

    def test_peers_have_a_column_each_and_a_geometric_mean(self):
        write_packed(self.machine)
        page = self.block("peers 06_cpu_packed invented")
        self.assertIn("| M x N x K | GFLOP/s | of FMA peak | x BLIS 2 | x OpenBLAS 1 Zen |", page)
        self.assertIn("| 100 | 27.0 | 90 % | 1.29 | 1.12 |", page)
        self.assertIn("| smallest |  |  | 1.00 | 0.875 |", page)
        mean = (0.9 / 0.8) ** (7 / 8) * (0.7 / 0.8) ** (1 / 8)
        self.assertIn(f"| **{mean:.2f}** |", page)
        text = "<!-- v: invented 06_cpu_packed complete mean_ratio_to_openblas -->?<!-- /v -->\n"
        self.assertIn(f"-->{mean:.2f}<!--", self.fill(text)[1])

    def test_parts_may_be_of_a_row_with_another_name(self):
        step, shape = "11_gpu_register_tiling", (2048,) * 3
        rates = {"large": 50.0, "large without a short loop": 40.0, "small": 55.0}
        entries = [run for row, rate in rates.items() for run in runs(step, row, shape, rate, {})]
        write_file(self.machine, "a.json", context(step, "gpu", [], PEAK), entries)
        page = self.block(f'parts {step} invented "large"')
        self.assertIn("| large, GFLOP/s | 50.0 |", page)
        self.assertIn("| large without a short loop, x large | 0.800 |", page)
        self.assertNotIn("small", page)
        best = Results(self.machine).best(step)
        self.assertEqual(best.kernel, "small")

    def test_a_library_that_ran_in_two_ways_has_two_columns(self):
        step, shape = "11_gpu_register_tiling", (2048,) * 3
        entries = []
        for name, row, rate in (
            (step, "large", 60.0),
            ("peer", "cuBLAS 1", 40.0),
            ("peer", "cuBLAS 1, A k-major", 50.0),
        ):
            entries += runs(name, row, shape, rate, {"ratio_to_cublas": rate / 50})
        write_file(self.machine, "a.json", context(step, "gpu", [], PEAK), entries)
        page = self.block(f"peers {step} invented")
        self.assertIn("| x cuBLAS 1 | x cuBLAS 1, A k-major |\n", page)
        self.assertIn("| 1.50 | 1.20 |\n", page)

    def test_errors_of_a_step_and_its_peers_stand_side_by_side(self):
        step, shapes = "11_gpu_register_tiling", [(17, 8, 9), (4096,) * 3]
        write_gpu(self.machine)
        write_errors(self.machine, step, "complete", ("uniform", "positive", "wide"), shapes)
        other = "12_gpu_shared_layout"
        write_errors(self.machine, other, "padded", ("uniform",), shapes, ours=7.0, peers=8.0)
        page = self.block(f"errors invented {step}")
        header = "| row | M x N x K | uniform, max | uniform, rms | positive, max | positive, rms |"
        self.assertIn(f"{header} wide, max | wide, rms |\n", page)
        table = [line for line in page.splitlines() if line.startswith("|")][2:]
        ours = "1.50 | 0.188 | 15.0 | 1.88 | 150 | 18.8"
        peers = "3.00 | 0.375 | 30.0 | 3.75 | 300 | 37.5"
        expected = [("complete", "4096", ours), ("cuBLAS SGEMM", "4096", peers)]
        expected += [("complete", "17 x 8 x 9", ours), ("cuBLAS SGEMM", "17 x 8 x 9", peers)]
        self.assertEqual(table, [f"| {' | '.join(cells)} |" for cells in expected])
        self.assertIn("u = 2^-24, an invented gpu, 2001-02-03.*", page)
        page = self.block(f"errors invented {other}")
        self.assertIn("| padded | 4096 | 7.00 | 0.875 |\n", page)
        self.assertIn("| cuBLAS SGEMM | 4096 | 8.00 | 1.00 |\n", page)

    def test_errors_of_several_draws_come_together(self):
        step, inits, shapes = "11_gpu_register_tiling", ("uniform", "wide"), [(17, 8, 9)]
        write_gpu(self.machine)
        for seed, ours, peers in ((0, 1.5, 3.0), (5, 2.0, 0.8)):
            write_errors(self.machine, step, "complete", inits, shapes, ours, peers, seed)
        page = self.block(f"errors invented {step}")
        # rms: the square root of the mean of two squares, of 1.5 / 8 and 2 / 8; of 3 / 8 and 0.8 / 8.
        self.assertIn("| complete | 17 x 8 x 9 | 2.00 | 0.221 | 20.0 | 2.21 |\n", page)
        self.assertIn("| cuBLAS SGEMM | 17 x 8 x 9 | 3.00 | 0.274 | 30.0 | 2.74 |\n", page)
        self.assertIn("u = 2^-24; over 2 draws of the operands, an invented gpu", page)

    def test_errors_need_runs_with_other_operands(self):
        write_gpu(self.machine)
        marker = "<!-- generated: errors invented 11_gpu_register_tiling -->"
        status, _, said = self.fill(f"{marker}\n<!-- end generated -->\n")
        self.assertEqual(status, 1)
        self.assertIn("no errors with --init uniform, positive, wide", said)

    def test_a_share_of_the_peak_names_its_unit(self):
        for step, unit in (("05_cpu_register_tiling", "FMA"), ("22_cpu_amx", "AMX")):
            words = context(step, "cpu", [], CPU_PEAK, peak_unit=unit)
            counters = {"of_peak": 0.34, "ratio_to_mkl": 1.1, "compulsory_bytes": 768.0}
            entries = runs(step, "row", (8,) * 3, 10.0, counters)
            entries += runs("peer", "MKL 3, 1 thread", (8,) * 3, 9.0, {})
            write_file(self.machine, f"{step}.json", words, entries)
        ladder = self.block("ladder invented")
        self.assertIn("| of peak |", ladder)
        self.assertIn("| 34 % of FMA |", ladder)
        self.assertIn("| 34 % of AMX |", ladder)
        self.assertIn("| of AMX peak |", self.block("step 22_cpu_amx invented"))
        self.assertIn("| of AMX peak |", self.block("peers 22_cpu_amx invented"))

    def test_twice_as_fast_and_half_as_fast_are_as_fast_on_the_geometric_mean(self):
        self.assertAlmostEqual(tables.geometric_mean([2, 0.5]), 1)

    def test_a_step_that_was_not_run_on_a_machine_is_no_error_and_is_said(self):
        write_gpu(self.machine)
        (self.root / "steps").mkdir()
        (self.root / "steps" / "06_cpu_packed.cpp").touch()
        self.assertIn("*06 packed was not run on", self.block("peers 06_cpu_packed invented"))
        figure = 'figure cpu_sizes invented "what" 06_cpu_packed'
        self.assertIn("*06 packed was not run on", self.block(figure))
        text = "<!-- v: invented 06_cpu_packed best gflops -->?<!-- /v -->\n"
        status, page, _ = self.fill(text)
        self.assertEqual((status, "(not run)" in page), (0, True))

    def test_a_step_that_was_timed_and_not_simulated_says_so(self):
        write_cpu(self.machine)
        page = self.block("misses 01_cpu_naive invented")
        self.assertIn("*01 naive was not run through the cache simulation on invented.*", page)

    def test_lane_maps_are_a_table_and_no_result_rows(self):
        write_gpu(self.machine)
        self.assertIn("*The lane maps were not measured on", self.block("lane_map invented"))
        words = {"machine": "an invented gpu", "fmas": 128, "instructions": 6}
        rows = [
            {"name": "nothing", "clocks_per_k": 130.04},
            {"name": "integers", "clocks_per_k": 136.0, "extra_clocks": 0.99},
            {"name": "loads", "clocks_per_k": 151.0, "extra_clocks": 3.49},
        ]
        rows[2].update(wavefronts_a=1, wavefronts_b=4)
        write_file(self.machine, "lane_map.json", words, rows)
        page = self.block("lane_map invented")
        self.assertIn("| nothing |  |  | 130.0 |  |", page)
        self.assertIn("| integers |  |  | 136.0 | 1.0 |", page)
        self.assertIn("| loads | 1 | 4 | 151.0 | 3.5 |", page)
        self.assertIn("6 for each k of a warp, beside 128 FMAs", page)
        self.assertEqual(Results(self.machine).problems, [])
        write_file(self.machine, "lane_map.json", words, [{"name": "no clocks"}])
        status, _, said = self.fill("<!-- generated: lane_map invented -->\n<!-- end generated -->\n")
        self.assertEqual(status, 1)
        self.assertIn("lane_map.json: KeyError: 'clocks_per_k'", said)

    def write_counters(self, step, launches, **more):
        """A file of counters of 128^3; launches: (row, share of each number)."""
        numbers = {
            counters.TIME: 1000,
            counters.MEMORY_BYTES: 2**20,
            counters.L1_SECTORS: 2**17,
            counters.SHARED_LOADS: 65536,
            counters.LOAD_WAVEFRONTS: 131072,
            counters.SHARED_WAVEFRONTS: 2**18,
            counters.BANK_CONFLICTS: 2**16,
            counters.PIPE_BUSY: 93.75,
            **more,
        }
        lines = [["row", "size", *numbers], ["", "", *numbers]]
        for row, share in launches:
            parts = {n: v if "pct" in n else share * v for n, v in numbers.items()}
            lines.append([row, 128, *(f"{value:,}" for value in parts.values())])
        with (self.machine / f"{step}.ncu.csv").open("w", newline="") as file:
            csv.writer(file).writerows(lines)

    def test_counters_show_flop_per_byte_predicted_counted_and_measured(self):
        step, name, tile = GPU_ROWS[2][:3]
        shape = (128,) * 3
        predicted = tile_counters(shape, tile)
        small = tile_counters((64,) * 3, tile)
        small.update({f"counted_{k}": v for k, v in small.items() if "ed" in k})
        words = context(step, "gpu", [], 0)
        write_file(self.machine, "a.json", words, runs(step, name, shape, 1.0, predicted))
        counted = runs(step, name, (64,) * 3, 1.0, small, repeats=1)
        write_file(self.machine, "b.json", {**words, "device": "emulator"}, counted)
        self.write_counters(step, [(name, 1), ("another row", 0.5)])
        page = self.block(f"counters invented {step}")
        # T = 16: 2 K FLOP for 4 (2 K / T + 1) bytes. 2 * 128^3 FLOP over 2^22, 2^20 and 2^25 bytes.
        self.assertIn("| 16x16x16 | 3.76 | 3.56 | 1.00 | 21.3 | 4.00 | 0.235 | 0.235 | 0.125 |", page)
        self.assertIn("Counted: by the emulator at 64, to the byte what the model predicts there.", page)
        # 128^3 / 32 = 65536 FMAs of a warp.
        self.assertIn("| 1.00 | 2.00 | 2.00 | 25 % | 93.8 % |\n", page)

    def test_counters_of_several_kernels_and_the_leading_stalls(self):
        step, name = GPU_ROWS[2][:2]
        words = context(step, "gpu", [], 0)
        other = runs(step, "not profiled", (128,) * 3, 1.0, tile_counters((128,) * 3, (16,) * 5))
        write_file(self.machine, "a.json", words, other)
        stalls = {"selected": 1, "barrier": 4, "wait": 2, "long_scoreboard": 8, "sleeping": 1}
        stalls["barrier_not_issued"] = 16
        form = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
        more = {form.format(reason): value for reason, value in stalls.items()}
        self.write_counters(step, [(name, 0.5), (name, 0.5), ("slower", 2)], **more)
        page = self.block(f"counters invented {step}")
        self.assertIn(f"| {name} | 1.00 | 4.00 | 0.125 |", page)
        self.assertIn("| long scoreboard 4.0, barrier 2.0, wait 1.0 |", page)
        self.assertIn("Of several kernels, sums", page)

    def test_counters_of_two_rows_of_a_step_have_the_same_stalls(self):
        step, name, tile = GPU_ROWS[2][:3]
        shape = (128,) * 3
        entries = runs(step, name, shape, 1.0, tile_counters(shape, tile))
        write_file(self.machine, "a.json", context(step, "gpu", [], 0), entries)
        reasons = ("barrier", "wait", "sleeping", "drain")
        stalls = [f"smsp__average_warps_issue_stalled_{r}_per_issue_active.ratio" for r in reasons]
        lines = [["row", "size", counters.TIME, *stalls], [""] * 7]
        lines += [["one", 128, 5, 4, 3, 2, 1], ["two", 128, 5, 1, 3, 4, 5], ["left", 128, 5, 0, 0, 0, 9]]
        with (self.machine / f"{step}.ncu.csv").open("w", newline="") as file:
            csv.writer(file).writerows(lines)
        page = self.block(f'counters invented {step} "two" "one"')
        self.assertIn("| two | drain 5.0, sleeping 4.0, wait 3.0, barrier 1.0 |\n", page)
        self.assertIn("| one | barrier 4.0, wait 3.0, sleeping 2.0, drain 1.0 |\n", page)
        self.assertNotIn("left", page)
        for words, reason in ((f'{step} "three"', "no row 'three'"), ('"one"', "of which step")):
            marker = f"<!-- generated: counters invented {words} -->"
            status, _, said = self.fill(f"{marker}\n<!-- end generated -->\n")
            self.assertEqual(status, 1)
            self.assertIn(reason, said)

    def test_what_an_older_file_of_counters_lacks_is_no_number(self):
        step, name, tile = GPU_ROWS[2][:3]
        shape = (128,) * 3
        entries = runs(step, name, shape, 1.0, tile_counters(shape, tile))
        write_file(self.machine, "a.json", context(step, "gpu", [], 0), entries)
        lines = [["row", "size", counters.TIME, counters.REGISTERS], [""] * 4, [name, 128, 5, "n/a"]]
        with (self.machine / f"{step}.ncu.csv").open("w", newline="") as file:
            csv.writer(file).writerows(lines)
        page = self.block(f"counters invented {step}")
        self.assertIn("| row | global, predicted | memory, at most | shared, predicted |", page)
        self.assertIn("| 16x16x16 | 3.76 | 21.3 | 0.235 |", page)

    def test_inline_values(self):
        write_gpu(self.machine)
        text = "x <!-- v: invented 11_gpu_register_tiling best gflops -->?<!-- /v --> y\n"
        _, page, _ = self.fill(text)
        self.assertIn("gflops -->25,200<!-- /v --> y", page)
        named = '<!-- v: invented 09_gpu_square_tiling "16x16x16" tflops 1024 -->?<!-- /v -->'
        _, page, _ = self.fill(named)
        self.assertIn("1024 -->3.30<!-- /v -->", page)

    def test_check_finds_a_page_out_of_date(self):
        write_gpu(self.machine)
        text = "<!-- v: invented 07_gpu_naive best gflops -->1<!-- /v -->\n"
        status, page, said = self.fill(text, check=True)
        self.assertEqual((status, page), (1, text))
        self.assertIn("page.md", said)
        self.fill(text)
        self.assertEqual(self.fill(None, check=True)[0], 0)

    def test_what_cannot_be_filled_is_named_with_its_line_and_left_alone(self):
        write_gpu(self.machine)
        text = "\n<!-- generated: step 19_gpu_wgmma invented -->\nold\n<!-- end generated -->\n"
        status, page, said = self.fill(text)
        self.assertEqual((status, page), (1, text))
        self.assertIn("page.md:2", said)

    def test_an_unclosed_block_is_an_error(self):
        status, _, said = self.fill("<!-- generated: ladder invented -->\nno end\n")
        self.assertEqual(status, 1)
        self.assertIn("page.md:1", said)


if __name__ == "__main__":
    unittest.main()
