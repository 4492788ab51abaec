#include "common/tune.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/model/shape_class.hpp"
#include "common/timing.hpp"

namespace gemm {
namespace {

const Kernel* find(const std::vector<Kernel>& kernels, const std::string& name) {
  const auto at = std::find_if(kernels.begin(), kernels.end(),
                               [&](const Kernel& kernel) { return kernel.name == name; });
  return at == kernels.end() ? nullptr : &*at;
}

}  // namespace

bool eligible(const Row& row) {
  return !row.is_peer() && row.well() && row.exact && flops_per_second(row) > 0;
}

std::vector<Choice> choose(const std::vector<std::vector<Row>>& tables) {
  std::map<int, std::map<std::string, std::vector<double>>> rates;
  std::map<int, std::size_t> shapes;
  std::set<std::string> failed;
  for (const std::vector<Row>& rows : tables) {
    if (rows.empty()) continue;
    const int cls = shape_class(rows.front().shape);
    ++shapes[cls];
    for (const Row& row : rows) {
      if (eligible(row)) rates[cls][row.kernel.name].push_back(flops_per_second(row));
      if (row.failed()) failed.insert(row.kernel.name);
    }
  }
  std::vector<Choice> choices;
  for (const auto& [cls, kernels] : rates) {
    Choice best{cls, {}, 0};
    for (const auto& [kernel, seen] : kernels)
      if (const double mean = geometric_mean(seen) / 1e9;
          seen.size() == shapes[cls] && !failed.contains(kernel) && mean > best.gflops)
        best = {cls, kernel, mean};
    if (best.gflops > 0) choices.push_back(best);
  }
  return choices;
}

void sort_by_rate(std::vector<Row>& rows) {
  const auto rate = [](const Row& row) { return row.well() ? flops_per_second(row) : 0; };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Row& a, const Row& b) { return rate(a) > rate(b); });
}

std::string to_json(const std::string& step, const std::string& device,
                    const std::vector<Choice>& choices) {
  nlohmann::ordered_json best = nlohmann::ordered_json::array();
  for (const Choice& choice : choices)
    best.push_back(
        {{"class", choice.shape_class}, {"kernel", choice.kernel}, {"gflops", choice.gflops}});
  return nlohmann::ordered_json{{"step", step}, {"device", device}, {"best", best}}.dump(2) + "\n";
}

std::vector<Choice> read_choices(const std::string& path, const Step& step,
                                 const std::string& device) {
  const auto refuse = [&](const std::string& why) {
    return Refusal(Exit::cannot_read, fmt::format("--tuned {}: {}", path, why));
  };
  std::ifstream file(path);
  if (!file) throw refuse("cannot be read; --tune writes such a file");
  std::vector<Choice> choices;
  std::string tuned_step, tuned_device;
  try {
    const auto json = nlohmann::json::parse(file);
    json.at("step").get_to(tuned_step);
    json.at("device").get_to(tuned_device);
    for (const auto& best : json.at("best"))
      choices.push_back({best.at("class"), best.at("kernel"), best.at("gflops")});
  } catch (const nlohmann::json::exception&) {
    throw refuse("is not a file that --tune wrote; let it write another");
  }
  if (tuned_step != step.name)
    throw refuse(fmt::format("belongs to {}, this is {}", tuned_step, step.name));
  if (tuned_device != device)
    throw refuse(
        fmt::format("was tuned on {}, this is {}; tune here, with --tune", tuned_device, device));
  for (const Choice& choice : choices)
    if (!find(step.candidates, choice.kernel))
      throw refuse(fmt::format("{} has no candidate '{}'; tune again, with --tune", step.name,
                               choice.kernel));
  return choices;
}

Kernel tuned_kernel(const Step& step, const std::vector<Choice>& choices) {
  std::map<int, Kernel> best;
  for (const Choice& choice : choices)
    if (const Kernel* kernel = find(step.candidates, choice.kernel))
      best[choice.shape_class] = *kernel;
  const auto of = [best](Shape shape) -> const Kernel& { return best.at(shape_class(shape)); };
  return {.name = "tuned",
          .prepare = [of](const Problem& problem) { return of(problem.shape).prepare(problem); },
          .traffic = [of](Shape shape) { return of(shape).traffic(shape); },
          .supports = [best](Shape shape) -> std::string {
            const int cls = shape_class(shape);
            const auto at = best.find(cls);
            if (at == best.end())
              return fmt::format("no tile was chosen for {}: --tune --size {}", class_name(cls),
                                 cls);
            return at->second.supports ? at->second.supports(shape) : "";
          }};
}

Tuning::Tuning(Options& options, std::string device)
    : options_(options), device_(std::move(device)), file_("--tune", options.tune) {
  if (options.tuned.empty()) return;
  choices_ = read_choices(options.tuned, *options.step, device_);
  tuned_ = tuned_kernel(*options.step, choices_);
  options.kernels.push_back(&tuned_);
}

const std::vector<Row>& Tuning::add(std::vector<Row>& rows) {
  if (!file_.wanted()) return rows;
  sort_by_rate(rows);
  tables_.push_back(rows);
  choices_ = choose(tables_);
  if (!choices_.empty()) file_.write(to_json(options_.step->name, device_, choices_));
  return rows;
}

void Tuning::close() const {
  if (choices_.empty()) return;
  fmt::print("\nThe fastest candidate that was proved right, by class of shape, in {}:\n",
             file_.wanted() ? file_.path() + " (--tuned makes it a row)" : options_.tuned);
  for (const auto& [cls, kernel, gflops] : choices_)
    fmt::print("  {:<25}  {:<30}  {:.1f} GFLOP/s\n", class_name(cls), kernel, gflops);
}

}  // namespace gemm
