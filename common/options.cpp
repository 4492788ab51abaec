#include "common/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <limits>
#include <regex>
#include <thread>

#include "common/backend.hpp"
#include "common/error.hpp"
#include "common/model/shape_class.hpp"

namespace gemm {
namespace {

// A loop over tiles ends up to a tile past its matrix, and its int has to hold that too.
constexpr int largest_size = std::numeric_limits<int>::max() - 4096;
constexpr std::size_t most_sizes = 10000;
// A row of C is at most this much longer than N, and its int has to hold that as well.
constexpr int most_pad = 4096;
constexpr int most_repeats = 1000000;
// std::regex recurses for every character: a pattern without end would overflow the stack.
constexpr std::size_t longest_pattern = 1000;
constexpr Device devices[] = {Device::cpu, Device::gpu, Device::emulator};
constexpr Init inits[] = {Init::integers, Init::uniform, Init::positive,
                          Init::wide,     Init::normal,  Init::zeros};

std::optional<int> whole_number(std::string_view text, int low, int high) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < low || value > high)
    return std::nullopt;
  return value;
}

CLI::Validator whole(int low, int high) {
  return CLI::Validator(
      [=](std::string& text) {
        if (whole_number(text, low, high)) return std::string{};
        return fmt::format("'{}' is not a whole number from {} to {}", text, low, high);
      },
      "");
}

CLI::Validator not_empty() {
  return CLI::Validator(
      [](std::string& text) { return std::string(text.empty() ? "it is empty" : ""); }, "");
}

// More threads than the machine has would take turns, and a peak measured by turns is none.
int most_threads() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

template <typename Value, std::size_t count>
std::vector<std::string> words(const Value (&values)[count]) {
  std::vector<std::string> names;
  for (const Value value : values) names.push_back(name_of(value));
  return names;
}

