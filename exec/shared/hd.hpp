#pragma once
// Functions that both the host's compiler and CUDA's compile. CUDA's takes constexpr functions as they are
// (--expt-relaxed-constexpr); all others say TANDEM_HD.

#ifdef __CUDACC__
#define TANDEM_HD __host__ __device__
#define TANDEM_UNROLL _Pragma("unroll")
#define TANDEM_UNROLL_4 _Pragma("unroll 4")
#define TANDEM_UNROLL_8 _Pragma("unroll 8")
#else
#define TANDEM_HD
#define TANDEM_UNROLL _Pragma("GCC unroll 16")
#define TANDEM_UNROLL_4
#define TANDEM_UNROLL_8
#endif
