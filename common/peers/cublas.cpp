// cuBLAS, opened at run time: a build needs neither its headers nor the library.
#include <fmt/format.h>

#include <memory>

#include "common/error.hpp"
#include "common/peers/library.hpp"
#include "common/peers/peer.hpp"

namespace gemm {
namespace {

using Handle = struct cublasContext*;
constexpr int success = 0, no_transpose = 0;  // enums of cublas_api.h
constexpr int default_math = 0;  // fp32 stays fp32: TF32 has to be asked for

using Sgemm = int(Handle, int, int, int, int, int, const float*, const float*, int, const float*,
                  int, const float*, float*, int);

struct Api {
  explicit Api(const Library& library)
      : create(library.require<int(Handle*)>("cublasCreate_v2")),
        destroy(library.require<int(Handle)>("cublasDestroy_v2")),
        set_stream(library.require<int(Handle, Stream)>("cublasSetStream_v2")),
        set_math_mode(library.require<int(Handle, int)>("cublasSetMathMode")),
        get_property(library.require<int(int, int*)>("cublasGetProperty")),
        sgemm(library.require<Sgemm>("cublasSgemm_v2")),
        status_name(library.require<const char*(int)>("cublasGetStatusName")) {}

  int (*create)(Handle*);
  int (*destroy)(Handle);
  int (*set_stream)(Handle, Stream);
  int (*set_math_mode)(Handle, int);
  int (*get_property)(int, int*);
  Sgemm* sgemm;
  const char* (*status_name)(int);

  void check(int status, const char* doing) const {
    if (status != success)
      throw Refusal(Exit::device_error, fmt::format("{}: {}", doing, status_name(status)));
  }

  std::string version() const {
    int part[3] = {};
    for (int i = 0; i < 3; ++i) check(get_property(i, &part[i]), "asking cuBLAS for its version");
    return fmt::format("{}.{}.{}", part[0], part[1], part[2]);
  }
};

// cuBLAS is column-major: what it takes for B^T * A^T = C^T is our row-major A * B = C.
Run prepare(const Api& api, const Problem& p) {
  Handle created = nullptr;
  api.check(api.create(&created), "starting cuBLAS");
  const std::shared_ptr<cublasContext> handle(created, api.destroy);
  api.check(api.set_math_mode(created, default_math), "choosing cuBLAS's arithmetic");
  return {[=](Stream stream) {
    const auto [M, N, K] = p.shape;
    if (M == 0 || N == 0) return;
    api.check(api.set_stream(handle.get(), stream), "giving cuBLAS a stream");
    api.check(api.sgemm(handle.get(), no_transpose, no_transpose, N, M, K, &p.alpha, p.B,
                        leading_dimension(p.ldb), p.A, leading_dimension(p.lda), &p.beta, p.C,
                        leading_dimension(p.ldc)),
              "multiplying by cuBLAS");
  }};
}

std::optional<Kernel> open_cublas(int) {
  const auto library = Library::open({"libcublas.so.13", "libcublas.so.12"});
  if (!library) return std::nullopt;
  const Api api(*library);
  return peer_kernel("cuBLAS " + api.version(),
                     [api](const Problem& problem) { return prepare(api, problem); });
}

}  // namespace

std::vector<Peer> gpu_peers() {
  return {{"cublas",
           "apt-get install libcublas-13-0 from NVIDIA's repository, or pip install "
           "nvidia-cublas and put its lib in LD_LIBRARY_PATH",
           open_cublas}};
}

}  // namespace gemm
