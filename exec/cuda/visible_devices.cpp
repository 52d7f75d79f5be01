#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "exec/cuda/library.hpp"
#include "exec/device/cuda.hpp"

namespace tandem::exec {
namespace {

std::vector<std::string> listed(const std::string& list) {
  std::vector<std::string> all;
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    if (end > at) all.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

unsigned count_of_host() {
  const cuda::Library library("libnvidia-ml.so.1");
  unsigned count = 0;
  if (!library || library.get<int (*)()>("nvmlInit_v2")() != 0) return 0;
  library.get<int (*)(unsigned*)>("nvmlDeviceGetCount_v2")(&count);
  library.get<int (*)()>("nvmlShutdown")();
  return count;
}

}  // namespace

std::vector<std::string> visible_cuda_devices() {
  if (const char* list = std::getenv("CUDA_VISIBLE_DEVICES"); list != nullptr) return listed(list);
  std::vector<std::string> all;
  for (unsigned i = 0; i < count_of_host(); ++i) all.push_back(std::to_string(i));
  return all;
}

}  // namespace tandem::exec
