#include "exec/cuda/library.hpp"

#include <dlfcn.h>

#include "models/base/error.hpp"

namespace tandem::exec::cuda {

Library::Library(const std::string& file) : file_(file) {
  // RTLD_NODELETE: cuDNN's frontend keeps addresses of functions for the rest of the process (cudnn_frontend_shim.h).
  constexpr int kHow = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
  handle_ = dlopen(file.c_str(), kHow);
  if (handle_) return;
  problem_ = dlerror();
  handle_ = dlopen((std::string(TANDEM_CUDA_LIBRARIES) + "/" + file).c_str(), kHow);
}

Library::~Library() {
  if (handle_) dlclose(handle_);
}

void* Library::symbol(const char* name) const {
  void* found = handle_ ? dlsym(handle_, name) : nullptr;
  if (!found) throw DeviceError(file_ + " has no function " + name + "; it is older than the one that Tandem was built with");
  return found;
}

}  // namespace tandem::exec::cuda
