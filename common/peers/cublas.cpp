// cuBLAS, opened at run time: a build needs neither its headers nor the library.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <memory>

#include "common/error.hpp"
#include "common/peers/library.hpp"
#include "common/peers/peer.hpp"

namespace gemm {
namespace {

using Handle = struct cublasContext*;
constexpr int success = 0, no_transpose = 0, transpose = 1;  // enums of cublas_api.h
constexpr int default_math = 0;  // fp32 stays fp32: TF32 has to be asked for

using Sgemm = int(Handle, int, int, int, int, int, const float*, const float*, int, const float*,
                  int, const float*, float*, int);

using Sgeam = int(Handle, int, int, int, int, const float*, const float*, int, const float*,
                  const float*, int, float*, int);

struct Api {
  explicit Api(const Library& library)
      : create(library.require<int(Handle*)>("cublasCreate_v2")),
        destroy(library.require<int(Handle)>("cublasDestroy_v2")),
        set_stream(library.require<int(Handle, Stream)>("cublasSetStream_v2")),
        set_math_mode(library.require<int(Handle, int)>("cublasSetMathMode")),
        get_property(library.require<int(int, int*)>("cublasGetProperty")),
        sgemm(library.require<Sgemm>("cublasSgemm_v2")),
        sgeam(library.require<Sgeam>("cublasSgeam")),
        status_name(library.require<const char*(int)>("cublasGetStatusName")) {}

  int (*create)(Handle*);
  int (*destroy)(Handle);
  int (*set_stream)(Handle, Stream);
  int (*set_math_mode)(Handle, int);
  int (*get_property)(int, int*);
  Sgemm* sgemm;
  Sgeam* sgeam;
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

// How A lies for cuBLAS: in place, or transposed beforehand, which is not timed.
enum class LayoutA { row_major, k_major };

std::shared_ptr<cublasContext> start(const Api& api) {
  Handle created = nullptr;
  api.check(api.create(&created), "starting cuBLAS");
  std::shared_ptr<cublasContext> handle(created, api.destroy);
  api.check(api.set_math_mode(created, default_math), "choosing cuBLAS's arithmetic");
  return handle;
}

// A[M,K] transposed to K dense rows of M.
std::shared_ptr<float> transposed(const Api& api, Handle handle, const Problem& p) {
  const auto [M, N, K] = p.shape;
  void* memory = nullptr;
  if (cudaMalloc(&memory, sizeof(float) * M * K) != cudaSuccess) {
    cudaGetLastError();  // or whoever asks for it next would be blamed for it
    throw Refusal(Exit::no_memory, "no room for A once more: choose a smaller size");
  }
  std::shared_ptr<float> result(static_cast<float*>(memory), cudaFree);
  const float one = 1, zero = 0;
  if (M > 0 && K > 0)
    api.check(api.sgeam(handle, transpose, no_transpose, M, K, &one, p.A, leading_dimension(p.lda),
                        &zero, result.get(), M, result.get(), M),
              "transposing A by cuBLAS");
  if (cudaDeviceSynchronize() != cudaSuccess)
    throw Refusal(Exit::device_error, "transposing A by cuBLAS failed");
  return result;
}

// cuBLAS is column-major: what it takes for B^T * A^T = C^T is our row-major A * B = C.
Run prepare(const Api& api, LayoutA layout, const Problem& p) {
  const auto handle = start(api);
  const std::shared_ptr<float> At =
      layout == LayoutA::k_major ? transposed(api, handle.get(), p) : nullptr;
  return {[=](Stream stream) {
    const auto [M, N, K] = p.shape;
    if (M == 0 || N == 0) return;
    api.check(api.set_stream(handle.get(), stream), "giving cuBLAS a stream");
    api.check(api.sgemm(handle.get(), no_transpose, At ? transpose : no_transpose, N, M, K,
                        &p.alpha, p.B, leading_dimension(p.ldb), At ? At.get() : p.A,
                        At ? leading_dimension(M) : leading_dimension(p.lda), &p.beta, p.C,
                        leading_dimension(p.ldc)),
              "multiplying by cuBLAS");
  }};
}

template <LayoutA layout>
std::optional<Kernel> open_cublas(int) {
  const auto library = Library::open({"libcublas.so.13", "libcublas.so.12"});
  if (!library) return std::nullopt;
  const Api api(*library);
  return peer_kernel("cuBLAS " + api.version() + (layout == LayoutA::k_major ? ", A k-major" : ""),
                     [api](const Problem& problem) { return prepare(api, layout, problem); });
}

}  // namespace

std::vector<Peer> gpu_peers() {
  const char* const how_to_get =
      "apt-get install libcublas-13-0 from NVIDIA's repository, or pip install "
      "nvidia-cublas and put its lib in LD_LIBRARY_PATH";
  return {{"cublas", how_to_get, open_cublas<LayoutA::row_major>},
          {"cublas-k-major", how_to_get, open_cublas<LayoutA::k_major>}};
}

}  // namespace gemm