template <typename Value, std::size_t count>
Value value_of(const std::string& word, const Value (&values)[count]) {
  return *std::find_if(std::begin(values), std::end(values),
                       [&](Value value) { return name_of(value) == word; });
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

const Step* built_for(const std::vector<Step>& steps, Device device) {
  const auto at = std::find_if(steps.begin(), steps.end(),
                               [&](const Step& step) { return step.device == device; });
  return at == steps.end() ? nullptr : &*at;
}

std::vector<int> default_sizes(const Step& step) {
  if (!step.sizes.empty()) return step.sizes;
  switch (step.device) {
    case Device::gpu:
      return {4096};
    case Device::cpu:
      return {512};
    default:
      return {256};
  }
}

// A CPU may lack the instructions that a step is made of; then each of its rows refuses every shape.
bool runs_here(const Step& step) {
  const int size = default_sizes(step).front();
  return std::any_of(step.kernels.begin(), step.kernels.end(), [&](const Kernel& kernel) {
    return !kernel.supports || kernel.supports({size, size, size}).empty();
  });
}

const Step& choose_step(const std::vector<Step>& steps, const std::string& asked,
                        const std::function<bool()>& gpu_answers) {
  const Step* cpu = built_for(steps, Device::cpu);
  const Step* gpu = built_for(steps, Device::gpu);
  const Step* emulator = built_for(steps, Device::emulator);
  if (asked.empty()) {
    if (cpu && (!emulator || runs_here(*cpu))) return *cpu;
    if (gpu && (!emulator || gpu_answers())) return *gpu;
    return *emulator;
  }
  const Device device = value_of(asked, devices);
  if (const Step* step = built_for(steps, device)) return *step;

  const std::string& name = steps.front().name;
  if (device == Device::emulator)
    throw Refusal(Exit::bad_usage,
                  "--device emulator: this build has no emulator; configure with "
                  "-DGEMM_EMULATOR=ON");
  if (device == Device::cpu)
    throw Refusal(Exit::bad_usage, fmt::format("--device cpu: {} is a GPU step; without a GPU it "
                                               "runs on --device emulator",
                                               name));
  if (cpu)
    throw Refusal(Exit::bad_usage,
                  fmt::format("--device gpu: {} is a CPU step; use --device cpu", name));
  throw Refusal(Exit::bad_usage,
                "--device gpu: this build has no GPU code; install the CUDA toolkit, configure "
                "again, or use --device emulator");
}

std::vector<const Kernel*> choose_kernels(const std::vector<Kernel>& kernels,
                                          const std::string& pattern) {
  if (pattern.size() > longest_pattern)
    throw Refusal(Exit::bad_usage, fmt::format("--kernel: the expression is longer than the {} "
                                               "characters that are enough for any row",
                                               longest_pattern));
  std::regex regex;
  try {
    regex = std::regex(pattern);
  } catch (const std::regex_error&) {
    throw Refusal(Exit::bad_usage, fmt::format("--kernel '{}': not a regular expression", pattern));
  }
  std::vector<const Kernel*> chosen;
  std::vector<std::string> names;
  for (const Kernel& kernel : kernels) {
    names.push_back(fmt::format("'{}'", kernel.name));
    if (std::regex_search(kernel.name, regex)) chosen.push_back(&kernel);
  }
  if (chosen.empty())
    throw Refusal(Exit::bad_usage,
                  fmt::format("--kernel '{}' matches none of {}", pattern, fmt::join(names, ", ")));
  return chosen;
}

int default_repeats(Device device) {
  switch (device) {
    case Device::gpu:
      return 10;
    case Device::cpu:
      return 5;
    default:
      return 1;
  }
}

const std::string repetitions = "--benchmark_repetitions=";

// What the last of these flags says, which goes before --repeats.
std::optional<int> repeats_of(const std::vector<std::string>& flags) {
  std::optional<int> repeats;
  for (const std::string& flag : flags)
    if (flag.starts_with(repetitions))
      repeats = whole_number(std::string_view(flag).substr(repetitions.size()), 1, most_repeats);
  return repeats;
}

void check_benchmark_flag(const std::string& flag) {
  if (flag.starts_with("--benchmark_out") || flag.starts_with("--benchmark_format"))
    throw Refusal(Exit::bad_usage,
                  fmt::format("{}: use --json FILE, which keeps every size", flag));
  if (flag.starts_with(repetitions) &&
      !whole_number(std::string_view(flag).substr(repetitions.size()), 1, most_repeats))
    throw Refusal(Exit::bad_usage,
                  fmt::format("{} is not a whole number from 1 to {}", flag, most_repeats));
}

void check_tuning(const Step& step, const std::string& json, const std::string& file) {
  if (step.candidates.empty())
    throw Refusal(Exit::bad_usage,
                  fmt::format("--tune: {} has no candidates to choose from; drop it", step.name));
  if (step.device == Device::emulator)
    throw Refusal(Exit::bad_usage,
                  "--tune: needs a GPU, because the emulator's times are not a GPU's");
  if (json == file)
    throw Refusal(Exit::bad_usage,
                  fmt::format("--tune {}: is the file of --json as well; name another", file));
}

void list(const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    fmt::print("{} on {}: {}\n", step.name, name_of(step.device), step.title);
    for (const Kernel& kernel : step.kernels) fmt::print("  {}\n", kernel.name);
    if (!step.candidates.empty()) fmt::print("candidates of --tune:\n");
    for (const Kernel& kernel : step.candidates) fmt::print("  {}\n", kernel.name);
  }
}

// Makes the error for what a flag says.
struct Refuser {
  const char* flag;
  std::string_view text;
  Refusal operator()(const std::string& why) const {
    return {Exit::bad_usage, fmt::format("{} {}: {}", flag, text, why)};
  }
};

std::vector<int> numbers_in(const std::string& item, char separator, const Refuser& refuse) {
  std::vector<int> numbers;
  for (const std::string& part : split(item, separator)) {
    const auto number = whole_number(part, 0, largest_size);
    if (!number)
      throw refuse(fmt::format("'{}' is not a whole number from 0 to {}", part, largest_size));
    numbers.push_back(*number);
  }
  return numbers;
}

// The sizes of "256" or of "1024:4096:512", first:last:step.
template <typename Body>
void for_each_size(const std::string& item, const Refuser& refuse, Body body) {
  std::vector<int> numbers = numbers_in(item, ':', refuse);
  if (numbers.size() == 1) numbers = {numbers[0], numbers[0], 1};
  if (numbers.size() != 3) throw refuse(fmt::format("'{}' is not first:last:step", item));
  const auto [first, last, step] = std::tuple(numbers[0], numbers[1], numbers[2]);
  if (step == 0) throw refuse(fmt::format("'{}' never ends: its step is 0", item));
  if (first > last) throw refuse(fmt::format("'{}' is empty: {} > {}", item, first, last));
  for (std::int64_t size = first; size <= last; size += step) body(static_cast<int>(size));
}

