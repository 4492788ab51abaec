#include "common/apart.hpp"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>

#include "common/error.hpp"
#include "common/machine_parts.hpp"
#include "common/timing.hpp"

namespace gemm {
namespace {

std::vector<std::string> arguments_of(const Options& options, const Row& peer) {
  const auto [M, N, K] = peer.shape;
  std::vector<std::string> words = {options.step->name,
                                    "--seconds-only",
                                    "--device=" + name_of(options.device),
                                    fmt::format("--shapes={}x{}x{}", M, N, K),
                                    "--peer=" + peer_word(peer),
                                    "--init=" + name_of(options.init),
                                    "--seed=" + std::to_string(options.seed),
                                    fmt::format("--threads={}", options.threads),
                                    fmt::format("--repeats={}", options.repeats)};
  if (options.pad > 0) words.push_back(fmt::format("--pad={}", options.pad));
  if (options.cold) words.emplace_back("--cold");
  return words;
}

// What a run of this program prints, and its exit status.
std::pair<std::string, int> output_of(std::vector<std::string> words) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw Refusal(Exit::device_error, "no room for another pipe");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  pid_t process = 0;
  const int failed =
      posix_spawn(&process, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);

  std::string output;
  std::array<char, 4096> piece{};
  for (ssize_t bytes = 0; !failed && (bytes = read(ends[0], piece.data(), piece.size())) > 0;)
    output.append(piece.data(), bytes);
  close(ends[0]);
  int status = 0;
  if (failed || waitpid(process, &status, 0) < 0)
    throw Refusal(Exit::device_error, "no room for another process");
  return {output, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)};
}

}  // namespace

std::vector<Repetition> measure_apart(const Options& options, const Row& peer) {
  const auto [output, status] = output_of(arguments_of(options, peer));
  std::vector<Repetition> repetitions;
  Repetition next{};
  int length = 0;
  for (const char* at = output.c_str();
       std::sscanf(at, "%lf %lf%n", &next.seconds, &next.peak, &length) == 2; at += length)
    repetitions.push_back(next);
  if (status != 0 || repetitions.size() != static_cast<std::size_t>(options.repeats))
    throw Refusal(Exit::device_error,
                  fmt::format("in a process of its own it ended with exit code {} after {} of {} "
                              "repetitions",
                              status, repetitions.size(), options.repeats));
  return repetitions;
}

Exit print_repetitions(const Options& options, Backend& backend, const std::vector<Kernel>& peers) {
  for (const Shape shape : options.shapes) {
    Operands operands(backend, shape, options.init, terms_of(options, shape), options.seed);
    Problem problem = operands.problem();
    problem.threads = options.threads;
    for (const Kernel& peer : peers) {
      const Run run = peer.prepare(problem);
      const int launches = launches_for(run, backend, options.cold);
      for (int i = 0; i < options.repeats; ++i) {
        const auto& unit = options.step->peak;
        const double peak = unit ? unit(options.threads) : cpu_fma_rate_apart(options.threads);
        fmt::print("{} {}\n", backend.seconds(run, launches, options.cold), peak);
      }
    }
  }
  return Exit::ok;
}

}  // namespace gemm
