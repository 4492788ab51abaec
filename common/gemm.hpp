// The whole interface of a step. A step file holds kernels and registers them here; everything
// that is the same in every step (main, operands, checking, timing, printing) is the harness.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

struct CUstream_st;

namespace gemm {

/// The CUDA stream a kernel is launched on; null and ignored off the GPU.
using Stream = CUstream_st*;

/// Where a registered kernel runs. On the emulator a GPU step is executed thread by thread and
/// counted; a CPU step runs through a cache simulation.
enum class Device { cpu, gpu, emulator };

/// The device that this translation unit is being compiled for.
#if defined(GEMM_EMULATOR)
constexpr Device this_device = Device::emulator;
#elif defined(__CUDACC__)
constexpr Device this_device = Device::gpu;
#else
constexpr Device this_device = Device::cpu;
#endif

/// C[M,N] = A[M,K] * B[K,N].
struct Shape {
  int M, N, K;
};

/// The format of the entries of A and B. Those of C are fp32, and so are sums.
enum class Element { fp32, bf16 };

struct bfloat16;

/// Row-major operands in the memory of the device that runs the kernel; ld* are in elements.
/// C = alpha * A * B + beta * C; beta == 0 never reads C. Teaching steps are only ever given
/// alpha == 1, beta == 0 and dense rows, so that their idea stands alone. A step with operands in
/// BF16 gets the same values twice: as A16 and B16, and widened to fp32 as A and B.
struct Problem {
  Shape shape;
  const float* A;
  const float* B;
  float* C;
  std::int64_t lda, ldb, ldc;
  float alpha = 1, beta = 0;
  int threads = 1;
  const bfloat16 *A16 = nullptr, *B16 = nullptr;  ///< null where operands are fp32
};

/// Bytes that the code asks for, before any cache answers: 4 per float loaded or stored.
struct Traffic {
  std::int64_t global_loaded = 0, global_stored = 0;
  std::int64_t shared_loaded = 0, shared_stored = 0;
  bool operator==(const Traffic&) const = default;
};

constexpr Traffic operator+(const Traffic& a, const Traffic& b) {
  return {a.global_loaded + b.global_loaded, a.global_stored + b.global_stored,
          a.shared_loaded + b.shared_loaded, a.shared_stored + b.shared_stored};
}

/// What a launch takes of a multiprocessor; 0 where the backend cannot tell.
struct Footprint {
  int threads = 0, registers = 0;
  std::int64_t shared_bytes = 0, blocks = 0;
};

/// One multiplication, set up and ready to be started any number of times.
struct Run {
  std::function<void(Stream)> start;
  Footprint footprint{};
};

/// The only source of tile numbers: block, warp and thread tile, in elements. 0: has no such tile.
/// `blocks` that a multiprocessor shall hold at once: the compiler caps the registers for it.
struct Tile {
  int BM = 0, BN = 0, BK = 0, WM = 0, WN = 0, TM = 1, TN = 1, blocks = 1;
  constexpr int threads() const { return BM / TM * (BN / TN); }
};

/// "128x128x16, 8x8, 2 per SM": the name of a row; what is 1 or missing is left out.
std::string to_string(Tile tile);

/// A data cache: its size, its line, and how many lines a set holds (0: one set holds them all).
struct Cache {
  std::int64_t bytes;
  int line_bytes = 64, ways = 0;
};

/// A row of a step's table. `prepare` does the set-up; only the Run it returns is checked and
/// timed. `supports` answers with the reason why a shape is refused; left empty, every shape is
/// taken. `misses` predicts the lines a cache without conflicts must fetch; empty where no model
/// does.
struct Kernel {
  std::string name;
  std::function<Run(const Problem&)> prepare;
  std::function<Traffic(Shape)> traffic;
  Tile tile{};
  std::function<std::string(Shape)> supports{};
  std::function<double(Shape, Cache)> misses{};
};

/// A step of the course. `name` is the stem of its file, "09_gpu_square_tiling"; `sizes` are the
/// square sizes that show its idea best where the user names none.
struct Step {
  std::string name, title;
  Device device;
  std::vector<Kernel> kernels;
  std::vector<int> sizes{};
  int min_compute_capability = 0;
  Element operands = Element::fp32;
  /// FLOP/s, at this moment, of the unit that the step multiplies with, on so many threads; empty
  /// where that is the device's FMA.
  std::function<double(int threads)> peak{};
  std::string unit = "FMA";  ///< the name of that unit
  bool whole_contract = false;  ///< keeps alpha, beta and leading dimensions
  std::vector<Kernel> candidates{};  ///< the tiles that --tune chooses from
};

/// Adds a step to the program, before main. Throws std::logic_error when it is there already.
struct Register {
  explicit Register(Step step);
};

/// Every registered step, sorted by name, then device.
const std::vector<Step>& steps();

constexpr int ceil_div(int a, int b) { return a / b + (a % b != 0); }

/// Where share `i` of `shares` nearly equal ones of `total` begins: a multiple of `unit`, or the
/// end.
constexpr int share_begin(int total, int i, int shares, int unit) {
  const std::int64_t begin = std::int64_t{ceil_div(total, unit)} * i / shares * unit;
  return begin < total ? static_cast<int>(begin) : total;
}

}  // namespace gemm
