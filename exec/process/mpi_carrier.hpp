#pragma once
// A carrier over MPI.

#include <memory>

#include "exec/process/carrier.hpp"

namespace tandem::exec {

/// Joins the processes that mpirun or srun started. Blocking. Throws CommError if MPI cannot start, and InfeasibleError in a build
/// without MPI.
std::unique_ptr<Carrier> make_mpi_carrier();

}  // namespace tandem::exec
