#pragma once
// Marks functions that both the host's compiler and CUDA's compile. CUDA accepts constexpr functions unmarked
// (--expt-relaxed-constexpr); all others need TANDEM_HD.

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
