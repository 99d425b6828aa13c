// Shared libraries that the first use opens and that are not linked: libraries that a machine may lack or that load
// slowly.
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

// Where to search for a library, and advice if it is missing.
struct LibraryFiles {
  std::vector<std::string> files;  // names or paths, tried in order; empty ones are skipped
  std::string advice;
  const char* variable = nullptr;  // an environment variable that replaces `files`
};

class SharedLibrary {
 public:
  // Opens the first file that can be opened and keeps it open. Throws Error(unsupported), or Error(out_of_memory) if
  // memory was the reason, with the advice and the loader's reasons.
  explicit SharedLibrary(const LibraryFiles& where);

  void* handle() const { return handle_; }

  // The address of a function, for a pointer of any function type.
  class Address {
   public:
    explicit Address(void* address) : address_(address) {}
    template <class Function>
    operator Function*() const {  // NOLINT: converts to the assigned pointer's type
      return reinterpret_cast<Function*>(address_);
    }

   private:
    void* address_;
  };

  // Throws Error(unsupported) if the library lacks the name.
  Address function(const char* name) const;

 private:
  std::string file_;
  void* handle_ = nullptr;
};

// lib<name>.so.<major> of the CUDA toolkit: from the system's search path, else from the build's toolkit.
LibraryFiles toolkit_library(const char* name, int major);

// Returns the library, opened by the first call. Thread-safe. Throws like its constructor; a later call tries again.
template <class Library>
const Library& opened() {
  static const Library library;
  return library;
}

}  // namespace strobe
