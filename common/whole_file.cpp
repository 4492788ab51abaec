#include "common/whole_file.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "common/error.hpp"

namespace gemm {

WholeFile::WholeFile(std::string flag, std::string path)
    : flag_(std::move(flag)), path_(std::move(path)), beside_(path_ + ".part") {
  if (!wanted()) return;
  // Moving a result there would replace a device or a pipe by a file.
  std::error_code unknown;
  const auto there = std::filesystem::status(path_, unknown);
  const bool taken = std::filesystem::exists(there) && !std::filesystem::is_regular_file(there);
  if (taken || !std::ofstream(beside_))
    throw Refusal(
        Exit::cannot_write,
        fmt::format("{} {}: cannot be written; name a file in a directory that exists and "
                    "is yours",
                    flag_, path_));
  std::filesystem::remove(beside_);
}

void WholeFile::write(const std::string& text) const {
  std::error_code error;
  {
    std::ofstream file(beside_);
    file << text;
    if (!file.flush()) {
      std::filesystem::remove(beside_, error);
      throw Refusal(Exit::cannot_write, fmt::format("{} {}: the disk is full?", flag_, path_));
    }
  }
  std::filesystem::rename(beside_, path_, error);
  if (error)
    throw Refusal(Exit::cannot_write, fmt::format("{} {}: {}", flag_, path_, error.message()));
}

}  // namespace gemm
