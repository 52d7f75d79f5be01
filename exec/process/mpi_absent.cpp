// Compiled instead of mpi_carrier.cpp if MPI was not found.
#include "exec/process/mpi_carrier.hpp"

namespace tandem::exec {

std::unique_ptr<Carrier> make_mpi_carrier() {
  throw InfeasibleError(Problem{"", "--launch", "mpi", "this program was built without MPI",
                                "install an MPI (Debian: libopenmpi-dev, openmpi-bin) and build again"});
}

}  // namespace tandem::exec
