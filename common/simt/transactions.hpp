// What one request of a warp costs in memory transactions.
#pragma once

#include <cstdint>

namespace gemm::simt {

/// A warp instruction: a bit for each active lane, and the address each of them accesses.
struct Request {
  std::uint32_t lanes;
  std::uint64_t address[32];
};

/// Distinct 32-byte sectors of global memory that a request touches. Each lane's access lies
/// in one sector, being aligned to its own size.
int sectors(const Request& request);

/// Wavefronts that a request to shared memory takes: 32 banks of 4 bytes, each of which gives one
/// word a wavefront, to all lanes that want it. Lanes are served in groups of 32 at up to 4 bytes
/// each, of 16 at 8 bytes, of 8 at 16 bytes. Loads of two groups are served together when every
/// lane T reads what lane T ^ 1 reads, or every lane T what T ^ 2 reads; those of all four when
/// both hold. Source: NVIDIA staff, forums.developer.nvidia.com/t/77228.
int wavefronts(const Request& request, int bytes, bool write);

}  // namespace gemm::simt
