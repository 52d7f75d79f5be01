#pragma once
// Shared libraries that are opened when they are needed: the program starts on machines that have none of them.

#include <string>

namespace tandem::exec::cuda {

/// One library, open for as long as this lives. Looked for where the loader looks, then where the toolkit of the build was.
class Library {
 public:
  /// `file`, e.g. "libnccl.so.2". Leaves the library closed when it is not found.
  explicit Library(const std::string& file);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  explicit operator bool() const { return handle_ != nullptr; }
  /// For those who look functions up themselves.
  void* raw() const { return handle_; }
  /// Why it is closed, in the loader's words.
  const std::string& problem() const { return problem_; }
  /// A function of it. Throws DeviceError when it has none of this name.
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
