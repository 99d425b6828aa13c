// Libraries that are opened when they are first needed, not linked: what a machine may lack, and what takes long to
// load.
//
//   struct CublasLibrary : SharedLibrary {
//     CublasLibrary() : SharedLibrary(toolkit_library("cublas", CUBLAS_VER_MAJOR)) {}
//     decltype(cublasCreate)* create = function("cublasCreate_v2");
//   };
//   opened<CublasLibrary>().create(&handle);
#pragma once

#include <string>
#include <vector>

namespace strobe {

// Where a library may be, and what to do if it is nowhere.
struct LibraryFiles {
  std::vector<std::string> files;  // names or paths, the best first; empty ones are skipped
  std::string advice;
  const char* variable = nullptr;  // an environment variable that replaces `files`
};

class SharedLibrary {
 public:
  // Opens the first file that can be opened; it stays open. If none can be opened, throws Error(unsupported), or
  // Error(out_of_memory) if memory was the reason, with the advice and the loader's reasons.
  explicit SharedLibrary(const LibraryFiles& where);

  void* handle() const { return handle_; }

  // The address of a function, for a pointer of any function type.
  class Address {
   public:
    explicit Address(void* address) : address_(address) {}
    template <class Function>
    operator Function*() const {  // NOLINT: it converts where it is assigned
      return reinterpret_cast<Function*>(address_);
    }

   private:
    void* address_;
  };

  // Throws Error(unsupported) if the library has none of that name.
  Address function(const char* name) const;

 private:
  std::string file_;
  void* handle_ = nullptr;
};

// lib<name>.so.<major> of the CUDA toolkit: the system's, else that of the toolkit which this was built with.
LibraryFiles toolkit_library(const char* name, int major);

// The library, opened by the first call. Thread-safe. Throws as its constructor does; a later call tries again.
template <class Library>
const Library& opened() {
  static const Library library;
  return library;
}

}  // namespace strobe
