#include "exec/nccl/api.hpp"

#include "models/base/error.hpp"

namespace tandem::exec::nccl {
namespace {

constexpr int kOldest = 21'800;

const cuda::Library& usable(const cuda::Library& library, const std::string& file) {
  const std::string remedy = "install NCCL where the loader looks (LD_LIBRARY_PATH), or use --comm staged";
  if (!library) throw InfeasibleError(Problem{"", "--comm", "nccl", file + " is not found: " + library.problem(), remedy});
  int version = 0;
  library.get<decltype(&ncclGetVersion)>("ncclGetVersion")(&version);
  if (version < kOldest)
    throw InfeasibleError(Problem{"", "--comm", "nccl", file + " is of version code " + std::to_string(version) + ", and " +
                                  std::to_string(kOldest) + " is the oldest that can be used", remedy});
  return library;
}

}  // namespace

Api::Api(const std::string& file) : library_(file), checked_(&usable(library_, file)) {}

ncclDataType_t type_of(DType type) {
  switch (type) {
    case DType::fp64: return ncclFloat64;
    case DType::fp32: return ncclFloat32;
    case DType::bf16: return ncclBfloat16;
    case DType::fp16: return ncclFloat16;
    case DType::int32: return ncclInt32;
    case DType::int64: return ncclInt64;
    default: throw ContractError("NCCL adds up no elements of this type");
  }
}

ncclRedOp_t operation_of(Reduce reduce) { return reduce == Reduce::sum ? ncclSum : ncclMax; }

bool whole_numbers(DType type) { return type == DType::int32 || type == DType::int64; }

}  // namespace tandem::exec::nccl
