// The calls that g++ makes for -fsanitize=thread, and CUDA's functions, answered by the worker.

#include <bit>

#include "common/simt/cuda.hpp"
#include "common/simt/worker.hpp"

namespace gemm::simt {
namespace {

Worker& worker(View& view) { return static_cast<Worker&>(view); }
Worker& worker() { return worker(*current); }

// Everything below runs on every access of a kernel, and each instruction is felt. What is seldom
// needed is called last and out of line, so that nothing has to be saved around the call.
[[gnu::noinline]] void log_full(View& w) { worker(w).log_full(); }

inline void record(View& w, Entry entry) {
  *w.log++ = entry;
  if (w.log >= w.log_limit) [[unlikely]]
    log_full(w);
}

inline std::uint32_t site_in(Entry code) { return code >> site_shift; }

// Notes the access of a word; false when that takes more than a glance.
template <bool write>
inline bool note_quickly(View& w, Shadow& word, std::uint32_t site) {
  const std::uint32_t begin = w.interval_begin;
  if constexpr (write) {
    if (word.write >= begin || word.read >= begin) return false;
    word.write = w.stamp;
    word.write_mark = w.epoch | site;
    return true;
  }
  if (word.write - w.block_begin >= begin - w.block_begin) return false;
  if (word.read < begin) {
    word.read = w.stamp;
    word.read_mark = w.epoch | site;
    return true;
  }
  // Nothing is new when several warps are known to read it, or several lanes of this one.
  const bool same_warp = (word.read ^ (w.stamp | other_lanes)) < 32;
  return word.read & other_warps || (same_warp && (word.read_mark ^ w.epoch) >> 24 == 0);
}

template <int bytes, bool write>
[[gnu::noinline]] void access_shared_slowly(View& w, std::uint64_t at, Entry code) {
  Worker& worker = static_cast<Worker&>(w);
  if (at % bytes)
    worker.raise({.kind = Fault::Kind::misaligned,
                  .where = at,
                  .bytes = bytes,
                  .shared = true,
                  .write = write,
                  .thread = w.thread,
                  .site = site_in(code)});
  if constexpr (write)
    worker.note_write(at, bytes, site_in(code));
  else
    worker.note_read(at, bytes, site_in(code));
  record(w, code + entry_kind<bytes, true, write> + at);
}

// Outside of shared memory and device buffers.
template <int bytes, bool write>
[[gnu::noinline]] void access_elsewhere(View& w, void* p, Entry code) {
  if (w.launch && !worker(w).is_private(p)) worker(w).raise_outside(p, bytes, write, site_in(code));
}

template <int bytes, bool write>
[[gnu::noinline]] void access_misaligned(View& w, void* p, Entry code) {
  worker(w).raise({.kind = Fault::Kind::misaligned,
                   .where = reinterpret_cast<std::uintptr_t>(p),
                   .bytes = bytes,
                   .write = write,
                   .thread = w.thread,
                   .site = site_in(code)});
}

template <int bytes, bool write>
inline void access(void* p, void* caller) {
  View& w = *current;
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  const Entry code = (reinterpret_cast<Entry>(caller) << site_shift) + w.entry_bias;
  const std::uint64_t at = address - w.shared_begin;
  if (at < w.shared_bytes) [[likely]] {
    bool quick = at % bytes == 0;
    for (int i = 0; i < (bytes + 3) / 4; ++i)
      quick = quick && note_quickly<write>(w, w.shadow[at / 4 + i], site_in(code));
    if (!quick) [[unlikely]]
      return access_shared_slowly<bytes, write>(w, at, code);
    return record(w, code + entry_kind<bytes, true, write> + at);
  }
  for (const Span* span = w.spans; span != w.spans_end; ++span) {
    const std::uint64_t offset = address - span->begin;
    if (offset >= span->bytes) continue;
    if (offset + bytes > span->bytes) break;
    const std::uint64_t device = span->device + offset;
    if (w.sink) return w.sink(w.sink_context, device, bytes, write);
    if (device % bytes) [[unlikely]]
      return access_misaligned<bytes, write>(w, p, code);
    return record(w, code + entry_kind<bytes, false, write> + device);
  }
  access_elsewhere<bytes, write>(w, p, code);
}

// An access that is no machine word, such as the copy of a struct, counts word by word; a vector of
// a CPU's code is one.
template <bool write>
void access_range(char* p, std::size_t bytes, void* caller) {
  if (current->sink && (bytes == 32 || bytes == 64))
    return bytes == 32 ? access<32, write>(p, caller) : access<64, write>(p, caller);
  if (reinterpret_cast<std::uintptr_t>(p) % 4 || bytes % 4)
    for (std::size_t i = 0; i < bytes; ++i) access<1, write>(p + i, caller);
  else
    for (std::size_t i = 0; i < bytes; i += 4) access<4, write>(p + i, caller);
}

std::uint32_t site_of_caller(void* caller) {
  return reinterpret_cast<std::uintptr_t>(caller) - Program::self().begin();
}

}  // namespace

unsigned thread_index() { return current->thread; }
unsigned block_index() { return current->block; }
unsigned block_size() { return current->launch->threads; }
unsigned grid_size() { return current->launch->blocks; }

std::uint64_t exchange(unsigned mask, std::uint64_t value, int source) {
  return worker().exchange(mask, value, source, site_of_caller(__builtin_return_address(0)));
}

}  // namespace gemm::simt

