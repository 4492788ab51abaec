// OpenBLAS, BLIS and MKL through the one interface they share, CBLAS, and oneDNN.
#include <fmt/format.h>

#include <array>
#include <string>

#include "common/bfloat16.hpp"
#include "common/error.hpp"
#include "common/peers/library.hpp"
#include "common/peers/peer.hpp"

namespace gemm {
namespace {

constexpr int row_major = 101, no_transpose = 111;  // enums of cblas.h

// A library, the name of its rows, and what tells it how many threads to use: that is called
// whenever a run is prepared, for the library keeps the number for itself.
struct Opened {
  Library library;
  std::string name;
  std::function<void()> set_threads;
};

template <typename T>
using Gemm = void(int, int, int, int, int, int, float, const T*, int, const T*, int, float, float*,
                  int);

// A multiplication of CBLAS, and which form of A and B it reads.
template <typename T>
Kernel cblas_kernel(std::string name, std::function<void()> set_threads, Gemm<T>* gemm,
                    const T* Problem::*A, const T* Problem::*B) {
  return peer_kernel(std::move(name), [=](const Problem& p) -> Run {
    set_threads();
    return {[=](Stream) {
      const auto [M, N, K] = p.shape;
      gemm(row_major, no_transpose, no_transpose, M, N, K, p.alpha, p.*A, leading_dimension(p.lda),
           p.*B, leading_dimension(p.ldb), p.beta, p.C, leading_dimension(p.ldc));
    }};
  });
}

// BF16, by the name that each library has for it; nothing where it has none.
std::optional<Kernel> bf16_gemm(const std::optional<Opened>& opened, const char* symbol) {
  auto* const gemm = opened ? opened->library.get<Gemm<bfloat16>>(symbol) : nullptr;
  if (!gemm) return std::nullopt;
  return cblas_kernel<bfloat16>(opened->name + ", BF16", opened->set_threads, gemm, &Problem::A16,
                                &Problem::B16);
}

std::string threads_text(int threads) {
  return fmt::format("{} thread{}", threads, threads == 1 ? "" : "s");
}

std::optional<Opened> openblas(int threads) {
  const auto library = Library::open({"libopenblas.so.0"});
  if (!library) return std::nullopt;
  auto* const set_threads = library->require<void(int)>("openblas_set_num_threads");
  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH .."
  std::string config = library->require<char*()>("openblas_get_config")();
  config = config.substr(0, config.find(' ', config.find(' ') + 1));
  const char* const core = library->require<char*()>("openblas_get_corename")();
  return Opened{*library, fmt::format("{} {}, {}", config, core, threads_text(threads)),
                [=] { set_threads(threads); }};
}

std::optional<Opened> blis(int threads) {
  const auto library = Library::open({"libblis.so.4", "libblis.so.3"});
  if (!library) return std::nullopt;
  auto* const set_threads = library->require<void(std::int64_t)>("bli_thread_set_num_threads");
  const char* const version = library->require<const char*()>("bli_info_get_version_str")();
  return Opened{*library, fmt::format("BLIS {}, {}", version, threads_text(threads)),
                [=] { set_threads(threads); }};
}

std::optional<Opened> mkl(int threads) {
  const auto library =
      Library::open({"libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so.1", "libmkl_rt.so"});
  if (!library) return std::nullopt;
  auto* const set_threads = library->require<void(int)>("MKL_Set_Num_Threads");
  std::array<char, 200> text{};
  library->require<void(char*, int)>("MKL_Get_Version_String")(text.data(), text.size() - 1);
  // "Intel(R) oneAPI Math Kernel Library Version 2024.0-Product Build 20231011 for .."
  std::string version = text.data();
  const std::size_t at = version.find("Version ");
  if (at != std::string::npos) version = version.substr(at + 8);
  version = version.substr(0, version.find_first_of(" -"));
  return Opened{*library, fmt::format("MKL {}, {}", version, threads_text(threads)),
                [=] { set_threads(threads); }};
}

// oneDNN, row-major as well. It has no number of threads of its own but takes OpenMP's, and knows
// BF16 only on CPUs that do.
std::optional<Kernel> onednn_bf16(int threads) {
  using Transposed = char;
  using Size = std::int64_t;
  struct Version {
    int major, minor, patch;
  };
  const auto library = Library::open({"libdnnl.so.3", "libdnnl.so.2"});
  if (!library) return std::nullopt;
  auto* const gemm =
      library->get<int(Transposed, Transposed, Size, Size, Size, float, const bfloat16*, Size,
                       const bfloat16*, Size, float, float*, Size)>("dnnl_gemm_bf16bf16f32");
  auto* const set_threads = library->get<void(int)>("omp_set_num_threads");
  if (!gemm || !set_threads) return std::nullopt;
  const Version version = *library->require<const Version*()>("dnnl_version")();
  return peer_kernel(
      fmt::format("oneDNN {}.{}.{}, {}, BF16", version.major, version.minor, version.patch,
                  threads_text(threads)),
      [=](const Problem& p) -> Run {
        return {[=](Stream) {
          const auto [M, N, K] = p.shape;
          set_threads(threads);
          const int status =
              gemm('N', 'N', M, N, K, p.alpha, p.A16, leading_dimension(p.lda), p.B16,
                   leading_dimension(p.ldb), p.beta, p.C, leading_dimension(p.ldc));
          if (status != 0)
            throw Refusal(Exit::unsupported, "oneDNN does not multiply BF16 on this CPU");
        }};
      });
}

// A peer in fp32 out of a library that may be there.
std::function<std::optional<Kernel>(int)> sgemm_of(std::optional<Opened> (*open)(int)) {
  return [open](int threads) -> std::optional<Kernel> {
    const auto opened = open(threads);
    if (!opened) return std::nullopt;
    return cblas_kernel<float>(opened->name, opened->set_threads,
                               opened->library.require<Gemm<float>>("cblas_sgemm"), &Problem::A,
                               &Problem::B);
  };
}

}  // namespace

std::vector<Peer> cpu_peers() {
  const std::string get_mkl =
      "apt-get install libmkl-rt, or pip install mkl and put its lib in LD_LIBRARY_PATH";
  return {
      {"openblas", "apt-get install libopenblas0-pthread", sgemm_of(openblas)},
      {"blis", "apt-get install libblis4-pthread", sgemm_of(blis)},
      {"mkl", get_mkl, sgemm_of(mkl)},
      {"mkl-bf16", get_mkl,
       [](int threads) { return bf16_gemm(mkl(threads), "cblas_gemm_bf16bf16f32"); },
       Element::bf16},
      {"onednn-bf16", "apt-get install libdnnl2 (Ubuntu: libdnnl3)", onednn_bf16, Element::bf16},
      {"openblas-bf16", "build OpenBLAS with BUILD_BFLOAT16=1",
       [](int threads) { return bf16_gemm(openblas(threads), "cblas_sbgemm"); }, Element::bf16}};
}

}  // namespace gemm
