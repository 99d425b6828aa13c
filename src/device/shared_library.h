// A library that is opened when it is first needed, not linked: for what a machine may lack, and for what takes long to
// load.
#pragma once

#include <span>
#include <string>

namespace strobe {

class SharedLibrary {
 public:
  // Opens the first of `files` that can be opened; it stays open. Skips empty names. If none can be opened, throws
  // Error(unsupported), or Error(out_of_memory) if memory was the reason, with `advice` and the loader's reasons.
  SharedLibrary(std::span<const std::string> files, const std::string& advice);

  void* handle() const { return handle_; }

  // Throws Error(unsupported) where the library has none of that name.
  template <class Function>
  void find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(address_of(name));
  }

 private:
  void* address_of(const char* name) const;

  std::string file_;
  void* handle_ = nullptr;
};

}  // namespace strobe
