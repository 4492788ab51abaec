#include "common/simt/program.hpp"

#include <cxxabi.h>
#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>

#include "common/simt/cuda.hpp"

// Tells where the thread's storage lies: the symbol table has its offset, the thread its address.
extern "C" {
thread_local char gemm_simt_anchor = 0;
}

namespace gemm {
// Declared in launch.hpp, for all kernels alike.
alignas(128) __shared__ float dynamic_shared[simt::max_shared_bytes / sizeof(float)];
}  // namespace gemm

namespace gemm::simt {
namespace {

constexpr std::uintptr_t code_limit = std::uintptr_t{1} << 24;

std::vector<char> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The array's name at the end of _ZZ<function>E<length><name>[_<number>], or nothing.
std::string array_name(const std::string& mangled, std::size_t begin) {
  const std::size_t digits = mangled.find_first_not_of("0123456789", begin);
  if (digits == begin || digits == std::string::npos) return {};
  return mangled.substr(digits, std::stoul(mangled.substr(begin, digits - begin)));
}

std::string demangle(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? name.get() : mangled;
}

// Lines of CUDA's vocabulary stand for the line of the kernel that uses it.
bool is_vocabulary(const std::string& file) {
  return file == "cuda.hpp" || file == "float4.hpp" || file == "async_copy.hpp";
}

}  // namespace

Program& Program::self() {
  static Program program;
  return program;
}

Program::Program() : path_(std::filesystem::read_symlink("/proc/self/exe")) {
  read_segments();
  read_symbols();
}

void Program::read_segments() {
  struct Span {
    std::uintptr_t begin = UINTPTR_MAX, end = 0, code_end = 0, bias = 0, storage = 0;
  } span;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        auto& s = *static_cast<Span*>(out);
        s.bias = info->dlpi_addr;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          if (segment.p_type == PT_TLS) s.storage = segment.p_memsz;
          if (segment.p_type != PT_LOAD) continue;
          const std::uintptr_t begin = s.bias + segment.p_vaddr, end = begin + segment.p_memsz;
          s.begin = std::min(s.begin, begin);
          s.end = std::max(s.end, end);
          if (segment.p_flags & PF_X) s.code_end = std::max(s.code_end, end);
        }
        return 1;  // the program itself comes first
      },
      &span);
  if (span.code_end - span.begin > code_limit)
    throw std::runtime_error("the emulator takes programs of up to 16 MB of code");
  begin_ = span.begin;
  end_ = span.end;
  bias_ = span.bias;
  storage_bytes_ = span.storage;
}

void Program::read_symbols() {
  const std::vector<char> file = read_file(path_);
  const auto& header = *reinterpret_cast<const Elf64_Ehdr*>(file.data());
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(file.data() + header.e_shoff);
  bool has_anchor = false;
  for (int i = 0; i < header.e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const char* names = file.data() + sections[sections[i].sh_link].sh_offset;
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(file.data() + sections[i].sh_offset);
    int source_file = 0;
    for (std::size_t s = 0; s < sections[i].sh_size / sizeof *symbols; ++s) {
      const int type = ELF64_ST_TYPE(symbols[s].st_info);
      if (type == STT_FILE) ++source_file;
      const bool is_local = ELF64_ST_BIND(symbols[s].st_info) == STB_LOCAL;
      const int scope = is_local ? source_file : everywhere;
      std::string name = names + symbols[s].st_name;
      if (name == "gemm_simt_anchor") {
        anchor_offset_ = symbols[s].st_value;
        has_anchor = true;
      } else if (type == STT_TLS && name.starts_with("_ZZ")) {
        arrays_.push_back({symbols[s].st_value, symbols[s].st_size, std::move(name), scope});
      } else if (type == STT_FUNC && symbols[s].st_value) {
        functions_.push_back({symbols[s].st_value, symbols[s].st_size, std::move(name), scope});
      }
    }
  }
  if (!has_anchor)
    throw std::runtime_error("the emulator needs the program's symbol table: do not strip it");
  std::sort(functions_.begin(), functions_.end(),
            [](const Symbol& a, const Symbol& b) { return a.address < b.address; });
}