template <typename T>
void add(std::vector<T>& list, T item, const Refuser& refuse, const char* what) {
  if (list.size() == most_sizes) throw refuse(fmt::format("more than {} {}", most_sizes, what));
  list.push_back(item);
}

}  // namespace

std::string name_of(Device device) {
  switch (device) {
    case Device::cpu:
      return "cpu";
    case Device::gpu:
      return "gpu";
    default:
      return "emulator";
  }
}

bool gpu_answers() {
  try {
    open_backend(Device::gpu);
    return true;
  } catch (const Refusal&) {
    return false;
  }
}

std::vector<int> parse_sizes(std::string_view text) {
  const Refuser refuse{"--sizes", text};
  std::vector<int> sizes;
  for (const std::string& item : split(text, ','))
    for_each_size(item, refuse, [&](int size) { add(sizes, size, refuse, "sizes"); });
  return sizes;
}

std::vector<Shape> parse_shapes(std::string_view text) {
  const Refuser refuse{"--shapes", text};
  std::vector<Shape> shapes;
  const auto add_shape = [&](Shape shape) { add(shapes, shape, refuse, "shapes"); };
  for (const std::string& item : split(text, ',')) {
    if (item.find('x') == std::string::npos) {
      for_each_size(item, refuse, [&](int size) { add_shape({size, size, size}); });
      continue;
    }
    const std::vector<int> numbers = numbers_in(item, 'x', refuse);
    if (numbers.size() != 3) throw refuse(fmt::format("'{}' is not MxNxK", item));
    add_shape({numbers[0], numbers[1], numbers[2]});
  }
  return shapes;
}

