#include "common/report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <new>

#include "common/model/roofline.hpp"
#include "common/model/traffic.hpp"
#include "common/timing.hpp"

namespace gemm {
namespace {

using Line = std::vector<std::string>;

// Columns as wide as their widest cell; the first and the last are words, the others numbers. A
// line of two cells, under wider ones, is a name and a remark. A column of nothing but dashes is
// left out.
void print_table(const std::vector<Line>& lines) {
  const std::size_t columns = lines.front().size();
  std::vector<std::size_t> widths(columns);
  std::vector<bool> shown(columns);
  for (std::size_t row = 0; row < lines.size(); ++row)
    for (std::size_t i = 0; i < lines[row].size(); ++i) {
      if (i > 0 && lines[row].size() < columns) break;
      widths[i] = std::max(widths[i], lines[row][i].size());
      if (row > 0 && lines[row][i] != "-") shown[i] = true;
    }
  for (const Line& line : lines) {
    fmt::print("  {:<{}}", line.front(), widths.front());
    for (std::size_t i = 1; i < line.size(); ++i)
      if (i + 1 == line.size())
        fmt::print("  {}", line[i]);
      else if (shown[i])
        fmt::print("  {:>{}}", line[i], widths[i]);
    fmt::print("\n");
  }
}

std::string show_seconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.2f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string show_rate(double flops) {
  return fmt::format("{:.{}f}", flops / 1e9, flops < 10e9 ? 2 : flops < 1e12 ? 1 : 0);
}

std::string show_bytes(double bytes) {
  if (bytes < 1e6) return fmt::format("{:.1f} kB", bytes / 1e3);
  if (bytes < 1e9) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.1f} GB", bytes / 1e9);
}

std::string show_ratio(double above, double below, int digits = 2) {
  return below > 0 ? fmt::format("{:.{}f}", above / below, digits) : "-";
}

std::string show_percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

std::string show_shape(Shape shape) { return fmt::format("{}x{}x{}", shape.M, shape.N, shape.K); }

double global_bytes(const Traffic& traffic) {
  return static_cast<double>(traffic.global_loaded + traffic.global_stored);
}

double shared_bytes(const Traffic& traffic) {
  return static_cast<double>(traffic.shared_loaded + traffic.shared_stored);
}

Traffic predicted(const Row& row) {
  return row.kernel.traffic ? row.kernel.traffic(row.shape) : Traffic{};
}

std::string verdict_of(const Row& row) { return row.exact ? "verified (exact)" : "verified"; }

bool is_simulated(const Row& row) { return row.counts && row.counts->accesses > 0; }

void print_checks(const std::vector<Row>& rows) {
  std::vector<Line> lines = {{"kernel", "error max", "rms", "result"}};
  const auto show_error = [](const Row& row, double Errors::*which) {
    return row.errors ? fmt::format("{:.3f}", *row.errors.*which) : "-";
  };
  for (const Row& row : rows)
    if (row.well())
      lines.push_back({row.kernel.name, show_error(row, &Errors::max),
                       show_error(row, &Errors::rms), verdict_of(row)});
    else
      lines.push_back({row.kernel.name, row.trouble});
  print_table(lines);
  if (std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.errors; }))
    fmt::print("  error: of an element of C, in units of u (|A||B|), u = 2^-24.\n");
}

void print_times(const std::vector<Row>& rows, const Machine& machine) {
  const Row* peer = fastest_peer(rows);
  std::vector<Line> lines = {{"kernel", "time", "spread", "GFLOP/s", "of peak", "spread", "x peer",
                              "global", "shared", "bound by", "result"}};
  for (const Row& row : rows) {
    if (!row.well()) {
      lines.push_back({row.kernel.name, row.trouble});
      continue;
    }
    if (row.seconds.empty()) {
      lines.push_back({row.kernel.name, verdict_of(row) + ", not timed"});
      continue;
    }
    const double rate = flops_per_second(row), work = flops(row.shape);
    const Traffic traffic = predicted(row);
    const std::vector<double> shares = shares_of_peak(row, machine);
    lines.push_back(
        {row.kernel.name, show_seconds(median(row.seconds)), show_percent(spread(row.seconds)),
         show_rate(rate), shares.empty() ? "-" : show_percent(median(shares)),
         row.peaks.empty() ? "-" : show_percent(spread(shares)),
         peer ? show_ratio(rate, flops_per_second(*peer)) : "-",
         show_ratio(work, global_bytes(traffic)), show_ratio(work, shared_bytes(traffic)),
         roof_of(row, machine), verdict_of(row)});
  }
  print_table(lines);
  fmt::print(
      "  spread: between the quartiles. global, shared: FLOP for each byte that the code asks "
      "for.\n");
}

std::string show_accesses(const WarpAccesses& loads, const WarpAccesses& stores) {
  return fmt::format("{:.2f} {:.2f}", loads.pieces_per_request(), stores.pieces_per_request());
}

