#include "common/row.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/model/traffic.hpp"

namespace gemm {
namespace {

constexpr double gibibyte = 1 << 30;

// Why a row cannot run here, and the exit code for it.
std::pair<Exit, std::string> obstacle(const Row& row, const Options& options,
                                      const Backend& backend) {
  const int needed = options.step->min_compute_capability;
  if (!row.is_peer() && backend.device() == Device::gpu && backend.compute_capability() < needed)
    return {Exit::unsupported, fmt::format("needs sm_{}", needed)};
  if (row.kernel.supports)
    if (const std::string reason = row.kernel.supports(row.shape); !reason.empty())
      return {Exit::unsupported, reason};
  const double bytes = compulsory_bytes(row.shape);
  const double free = static_cast<double>(backend.free_bytes());
  if (bytes > free)
    return {Exit::no_memory,
            fmt::format("needs {:.1f} GiB, {:.1f} free", bytes / gibibyte, free / gibibyte)};
  return {};
}

std::optional<Occupancy> occupancy_of(const Footprint& footprint, const Backend& backend) {
  const bool real = backend.device() == Device::gpu;
  const auto multiprocessor =
      multiprocessor_of(real ? backend.compute_capability() : modelled_capability);
  if (footprint.threads == 0 || !multiprocessor) return std::nullopt;
  return occupancy(footprint, *multiprocessor);
}

}  // namespace

void Row::skip(Exit code, const std::string& reason) {
  exit = code;
  trouble = fmt::format("skipped ({})", reason);
}

void Row::fail(Exit code, const std::string& reason) {
  exit = code;
  trouble = fmt::format("FAILED: {}", reason);
}

std::vector<Row> rows_of(const Options& options, const std::vector<Kernel>& peers, Shape shape,
                         const Backend& backend) {
  std::vector<Row> rows;
  for (const Kernel* kernel : options.kernels)
    rows.push_back({options.step->name, *kernel, shape, options.step->operands});
  for (const Kernel& peer : peers) rows.push_back({peer_step, peer, shape, options.step->operands});
  for (Row& row : rows)
    if (const auto [code, reason] = obstacle(row, options, backend); code != Exit::ok)
      row.skip(code, reason);
  return rows;
}

void attempt(Row& row, const std::function<void()>& work) {
  try {
    work();
  } catch (const Refusal& refusal) {
    if (refusal.code == Exit::unsupported || refusal.code == Exit::no_memory)
      row.skip(refusal.code, refusal.what());
    else
      row.fail(refusal.code, refusal.what());
  } catch (const std::bad_alloc&) {
    row.skip(Exit::no_memory, "out of memory");
  } catch (const std::exception& fault) {
    row.fail(Exit::wrong_result, fault.what());
  }
}

void attempt(std::vector<Row>& rows, const std::function<void()>& work) {
  if (std::none_of(rows.begin(), rows.end(), [](const Row& row) { return row.well(); })) return;
  try {
    work();
  } catch (const Refusal& refusal) {
    if (refusal.code != Exit::no_memory && refusal.code != Exit::unsupported) throw;
    for (Row& row : rows)
      if (row.well()) row.skip(refusal.code, refusal.what());
  }
}

BlasTerms terms_of(const Options& options, Shape shape) {
  const auto ld = [&](int columns) { return std::int64_t{columns} + options.pad; };
  return {.lda = ld(shape.K),
          .ldb = ld(shape.N),
          .ldc = ld(shape.N),
          .operands = options.step->operands};
}

void check(std::vector<Row>& rows, Backend& backend, Operands& operands, int threads) {
  Verifier verifier(backend, operands);
  Problem problem = operands.problem();
  problem.threads = threads;
  for (Row& row : rows) {
    if (!row.well()) continue;
    attempt(row, [&] {
      row.run = row.kernel.prepare(problem);
      const Verdict verdict = verifier.check(row.run);
      if (!verdict.failure.empty()) row.fail(Exit::wrong_result, verdict.failure);
      row.exact |= verdict.exact;
      row.errors = verdict.errors;
      row.counts = backend.counts();
      row.occupancy = occupancy_of(row.run.footprint, backend);
    });
  }
}

void check_exact(std::vector<Row>& rows, Backend& backend, const BlasTerms& terms, int threads) {
  const Shape shape = rows.front().shape;
  if (!integers_stay_exact(shape.K, terms)) return;
  Operands integers(backend, shape, Init::integers, terms);
  check(rows, backend, integers, threads);
}

void count(std::vector<Row>& rows, const std::vector<Step>& steps, const BlasTerms& terms) {
  const auto backend = open_backend(Device::emulator);
  Operands operands(*backend, rows.front().shape, Init::uniform, terms);
  for (Row& row : rows) {
    if (!row.well()) continue;
    for (const Step& step : steps)
      for (const Kernel& kernel : step.kernels)
        if (step.device == Device::emulator && step.name == row.step &&
            kernel.name == row.kernel.name)
          attempt(row, [&] {
            backend->finish(kernel.prepare(operands.problem()));
            row.counts = backend->counts();
          });
  }
}

}  // namespace gemm