std::optional<Options> parse(const std::vector<std::string>& arguments,
                             const std::vector<Step>& steps,
                             const std::function<bool()>& gpu_answers) {
  if (steps.empty())
    throw Refusal(Exit::unsupported,
                  "this build can run the step on no device: install the CUDA toolkit or "
                  "configure with -DGEMM_EMULATOR=ON");

  Options options;
  std::vector<std::string> own;
  for (const std::string& argument : arguments)
    (argument.starts_with("--benchmark_") ? options.benchmark_flags : own).push_back(argument);

  std::optional<int> m, n, k, size, repeats;
  std::string sizes, shapes, device, kernel, init = name_of(options.init);
  bool warm = false, list_only = false;

  CLI::App app(fmt::format("{}: {}", steps.front().name, steps.front().title), steps.front().name);
  const auto dimension = whole(0, largest_size);
  auto* rows = app.add_option("--m", m, "rows of A and C")->check(dimension);
  auto* columns = app.add_option("--n", n, "columns of B and C")->check(dimension);
  auto* terms = app.add_option("--k", k, "columns of A, rows of B")->check(dimension);
  auto* one =
      app.add_option("--size", size, "M = N = K; --m, --n and --k override it")->check(dimension);
  auto* several =
      app.add_option("--sizes", sizes, "several: 256,512,1024:4096:512 (first:last:step)")
          ->excludes(one)
          ->check(not_empty());
  auto* each = app.add_option("--shapes", shapes,
                              "sizes, and shapes that are not square: 16:128:4,17x1000x1000")
                   ->check(not_empty());
  for (auto* other : {rows, columns, terms, one, several}) each->excludes(other);
  app.add_option("--pad", options.pad, "elements between the rows of A, B and C")
      ->check(whole(0, most_pad));
  app.add_option("--device", device, "cpu, gpu or emulator; default: gpu where one answers")
      ->check(CLI::IsMember(words(devices)));
  app.add_option("--kernel", kernel, "only the rows whose name this regular expression finds");
  app.add_option("--init", init, "operands: int, uniform, positive, wide, normal or zeros")
      ->capture_default_str()
      ->check(CLI::IsMember(words(inits)));
  app.add_option("--seed", options.seed, "another draw of the operands for each number")
      ->capture_default_str()
      ->check(whole(0, std::numeric_limits<int>::max()));
  app.add_option("--peer", options.peers, "libraries to compare with: NAME,.. or none")
      ->delimiter(',');
  auto* cold = app.add_flag("--cold", options.cold, "flush the last-level cache before each run");
  app.add_flag("--warm", warm, "leave the caches as the run before left them (default)")
      ->excludes(cold);
  app.add_option("--threads", options.threads, "CPU threads")
      ->capture_default_str()
      ->check(whole(1, most_threads()));
  app.add_option("--repeats", repeats,
                 "repetitions; default 10 on a GPU, 5 on a CPU, 1 on the emulator")
      ->check(whole(1, most_repeats));
  auto* check_only = app.add_flag("--check-only", options.check_only, "verify, measure nothing");
  app.add_flag("--count", options.count,
               "CPU steps: run through the cache simulation as well (the emulator always counts)");
  app.add_option("--json", options.json, "write results in Google Benchmark's format")
      ->excludes(check_only)
      ->check(not_empty());
  const std::string own_file = steps.front().name + ".tuned.json";
  auto* tune = app.add_option("--tune", options.tune,
                              "time the step's candidates, and keep the best of each shape class "
                              "in a file; default: " +
                                  own_file)
                   ->expected(0, 1)
                   ->excludes(check_only);
  auto* tuned =
      app.add_option("--tuned", options.tuned, "add a row that takes the tiles kept there")
          ->expected(0, 1)
          ->excludes(tune);
  app.add_flag("--seconds-only", options.seconds_only,
               "print the peers' repetitions alone: seconds and the peak before each, in FLOP/s");
  app.add_flag("--list", list_only, "print the step's rows and the devices it is built for");
  app.footer(
      "--benchmark_* flags go to Google Benchmark.\n"
      "Exit codes: 0 verified, 1 wrong result, 2 bad usage, 3 unsupported, 4 no device,\n"
      "5 no memory, 6 device error, 7 impossible rate, 8 cannot write, 9 cannot read.");
  try {
    app.parse(std::vector<std::string>(own.rbegin(), own.rend()));
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw Refusal(Exit::bad_usage, error.what());
  }
  if (list_only) {
    list(steps);
    return std::nullopt;
  }

  const Step& step = choose_step(steps, device, gpu_answers);
  options.step = &step;
  options.device = step.device;
  if (tune->count() > 0 && options.tune.empty()) options.tune = own_file;
  if (tuned->count() > 0 && options.tuned.empty()) options.tuned = own_file;
  if (!options.tune.empty()) check_tuning(step, options.json, options.tune);
  options.kernels = choose_kernels(options.tune.empty() ? step.kernels : step.candidates, kernel);
  options.init = value_of(init, inits);
  options.repeats = repeats.value_or(default_repeats(step.device));
  if (options.count && step.device == Device::gpu)
    throw Refusal(Exit::bad_usage, "--count: a GPU does not count accesses; use --device emulator");
  if (options.count && step.device == Device::cpu && !built_for(steps, Device::emulator))
    throw Refusal(Exit::bad_usage,
                  "--count: this build has no emulator; configure with -DGEMM_EMULATOR=ON");
  for (const std::string& flag : options.benchmark_flags) check_benchmark_flag(flag);
  options.repeats = repeats_of(options.benchmark_flags).value_or(options.repeats);
  if (options.pad > 0 && !step.whole_contract)
    throw Refusal(Exit::bad_usage, fmt::format("--pad: {} multiplies matrices without gaps between "
                                               "their rows; drop it",
                                               step.name));
  if (!shapes.empty()) {
    options.shapes = parse_shapes(shapes);
    return options;
  }

  if (m && n && k) {
    if (size || !sizes.empty())
      throw Refusal(
          Exit::bad_usage,
          "--m, --n and --k leave nothing for --size or --sizes to say: drop one of them");
    options.shapes = {{*m, *n, *k}};
    return options;
  }
  const std::vector<int> base = !sizes.empty() ? parse_sizes(sizes)
                                : size         ? std::vector{*size}
                                : options.tune.empty()
                                    ? default_sizes(step)
                                    : std::vector(shape_classes.begin(), shape_classes.end());
  for (const int s : base) options.shapes.push_back({m.value_or(s), n.value_or(s), k.value_or(s)});
  return options;
}

}  // namespace gemm
