#!/bin/sh
# build.sh FOLDER: builds what run.sh needs, for x86-64 machines with a Hopper GPU, into FOLDER.
set -eu
cd "$(dirname "$0")/../.."
cmake -S . -B "$1" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTANDEM_CUDA=ON -DTANDEM_CPU_ARCH=x86-64-v3 \
  -DCMAKE_CUDA_ARCHITECTURES=90-real -DTANDEM_FETCH_CUDNN_FRONTEND=ON -DTANDEM_MPI=OFF -DTANDEM_GLOO=OFF -DTANDEM_ONEDNN=OFF
cmake --build "$1" --target tandem test_exec test_agree bench_device_kernels
for program in tandem test_exec test_agree bench_device_kernels; do strip "$1/$program"; done
git rev-parse HEAD > "$1/commit"
