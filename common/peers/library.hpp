// A shared library opened at run time.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>

namespace gemm {

class Library {
 public:
  /// The first of these file names that the dynamic loader can open, or nothing.
  static std::optional<Library> open(std::initializer_list<const char*> files);

  /// A function of the library by its type: `library.get<int(float)>("f")`. Null when it has none.
  template <typename Function>
  Function* get(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }

  /// The same for a function that must be there. Throws Refusal(unsupported).
  template <typename Function>
  Function* require(const char* name) const {
    return reinterpret_cast<Function*>(required_symbol(name));
  }

 private:
  explicit Library(void* handle);
  void* symbol(const char* name) const;
  void* required_symbol(const char* name) const;

  void* handle_;
};

}  // namespace gemm