void print_counts(const std::vector<Row>& rows) {
  std::vector<Line> lines = {{"kernel", "global", "shared", "as model", "sectors", "wavefronts",
                              "barriers", "shared B", "occupancy", "result"}};
  for (const Row& row : rows) {
    if (!row.well() || !row.counts) {
      lines.push_back({row.kernel.name, row.well() ? verdict_of(row) : row.trouble});
      continue;
    }
    const Counts& counts = *row.counts;
    const double work = flops(row.shape);
    lines.push_back({row.kernel.name, show_ratio(work, global_bytes(counts.requested)),
                     show_ratio(work, shared_bytes(counts.requested)),
                     counts.requested == predicted(row) ? "yes" : "NO",
                     show_accesses(counts.global_loads, counts.global_stores),
                     show_accesses(counts.shared_loads, counts.shared_stores),
                     fmt::format("{}", counts.barriers),
                     fmt::format("{}", row.run.footprint.shared_bytes),
                     row.occupancy ? fmt::format("{:.0f} %", 100 * row.occupancy->fraction) : "-",
                     verdict_of(row)});
  }
  print_table(lines);
  fmt::print(
      "  global, shared: FLOP for each byte asked for, as counted. sectors, wavefronts: of a "
      "warp's\n"
      "  load and of its store, on average. occupancy: of an sm_{}, registers left out.\n",
      modelled_capability);
}

void print_misses(const std::vector<Row>& rows) {
  const auto first = std::find_if(rows.begin(), rows.end(), is_simulated);
  Line head = {"kernel", "loads and stores"};
  for (const CacheCount& cache : first->counts->caches) {
    head.push_back(cache.name + " misses");
    head.push_back("predicted");
  }
  head.push_back("");
  std::vector<Line> lines = {head};
  for (const Row& row : rows) {
    if (!is_simulated(row)) continue;
    Line line = {row.kernel.name, fmt::format("{}", row.counts->accesses)};
    for (const CacheCount& cache : row.counts->caches) {
      line.push_back(fmt::format("{}", cache.misses));
      line.push_back(row.kernel.misses
                         ? fmt::format("{:.0f}", row.kernel.misses(row.shape, cache.cache))
                         : "-");
    }
    line.push_back(verdict_of(row));
    lines.push_back(line);
  }
  fmt::print("  cache simulation:\n");
  print_table(lines);
}

void print_ceilings(const Machine& machine, const std::string& unit) {
  if (machine.peak_flops <= 0) return;
  fmt::print("measured: {} {:.1f} GFLOP/s", unit, machine.peak_flops / 1e9);
  if (machine.data_sheet_flops > 0)
    fmt::print(" (data sheet {:.1f})", machine.data_sheet_flops / 1e9);
  for (const MemoryLevel& level : machine.levels)
    fmt::print(", {} {:.1f} GB/s", level.name, level.bytes_per_second / 1e9);
  fmt::print("\n");
}

}  // namespace

std::string roof_of(const Row& row, const Machine& machine) {
  const Traffic traffic = predicted(row);
  if (machine.levels.empty() || global_bytes(traffic) == 0) return "-";
  const auto roof = [&](const MemoryLevel& level, double bytes) {
    const double intensity =
        bytes > 0 ? flops(row.shape) / bytes : std::numeric_limits<double>::infinity();
    return Roof{level.name, level.bytes_per_second, intensity};
  };
  const bool has_shared = machine.levels.front().name == "shared";
  std::vector<Roof> roofs = {
      roof(machine.levels[has_shared], global_bytes(traffic)),
      roof(machine.levels.back(), compulsory_bytes(row.shape, row.operands))};
  if (has_shared) roofs.push_back(roof(machine.levels.front(), shared_bytes(traffic)));
  return attainable(machine.peak_flops, roofs).bound;
}

Report::Report(const Options& options, const Machine& machine, const std::vector<Kernel>& peers)
    : options_(options), machine_(machine) {
  fmt::print("{}: {}\n", options.step->name, options.step->title);
  fmt::print("{}; operands {}{}", machine.name, name_of(options.init),
             options.step->operands == Element::bf16 ? ", rounded to BF16" : "");
  if (options.device != Device::emulator) fmt::print(", caches {}", options.cold ? "cold" : "warm");
  if (options.device == Device::cpu)
    fmt::print(", {} thread{}", options.threads, options.threads == 1 ? "" : "s");
  for (const Kernel& peer : peers) fmt::print("; peer {}", peer.name);
  fmt::print("\n");
  print_ceilings(machine, options.step->unit);
  if (options.device == Device::emulator)
    fmt::print("The emulator counts what the source asks for; its times are not a GPU's.\n");
  std::fflush(stdout);
}

void Report::progress(const std::string& doing) {
  if (isatty(STDERR_FILENO)) fmt::print(stderr, "\r\033[K{}", doing);
}

void Report::clear_progress() { progress(""); }

