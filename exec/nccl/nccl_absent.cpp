// Replaces exec/nccl in builds without the CUDA toolkit or without nccl.h.
#include "exec/nccl/nccl.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

[[noreturn]] void refuse() {
  throw InfeasibleError(Problem{"", "--comm", "nccl", "this build has no NCCL", "build where the CUDA toolkit and nccl.h are, or use --comm staged"});
}

}  // namespace

void require_nccl(const std::string&) { refuse(); }

std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(World&, const NcclOptions&) { refuse(); }

}  // namespace tandem::exec
