// Shared libraries that are loaded at their first use instead of being linked, because a machine may lack them or they
// load slowly.
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

// Files to try for a library, and advice for the error message if none can be loaded.
struct LibraryFiles {
  std::vector<std::string> files;  // names or paths, tried in order; empty ones are skipped
  std::string advice;
  const char* variable = nullptr;  // name of an environment variable that, if set, replaces `files`
};

class SharedLibrary {
 public:
  // Loads the first file that can be loaded, and never unloads it. Throws Error(unsupported), or Error(out_of_memory)
  // if the loader lacked memory, with the advice and the loader's reasons.
  explicit SharedLibrary(const LibraryFiles& where);

  void* handle() const { return handle_; }

  // Address of a function, which converts to a pointer of any function type.
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

  // Returns the address of a function. Throws Error(unsupported) if the library does not have it.
  Address function(const char* name) const;

 private:
  std::string file_;
  void* handle_ = nullptr;
};

// Returns the files to try for lib<name>.so.<major> of the CUDA toolkit. The first is in the system's search path, the
// second in the folder of the toolkit with which Strobe was built.
LibraryFiles toolkit_library(const char* name, int major);

// Returns the library, which the first call loads. Thread-safe. Throws like its constructor; a later call tries again.
template <class Library>
const Library& opened() {
  static const Library library;
  return library;
}

}  // namespace strobe
