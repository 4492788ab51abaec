#include "common/peers/library.hpp"

#include <dlfcn.h>

#include "common/error.hpp"

namespace gemm {

// Never closed: BLAS libraries leave threads behind that would outlive their own code.
Library::Library(void* handle) : handle_(handle) {}

std::optional<Library> Library::open(std::initializer_list<const char*> files) {
  for (const char* file : files)
    if (void* handle = dlopen(file, RTLD_NOW | RTLD_LOCAL)) return Library(handle);
  return std::nullopt;
}

void* Library::symbol(const char* name) const { return dlsym(handle_, name); }

void* Library::required_symbol(const char* name) const {
  if (void* found = symbol(name)) return found;
  throw Refusal(Exit::unsupported, std::string("the BLAS library has no ") + name +
                                       ": install a newer version of it, or use --peer none");
}

}  // namespace gemm