char* Program::thread_storage() const { return &gemm_simt_anchor - anchor_offset_; }

bool Program::in_thread_storage(const void* p) const {
  return static_cast<std::uint64_t>(static_cast<const char*>(p) - thread_storage()) <
         storage_bytes_;
}

std::vector<SharedArray> Program::shared_arrays(const void* kernel,
                                                std::uint64_t dynamic_bytes) const {
  const std::uint64_t address = reinterpret_cast<std::uintptr_t>(kernel) - bias_;
  std::vector<SharedArray> found;
  if (dynamic_bytes > 0) {
    const char* const begin = reinterpret_cast<const char*>(dynamic_shared);
    found.push_back({"dynamic_shared", std::uint64_t(begin - thread_storage()), dynamic_bytes});
  }
  for (const Symbol& function : functions_) {
    if (function.address != address || !function.name.starts_with("_Z")) continue;
    const std::string prefix = "_ZZ" + function.name.substr(2) + "E";
    for (const Symbol& array : arrays_) {
      const bool visible = function.scope == everywhere || array.scope == function.scope;
      if (!visible || !array.name.starts_with(prefix)) continue;
      std::string name = array_name(array.name, prefix.size());
      if (!name.empty()) found.push_back({std::move(name), array.address, array.bytes});
    }
  }
  std::sort(found.begin(), found.end(),
            [](const SharedArray& a, const SharedArray& b) { return a.offset < b.offset; });
  return found;
}

std::string Program::function_at(std::uint32_t address) const {
  const std::uint64_t at = begin_ - bias_ + address;
  auto next = std::upper_bound(functions_.begin(), functions_.end(), at,
                               [](std::uint64_t a, const Symbol& s) { return a < s.address; });
  if (next == functions_.begin()) return fmt::format("{:#x}", at);
  --next;
  return fmt::format("{}+{:#x}", demangle(next->name), at - next->address);
}

std::vector<Source> Program::sources(const std::vector<std::uint32_t>& addresses) {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint32_t> unknown;
  for (const std::uint32_t address : addresses)
    if (!known_.contains(address)) {
      unknown.push_back(address);
      known_[address] = {function_at(address), 0};
    }
  // -a heads the frames of an address by the address itself, -i gives a frame for each inlining.
  for (std::size_t i0 = 0; i0 < unknown.size(); i0 += 1000) {
    const std::size_t count = std::min<std::size_t>(1000, unknown.size() - i0);
    std::string command = fmt::format("addr2line -a -i -e '{}'", path_);
    for (std::size_t i = 0; i < count; ++i)
      command += fmt::format(" {:#x}", begin_ - bias_ + unknown[i0 + i] - 1);
    FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
    if (!pipe) break;
    char text[4096];
    Source* source = nullptr;
    for (std::size_t i = i0; fgets(text, sizeof text, pipe);) {
      const std::string frame = text;
      if (frame.starts_with("0x")) {
        source = i < i0 + count ? &known_[unknown[i++]] : nullptr;
        continue;
      }
      const std::size_t colon = frame.rfind(':');
      const int line = colon == std::string::npos ? 0 : std::atoi(frame.c_str() + colon + 1);
      if (!source || line == 0 || (source->line != 0 && !is_vocabulary(source->file))) continue;
      *source = {std::filesystem::path(frame.substr(0, colon)).filename(), line};
    }
    pclose(pipe);
  }
  std::vector<Source> found;
  for (const std::uint32_t address : addresses) found.push_back(known_[address]);
  return found;
}

std::string to_string(const Source& source) {
  return source.line ? fmt::format("{}:{}", source.file, source.line) : source.file;
}

std::vector<Source> sources(const std::vector<Site>& sites) {
  std::vector<std::uint32_t> addresses;
  for (const Site& site : sites) addresses.push_back(site.address);
  return Program::self().sources(addresses);
}

std::int64_t static_shared_bytes(void* kernel) {
  std::int64_t bytes = 0;
  for (const SharedArray& array : Program::self().shared_arrays(kernel)) bytes += array.bytes;
  return bytes;
}

}  // namespace gemm::simt
