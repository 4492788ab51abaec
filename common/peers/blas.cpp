// OpenBLAS, BLIS and MKL through the one interface they share, CBLAS.
#include <fmt/format.h>

#include <array>
#include <string>

#include "common/peers/library.hpp"
#include "common/peers/peer.hpp"

namespace gemm {
namespace {

constexpr int row_major = 101, no_transpose = 111;  // enums of cblas.h

using Sgemm = void(int, int, int, int, int, int, float, const float*, int, const float*, int, float,
                   float*, int);

// `set_threads` is called whenever a run is prepared: the library keeps the number for itself.
Kernel cblas_kernel(const Library& library, std::string name, std::function<void()> set_threads) {
  Sgemm* const sgemm = library.require<Sgemm>("cblas_sgemm");
  return peer_kernel(std::move(name), [=](const Problem& p) -> Run {
    set_threads();
    return {[=](Stream) {
      const auto [M, N, K] = p.shape;
      sgemm(row_major, no_transpose, no_transpose, M, N, K, p.alpha, p.A, leading_dimension(p.lda),
            p.B, leading_dimension(p.ldb), p.beta, p.C, leading_dimension(p.ldc));
    }};
  });
}

std::string threads_text(int threads) {
  return fmt::format("{} thread{}", threads, threads == 1 ? "" : "s");
}

std::optional<Kernel> open_openblas(int threads) {
  const auto library = Library::open({"libopenblas.so.0"});
  if (!library) return std::nullopt;
  auto* const set_threads = library->require<void(int)>("openblas_set_num_threads");
  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH .."
  std::string config = library->require<char*()>("openblas_get_config")();
  config = config.substr(0, config.find(' ', config.find(' ') + 1));
  const char* const core = library->require<char*()>("openblas_get_corename")();
  return cblas_kernel(*library, fmt::format("{} {}, {}", config, core, threads_text(threads)),
                      [=] { set_threads(threads); });
}

std::optional<Kernel> open_blis(int threads) {
  const auto library = Library::open({"libblis.so.4", "libblis.so.3"});
  if (!library) return std::nullopt;
  auto* const set_threads = library->require<void(std::int64_t)>("bli_thread_set_num_threads");
  const char* const version = library->require<const char*()>("bli_info_get_version_str")();
  return cblas_kernel(*library, fmt::format("BLIS {}, {}", version, threads_text(threads)),
                      [=] { set_threads(threads); });
}

std::optional<Kernel> open_mkl(int threads) {
  const auto library = Library::open({"libmkl_rt.so.2", "libmkl_rt.so.1", "libmkl_rt.so"});
  if (!library) return std::nullopt;
  auto* const set_threads = library->require<void(int)>("MKL_Set_Num_Threads");
  std::array<char, 200> text{};
  library->require<void(char*, int)>("MKL_Get_Version_String")(text.data(), text.size() - 1);
  // "Intel(R) oneAPI Math Kernel Library Version 2024.0-Product Build 20231011 for .."
  std::string version = text.data();
  const std::size_t at = version.find("Version ");
  if (at != std::string::npos) version = version.substr(at + 8);
  version = version.substr(0, version.find_first_of(" -"));
  return cblas_kernel(*library, fmt::format("MKL {}, {}", version, threads_text(threads)),
                      [=] { set_threads(threads); });
}

}  // namespace

std::vector<Peer> cpu_peers() {
  return {
      {"openblas", "apt-get install libopenblas0-pthread", open_openblas},
      {"blis", "apt-get install libblis4-pthread", open_blis},
      {"mkl", "apt-get install libmkl-rt, or pip install mkl and put its lib in LD_LIBRARY_PATH",
       open_mkl}};
}

}  // namespace gemm
