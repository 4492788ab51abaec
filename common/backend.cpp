#include "common/backend.hpp"

#include "common/error.hpp"

namespace gemm {

std::unique_ptr<Backend> open_backend(Device device) {
  switch (device) {
    case Device::cpu:
      return open_cpu();
    case Device::gpu:
#ifdef GEMM_HAVE_CUDA
      return open_gpu();
#else
      throw Refusal(Exit::no_device,
                    "this build has no CUDA: install the CUDA toolkit and configure again, or use "
                    "--device emulator");
#endif
    case Device::emulator:
#ifdef GEMM_HAVE_EMULATOR
      return open_emulator();
#else
      throw Refusal(Exit::no_device,
                    "this build has no emulator: configure with -DGEMM_EMULATOR=ON");
#endif
  }
  throw Refusal(Exit::no_device, "unknown device");
}

}  // namespace gemm