using gemm::simt::access;
using gemm::simt::access_range;
using gemm::simt::site_of_caller;
using gemm::simt::worker;

// NOLINTBEGIN(readability-identifier-naming): the names are CUDA's.
void __syncthreads() { worker().block_barrier(site_of_caller(__builtin_return_address(0))); }

void __syncwarp(unsigned mask) {
  worker().warp_barrier(mask, site_of_caller(__builtin_return_address(0)));
}

void __pipeline_memcpy_async(void* shared, const void* global, std::size_t bytes,
                             std::size_t zeros) {
  worker().copy_async(shared, global, bytes, zeros, site_of_caller(__builtin_return_address(0)));
}

void __pipeline_commit() { worker().commit_async(); }
void __pipeline_wait_prior(std::size_t groups) { worker().wait_async(groups); }
// NOLINTEND(readability-identifier-naming)

// NOLINTBEGIN(readability-identifier-naming): the names are GCC's.
// GCC, gcc/sanitizer.def: BUILT_IN_TSAN_*. Of the atomic operations there is the one that the host code
// of a step needs, for std::shared_ptr; no kernel has one.
extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_read1(void* p) { access<1, false>(p, __builtin_return_address(0)); }
void __tsan_read2(void* p) { access<2, false>(p, __builtin_return_address(0)); }
void __tsan_read4(void* p) { access<4, false>(p, __builtin_return_address(0)); }
void __tsan_read8(void* p) { access<8, false>(p, __builtin_return_address(0)); }
void __tsan_read16(void* p) { access<16, false>(p, __builtin_return_address(0)); }
void __tsan_write1(void* p) { access<1, true>(p, __builtin_return_address(0)); }
void __tsan_write2(void* p) { access<2, true>(p, __builtin_return_address(0)); }
void __tsan_write4(void* p) { access<4, true>(p, __builtin_return_address(0)); }
void __tsan_write8(void* p) { access<8, true>(p, __builtin_return_address(0)); }
void __tsan_write16(void* p) { access<16, true>(p, __builtin_return_address(0)); }
void __tsan_read_range(void* p, std::size_t bytes) {
  access_range<false>(static_cast<char*>(p), bytes, __builtin_return_address(0));
}
void __tsan_write_range(void* p, std::size_t bytes) {
  access_range<true>(static_cast<char*>(p), bytes, __builtin_return_address(0));
}
int __tsan_atomic32_fetch_add(volatile int* p, int value, int) {
  return __atomic_fetch_add(p, value, __ATOMIC_SEQ_CST);
}
}
// NOLINTEND(readability-identifier-naming)
