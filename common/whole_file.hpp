// A result on disk, whole at any moment.
#pragma once

#include <string>

namespace gemm {

/// A file that is written beside its place and then moved there: an interrupt leaves the one before,
/// and loses nothing that was measured.
class WholeFile {
 public:
  /// `flag` is what messages call it by; an empty `path` wants no file. Throws Refusal(cannot_write)
  /// for a path where nothing can be written.
  WholeFile(std::string flag, std::string path);

  bool wanted() const { return !path_.empty(); }
  const std::string& path() const { return path_; }

  /// Throws Refusal(cannot_write).
  void write(const std::string& text) const;

 private:
  std::string flag_, path_, beside_;
};

}  // namespace gemm
