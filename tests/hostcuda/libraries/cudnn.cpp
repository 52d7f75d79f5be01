// cuDNN for tests: it gives no handle, so that attention runs on Tandem's own kernel, also where the real library is installed.
#include <cstddef>

extern "C" {

int cudnnCreate(void** handle) {
  constexpr int kNotInitialized = 1001;  // CUDNN_STATUS_NOT_INITIALIZED
  *handle = nullptr;
  return kNotInitialized;
}
std::size_t cudnnGetVersion() { return 0; }

}  // extern "C"