void Report::print(const std::vector<Row>& rows) const {
  const auto [M, N, K] = rows.front().shape;
  const double work = flops(rows.front().shape);
  const double compulsory = compulsory_bytes(rows.front().shape, rows.front().operands);
  fmt::print("\nM={} N={} K={}: {:.3g} GFLOP; compulsory {}, so at most {} FLOP/byte", M, N, K,
             work / 1e9, show_bytes(compulsory), show_ratio(work, compulsory, 1));
  if (options_.pad > 0) fmt::print("; rows padded by {}", options_.pad);
  fmt::print("\n");

  // What keeps all rows from running is said once.
  const auto too_big = [](const Row& row) { return row.exit == Exit::no_memory; };
  const auto as_first = [&](const Row& row) {
    return row.exit == Exit::unsupported && row.trouble == rows.front().trouble;
  };
  if (std::all_of(rows.begin(), rows.end(), too_big) ||
      std::all_of(rows.begin(), rows.end(), as_first)) {
    fmt::print("  {}\n", rows.front().trouble);
    return;
  }
  if (options_.check_only)
    print_checks(rows);
  else if (options_.device != Device::emulator)
    print_times(rows, machine_);
  else if (std::none_of(rows.begin(), rows.end(), is_simulated))
    print_counts(rows);
  if (std::any_of(rows.begin(), rows.end(), is_simulated)) print_misses(rows);
}

void Report::add(const std::vector<Row>& rows) {
  clear_progress();
  print(rows);
  std::fflush(stdout);
  for (const Row& row : rows) {
    if (row.well())
      any_ran_ |= !row.is_peer(), any_timed_ |= !row.seconds.empty();
    else
      exits_.push_back(row.exit);
  }
  for (const Row& row : rows)
    if (!row.is_peer() && row.well() && flops_per_second(row) > 0)
      for (const Row* peer : timed_peers(rows)) {
        const auto same = [&](const Duel& duel) {
          return duel.kernel == row.kernel.name && duel.peer == peer->kernel.name;
        };
        auto duel = std::find_if(duels_.begin(), duels_.end(), same);
        if (duel == duels_.end())
          duel = duels_.insert(duel, {.kernel = row.kernel.name, .peer = peer->kernel.name});
        duel->shapes.push_back(row.shape);
        duel->ratios.push_back(flops_per_second(row) / flops_per_second(*peer));
      }
}

Exit Report::close() const {
  print_duels();
  return exit_code();
}

void Report::print_duels() const {
  if (options_.shapes.size() < 2 || duels_.empty()) return;
  std::vector<Line> lines = {{"kernel", "mean ratio", "smallest", "at", "shapes", "peer"}};
  for (const Duel& duel : duels_) {
    const auto smallest = std::min_element(duel.ratios.begin(), duel.ratios.end());
    const Shape shape = duel.shapes[smallest - duel.ratios.begin()];
    lines.push_back({duel.kernel, fmt::format("{:.3f}", geometric_mean(duel.ratios)),
                     fmt::format("{:.3f}", *smallest), show_shape(shape),
                     fmt::format("{}", duel.ratios.size()), duel.peer});
  }
  fmt::print("\nRate over the peer's at all shapes, geometric mean and smallest:\n");
  print_table(lines);
}

Exit Report::exit_code() const {
  const auto seen = [&](Exit code) {
    return std::find(exits_.begin(), exits_.end(), code) != exits_.end();
  };
  for (const Exit code : {Exit::wrong_result, Exit::device_error, Exit::impossible_rate})
    if (seen(code)) return code;
  const auto& flags = options_.benchmark_flags;
  const auto filter = std::find_if(flags.begin(), flags.end(), [](const std::string& flag) {
    return flag.starts_with("--benchmark_filter");
  });
  if (any_ran_ && !any_timed_ && !options_.check_only && filter != flags.end())
    throw Refusal(Exit::bad_usage,
                  fmt::format("{}: finds nothing to measure among names like {}/{}/256x256x256",
                              *filter, options_.step->name, options_.kernels.front()->name));
  if (any_ran_) return Exit::ok;
  return seen(Exit::no_memory) ? Exit::no_memory : Exit::unsupported;
}

int run_program(const std::string& name, const std::function<Exit()>& body) {
  constexpr const char* unheard = "standard output cannot be written: is its disk full?";
  const auto stop = [&](Exit code, const char* line) {
    std::fflush(stdout);
    // fmt::print would throw where standard error is full too.
    std::fprintf(stderr, "%s: %s\n", name.c_str(), line);
    return static_cast<int>(code);
  };
  try {
    const Exit code = body();
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) throw Refusal(Exit::cannot_write, unheard);
    return static_cast<int>(code);
  } catch (const Refusal& refusal) {
    return stop(refusal.code, refusal.what());
  } catch (const std::bad_alloc&) {
    return stop(Exit::no_memory, "out of memory: choose a smaller size");
  } catch (const std::exception& error) {
    if (std::ferror(stdout)) return stop(Exit::cannot_write, unheard);
    return stop(Exit::device_error, error.what());
  }
}

}  // namespace gemm
