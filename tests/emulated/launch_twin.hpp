#pragma once
// Stands for exec/cuda/launch.cuh where works_*.cu are compiled for the host, so that both have one list of kernels.

#include "tests/emulated/perform.hpp"

/// Instantiates perform_kernel() for a kernel.
#define TANDEM_LAUNCH(Kernel) template void tandem::tests::perform_kernel(const tandem::exec::device::Kernel&)
