// The one main of every step: its kernels have registered themselves, the rest is here.
#include "common/apart.hpp"
#include "common/options.hpp"
#include "common/peers/peers.hpp"
#include "common/report.hpp"
#include "common/timing.hpp"
#include "common/tune.hpp"

using namespace gemm;

int main(int argc, char** argv) {
  return run_program(argv[0], [&] {
    auto options = parse({argv + 1, argv + argc}, steps());
    if (!options) return Exit::ok;  // --help or --list has been answered
    JsonFile json(options->json);
    const auto backend = open_backend(options->device);
    const Step& step = *options->step;
    const auto peers = find_peers(options->device, options->peers, options->threads, step.operands);
    Tuning tuning(*options, backend->name());
    if (options->seconds_only) return print_repetitions(*options, *backend, peers);
    const auto ceilings = [&] { return measure_machine(*backend, options->threads, step.peak); };
    Machine machine = options->check_only ? describe_machine(*backend) : ceilings();
    Timer timer(*options, machine, json, ceilings);
    Report report(*options, machine, peers);
    for (const Shape shape : options->shapes) {
      std::vector<Row> rows = rows_of(*options, peers, shape, *backend);
      attempt(rows, [&] {
        const BlasTerms terms = terms_of(*options, shape);
        check_exact(rows, *backend, terms, options->threads);
        Operands operands(*backend, shape, options->init, terms, options->seed);
        check(rows, *backend, operands, options->threads);
        if (options->count) count(rows, steps(), terms);
        timer.measure(rows, *backend, [&](const std::string& doing) { report.progress(doing); });
      });
      report.add(tuning.add(rows));
    }
    tuning.close();
    return report.close();
  });
}
