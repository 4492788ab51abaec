#include <algorithm>
#include <string>

#include "common/backend.hpp"
#include "common/launch.hpp"

namespace gemm {
namespace {

constexpr int tile = 32, threads = tile * tile;

// product = A * B and magnitude = |A| * |B| in fp64, `rows` x N and dense, for the rows of A that
// start at A. One block per tile x tile elements, one thread per element. `magnitude` may be null.
__global__ void __launch_bounds__(threads)
    reference_kernel(int rows, int N, int K, const float* A, std::int64_t lda, const float* B,
                     std::int64_t ldb, double* product, double* magnitude) {
  __shared__ double As[tile][tile];
  __shared__ double Bs[tile][tile];
  const int tiles_n = ceil_div(N, tile);
  const int tr = threadIdx.x / tile, tc = threadIdx.x % tile;
  const int r = blockIdx.x / tiles_n * tile + tr, c = blockIdx.x % tiles_n * tile + tc;

  double sum = 0, absolute = 0;
  for (int k0 = 0; k0 < K; k0 += tile) {
    As[tr][tc] = r < rows && k0 + tc < K ? A[r * lda + k0 + tc] : 0.0f;
    Bs[tr][tc] = k0 + tr < K && c < N ? B[(k0 + tr) * ldb + c] : 0.0f;
    __syncthreads();
    for (int k = 0; k < tile; ++k) {
      const double term = As[tr][k] * Bs[k][tc];
      sum += term;
      absolute += fabs(term);
    }
    __syncthreads();
  }

  if (r >= rows || c >= N) return;
  product[std::int64_t{r} * N + c] = sum;
  if (magnitude) magnitude[std::int64_t{r} * N + c] = absolute;
}

// fmt's compile-time checks are too much for nvcc's front end, so text is put together by hand.
std::string megabytes(std::size_t bytes) { return std::to_string(bytes / 1000000) + " MB"; }

cudaDeviceProp properties() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0)
    throw Refusal(Exit::no_device,
                  std::string("no GPU answers (") +
                      (status != cudaSuccess ? cudaGetErrorString(status) : "none found") +
                      "): install NVIDIA's driver, or use --device emulator");
  int current = 0;
  cudaDeviceProp found{};
  check(cudaGetDevice(&current), "choosing the GPU");
  check(cudaGetDeviceProperties(&found, current), "asking the GPU what it is");
  return found;
}

class GpuBackend : public Backend {
 public:
  GpuBackend() : properties_(properties()) {
    cudaFuncAttributes attributes{};
    if (cudaFuncGetAttributes(&attributes, reference_kernel) != cudaSuccess)
      throw Refusal(Exit::no_device, "this build has no code for " + name() +
                                         ": configure with -DCMAKE_CUDA_ARCHITECTURES=" +
                                         std::to_string(compute_capability()));
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
    check(cudaEventCreate(&begin_), "creating an event");
    check(cudaEventCreate(&end_), "creating an event");
  }

  // After a fault nothing on the device can be released properly; there is nobody left to tell.
  ~GpuBackend() override {
    cudaFree(flushed_);
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream_);
  }

  GpuBackend(const GpuBackend&) = delete;
  GpuBackend& operator=(const GpuBackend&) = delete;

  Device device() const override { return Device::gpu; }

  std::string name() const override {
    return std::string(properties_.name) + ", sm_" + std::to_string(compute_capability());
  }

  int compute_capability() const override { return properties_.major * 10 + properties_.minor; }

  std::size_t free_bytes() const override {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for the free device memory");
    return free;
  }

  void* allocate(std::size_t bytes, const std::string& name) override {
    void* memory = nullptr;
    const cudaError_t status = cudaMalloc(&memory, std::max<std::size_t>(bytes, 1));
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // or the next launch would be blamed for it
      throw Refusal(Exit::no_memory, megabytes(bytes) + " for " + name + " do not fit in the " +
                                         megabytes(free_bytes()) +
                                         " of device memory that are free: choose a smaller size");
    }
    check(status, "allocating device memory");
    return memory;
  }

  void release(void* memory) override { cudaFree(memory); }

  void upload(void* to, const void* from, std::size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), "copying to the GPU");
    wait("copying to the GPU");
  }

  void download(void* to, const void* from, std::size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_),
          "copying from the GPU");
    wait("copying from the GPU");
  }

  void fill(void* memory, unsigned char byte, std::size_t bytes) override {
    check(cudaMemsetAsync(memory, byte, bytes, stream_), "filling device memory");
  }

  void finish(const Run& run) override {
    run.start(stream_);
    wait("running the kernel");
  }

  double seconds(const Run& run, int launches, bool cold) override {
    if (cold) flush_cache();
    check(cudaEventRecord(begin_, stream_), "recording an event");
    for (int i = 0; i < launches; ++i) run.start(stream_);
    check(cudaEventRecord(end_, stream_), "recording an event");
    wait("running the kernel");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_, end_), "reading the time");
    return milliseconds * 1e-3 / launches;
  }

  void reference(const Problem& problem, int row0, int rows, double* product,
                 double* magnitude) override {
    const auto [M, N, K] = problem.shape;
    const std::size_t bytes = std::size_t(rows) * N * sizeof(double);
    const Buffer product_buffer(*this, bytes, "the reference");
    const Buffer magnitude_buffer(*this, magnitude ? bytes : 0, "the reference");
    const Grid grid{std::int64_t{1} * ceil_div(rows, tile) * ceil_div(N, tile), threads};
    finish(launch(reference_kernel, grid, rows, N, K, problem.A + row0 * problem.lda, problem.lda,
                  problem.B, problem.ldb, static_cast<double*>(product_buffer.get()),
                  magnitude ? static_cast<double*>(magnitude_buffer.get()) : nullptr));
    download(product, product_buffer.get(), bytes);
    if (magnitude) download(magnitude, magnitude_buffer.get(), bytes);
  }

 private:
  void wait(const char* doing) { check(cudaStreamSynchronize(stream_), doing); }

  // Writes twice the L2, so that nothing of the operands is left in it.
  void flush_cache() {
    const std::size_t bytes = 2 * std::size_t(properties_.l2CacheSize);
    if (!flushed_) flushed_ = allocate(bytes, "the cache flush");
    fill(flushed_, 0, bytes);
  }

  const cudaDeviceProp properties_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  void* flushed_ = nullptr;
};

}  // namespace

std::unique_ptr<Backend> open_gpu() { return std::make_unique<GpuBackend>(); }

}  // namespace gemm
