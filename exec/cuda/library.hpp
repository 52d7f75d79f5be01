#pragma once
// Shared libraries opened on demand, so that the program starts on machines without them.

#include <string>

namespace tandem::exec::cuda {

/// An open library. Searched on the loader's path, then in the CUDA toolkit of the build. Once loaded, it stays in memory.
class Library {
 public:
  /// `file`: e.g. "libnccl.so.2". If it is not found, the object stays closed.
  explicit Library(const std::string& file);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  explicit operator bool() const { return handle_ != nullptr; }
  /// The handle, for dlsym.
  void* raw() const { return handle_; }
  /// The loader's message why it is closed.
  const std::string& problem() const { return problem_; }
  /// Looks up a function. Throws DeviceError if the library has none of this name.
  template <class F>
  F get(const char* name) const {
    return reinterpret_cast<F>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;
  void* handle_ = nullptr;
  std::string file_, problem_;
};

}  // namespace tandem::exec::cuda
