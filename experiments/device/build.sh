#!/bin/sh
# build.sh FOLDER [ARCHITECTURE]: builds what run.sh needs, for x86-64 machines with a GPU of CMake's ARCHITECTURE (90-real: Hopper), into
# FOLDER. FOLDER/programs.tar.xz holds all of it in a tenth of the size: the programs share most of their code.
set -eu
architecture="${2:-90-real}"
cd "$(dirname "$0")/../.."
trap '[ $? = 0 ] || echo "build.sh: failed. It needs the network, the CUDA toolkit and packages.txt, which a machine that only runs the parts
lacks: build elsewhere, copy programs.tar.xz, and give it to run.sh with --programs" >&2' EXIT
cmake -S . -B "$1" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTANDEM_CUDA=ON -DTANDEM_CPU_ARCH=x86-64-v3 \
  -DCMAKE_CUDA_ARCHITECTURES="$architecture" -DTANDEM_FETCH_CUDNN_FRONTEND=ON -DTANDEM_MPI=OFF -DTANDEM_GLOO=ON -DTANDEM_ONEDNN=OFF \
  -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags -DCMAKE_BUILD_RPATH='$ORIGIN/lib'
cmake --build "$1" --target tandem test_exec test_agree bench_device_kernels
for program in tandem test_exec test_agree bench_device_kernels; do strip "$1/$program"; done
# Gloo and what it needs travel beside the binaries; the C and C++ libraries are the machine's.
mkdir -p "$1/lib"
ldd "$1/tandem" | awk '/=> \// && !/lib(c|m|stdc\+\+|gcc_s)\.so/ {print $3}' | xargs -r -I {} cp -L {} "$1/lib/"
git rev-parse HEAD > "$1/commit"
echo "$architecture" > "$1/architecture"
tar -C "$1" -cf - tandem test_exec test_agree bench_device_kernels lib commit architecture | xz --lzma2=preset=6,dict=128MiB > "$1/programs.tar.xz"
