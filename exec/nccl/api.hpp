#pragma once
// NCCL's functions, opened at run time.

#include <nccl.h>

#include <string>

#include "exec/cuda/library.hpp"
#include "models/base/dtype.hpp"
#include "models/ops/communication.hpp"

namespace tandem::exec::nccl {

/// Throws InfeasibleError if the library is not found, or older than 2.18, the first version with all functions used here.
class Api {
 public:
  explicit Api(const std::string& file = "libnccl.so.2");

 private:
  cuda::Library library_;
  const cuda::Library* checked_;  ///< checks the version before any function is looked up
  template <class F>
  F* get(const char* name) const {
    return library_.get<F*>(name);
  }

 public:
#define TANDEM_NCCL(name) decltype(::nccl##name)* name = get<decltype(::nccl##name)>("nccl" #name)
  TANDEM_NCCL(GetErrorString);
  TANDEM_NCCL(GetLastError);
  TANDEM_NCCL(GetUniqueId);
  TANDEM_NCCL(CommInitRankConfig);
  TANDEM_NCCL(CommSplit);
  TANDEM_NCCL(CommAbort);
  TANDEM_NCCL(CommGetAsyncError);
  TANDEM_NCCL(GroupStart);
  TANDEM_NCCL(GroupEnd);
  TANDEM_NCCL(Send);
  TANDEM_NCCL(Recv);
  TANDEM_NCCL(AllReduce);
  TANDEM_NCCL(ReduceScatter);
  TANDEM_NCCL(AllGather);
  TANDEM_NCCL(Broadcast);
#undef TANDEM_NCCL
};

/// Throws ContractError if NCCL cannot reduce elements of this type.
ncclDataType_t type_of(DType type);
ncclRedOp_t operation_of(Reduce reduce);
bool whole_numbers(DType type);

}  // namespace tandem::exec::nccl
