// cuBLASLt for tests: the functions that exec/cuda opens, on the host's memory in the order of streams. A sum has one order and is
// rounded once, so a product has the bits of tests/emulated. Refuses what cublasLt.h forbids and Tandem could do.
#include <cublasLt.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#include <stdexcept>
#include <vector>

#include "exec/device/typed.hpp"
#include "tests/hostcuda/runtime/issue.hpp"
#include "tests/hostcuda/runtime/settings.hpp"

namespace {

using namespace tandem;
using exec::device::Typed;

struct Operation {
  cublasComputeType_t arithmetic;
  cudaDataType_t scale;
  std::int32_t transposes_a = CUBLAS_OP_N, transposes_b = CUBLAS_OP_N, bias_type = -1;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::byte *vector = nullptr, *beside = nullptr;
  std::int64_t beside_ld = 0;
};

struct Layout {
  cudaDataType_t type;
  std::int64_t rows, cols, ld, stride = 0;
  std::int32_t batch = 1;
};

struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t alignment_a = 256, alignment_b = 256, alignment_c = 256, alignment_d = 256;
};

/// What an algorithm was chosen for: the rest of the product must keep to it.
struct Algorithm {
  std::uint64_t mark, index, alignment, vector_alignment, beside_alignment;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

constexpr std::uint64_t kMark = 0x74616e64656d;
constexpr std::uint64_t kAlgorithms = 3, kWorkspaceEach = 1 << 16;

template <class T>
cublasStatus_t assign(T& to, const void* from, std::size_t bytes) {
  if (bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

bool known(cudaDataType_t t, DType& type) {
  switch (t) {
    case CUDA_R_64F: type = DType::fp64; return true;
    case CUDA_R_32F: type = DType::fp32; return true;
    case CUDA_R_16BF: type = DType::bf16; return true;
    case CUDA_R_16F: type = DType::fp16; return true;
    default: return false;
  }
}

std::uint64_t divisor(const void* p) {
  const auto bits = reinterpret_cast<std::uint64_t>(p) | 256;
  return bits & (~bits + 1);
}

bool has(std::uint32_t epilogue, std::initializer_list<cublasLtEpilogue_t> any) {
  return std::any_of(any.begin(), any.end(), [&](auto e) { return static_cast<std::uint32_t>(e) == epilogue; });
}

constexpr auto kBiases = {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS};
constexpr auto kActivations = {CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU};

struct Asked {
  const Operation& op;
  const Layout &a, &b, &d;

  bool ta() const { return op.transposes_a == CUBLAS_OP_T; }
  bool tb() const { return op.transposes_b == CUBLAS_OP_T; }
  std::int64_t m() const { return ta() ? a.cols : a.rows; }
  std::int64_t n() const { return tb() ? b.rows : b.cols; }
  std::int64_t k() const { return ta() ? a.rows : a.cols; }
  bool sums() const { return has(op.epilogue, {CUBLASLT_EPILOGUE_BGRADB}); }

  bool fits() const {
    for (const Layout* l : {&a, &b, &d})
      if (l->rows <= 0 || l->cols <= 0 || l->ld < l->rows || l->batch != d.batch) return false;
    return d.rows == m() && d.cols == n() && (tb() ? b.cols : b.rows) == k();
  }
  /// True if this library has a kernel: types of one width for sums, and an epilogue that the test's settings allow.
  bool supported() const {
    DType in{}, other{}, out{};
    if (!known(a.type, in) || !known(b.type, other) || !known(d.type, out) || in != other) return false;
    const auto allowed = hostcuda::settings().epilogues;
    if (op.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return true;
    if (allowed == hostcuda::Epilogues::none) return false;
    if (op.epilogue == CUBLASLT_EPILOGUE_BIAS) return true;
    const bool narrow_beside = has(op.epilogue, kActivations) && (op.beside_ld % 8 != 0 || d.batch != 1);
    return allowed == hostcuda::Epilogues::all && !narrow_beside && (sums() || has(op.epilogue, kActivations));
  }
};

/// A matrix of a batch in fp64, column by column of what op() makes of it.
std::vector<double> read(const Typed& at, const Layout& l, bool transposed, std::int64_t batch, bool tf32) {
  std::vector<double> all(static_cast<std::size_t>(l.rows * l.cols));
  for (std::int64_t c = 0; c < l.cols; ++c)
    for (std::int64_t r = 0; r < l.rows; ++r) {
      double value = exec::device::load<double>(at, batch * l.stride + c * l.ld + r);
      if (tf32 && std::isfinite(value)) {  // 10 of 23 bits of the mantissa, to nearest even
        const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
        value = std::bit_cast<float>((bits + 0xfff + (bits >> 13 & 1)) & ~std::uint32_t{0x1fff});
      }
      all[static_cast<std::size_t>(transposed ? r * l.cols + c : c * l.rows + r)] = value;
    }
  return all;
}

double rounded(double value, DType type) {
  switch (type) {
    case DType::fp64: return value;
    case DType::bf16: return from_bf16(to_bf16(static_cast<float>(value)));
    case DType::fp16: return from_fp16(to_fp16(static_cast<float>(value)));
    default: return static_cast<float>(value);
  }
}

/// GELU's tanh form.
double gelu(double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))); }

double gelu_derivative(double x) {
  const double slope = std::sqrt(2 / std::numbers::pi), t = std::tanh(slope * (x + 0.044715 * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * slope * (1 + 3 * 0.044715 * x * x);
}

struct Addresses {
  const std::byte *a, *b;
  std::byte* d;
  double alpha, beta;
};

/// One product of a batch, with what follows it.
void multiply(const Operation& op, const Layout& a, const Layout& b, const Layout& d, const Addresses& at, std::int64_t batch) {
  const Asked p{op, a, b, d};
  DType in{}, out{};
  known(a.type, in), known(d.type, out);
  const bool tf32 = op.arithmetic == CUBLAS_COMPUTE_32F_FAST_TF32;
  const auto first = read({const_cast<std::byte*>(at.a), in}, a, p.ta(), batch, tf32);   // columns of m
  const auto second = read({const_cast<std::byte*>(at.b), in}, b, p.tb(), batch, tf32);  // columns of k
  const auto m = static_cast<std::size_t>(p.m()), n = static_cast<std::size_t>(p.n()), k = static_cast<std::size_t>(p.k());
  const Typed to{at.d, out}, vector{op.vector, out}, beside{op.beside, out};
  const bool wide = in == DType::fp64, biased = has(op.epilogue, kBiases), gradient = has(op.epilogue, {CUBLASLT_EPILOGUE_DGELU});
  const bool activates = has(op.epilogue, kActivations) && !gradient;
  std::vector<double> column(m);
  for (std::size_t c = 0; c < n; ++c) {
    std::fill(column.begin(), column.end(), 0);
    for (std::size_t j = 0; j < k; ++j)
      for (std::size_t r = 0; r < m; ++r) column[r] += first[j * m + r] * second[c * k + j];
    for (std::size_t r = 0; r < m; ++r) {
      const std::int64_t where = batch * d.stride + static_cast<std::int64_t>(c) * d.ld + static_cast<std::int64_t>(r);
      const std::int64_t side = static_cast<std::int64_t>(c) * op.beside_ld + static_cast<std::int64_t>(r);
      double value = wide ? at.alpha * column[r] : static_cast<double>(static_cast<float>(at.alpha * column[r]));
      if (at.beta != 0) value += at.beta * exec::device::load<double>(to, where);
      if (biased) value += exec::device::load<double>(vector, static_cast<std::int64_t>(r));
      if (gradient) value *= gelu_derivative(exec::device::load<double>(beside, side));
      if (activates) {
        exec::device::store(beside, side, value);
        value = gelu(rounded(value, out));
      }
      exec::device::store(to, where, value);
    }
    if (!p.sums()) continue;
    double sum = 0;
    for (std::size_t j = 0; j < k; ++j) sum += second[c * k + j];
    exec::device::store(vector, static_cast<std::int64_t>(c), sum);
  }
}

/// Writes its name into the workspace while a product runs, and finds it changed if another product has the same one meanwhile.
class Claim {
 public:
  Claim(void* workspace, std::size_t bytes)
      : at_(bytes >= sizeof(std::uint64_t) ? static_cast<std::uint64_t*>(workspace) : nullptr) {
    static std::atomic<std::uint64_t> made = 0;
    name_ = made.fetch_add(1, std::memory_order_relaxed);
    if (at_ != nullptr) *at_ = name_;
  }
  void end() const {
    if (at_ != nullptr && *at_ != name_) throw std::logic_error("two products use one workspace at the same time");
  }

 private:
  std::uint64_t *at_, name_;
};

std::size_t bytes_of(const Layout& l) {
  DType type{};
  known(l.type, type);
  const std::int64_t elements = (l.batch - 1) * l.stride + (l.cols - 1) * l.ld + l.rows;
  return static_cast<std::size_t>(tandem::bytes_of(type, elements).count());
}

template <class Opaque, class T>
T& as(Opaque* o) {
  return *reinterpret_cast<T*>(o);
}
Operation& of(cublasLtMatmulDesc_t d) { return as<cublasLtMatmulDescOpaque_t, Operation>(d); }
Layout& of(cublasLtMatrixLayout_t l) { return as<cublasLtMatrixLayoutOpaque_t, Layout>(l); }
Preference& of(cublasLtMatmulPreference_t p) { return as<cublasLtMatmulPreferenceOpaque_t, Preference>(p); }

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int(0));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
std::size_t cublasLtGetVersion() { return CUBLAS_VER_MAJOR * 10000 + CUBLAS_VER_MINOR * 100; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t arithmetic, cudaDataType_t scale) {
  *made = reinterpret_cast<cublasLtMatmulDesc_t>(new Operation{arithmetic, scale});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  delete &of(d);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t key, const void* value,
                                              std::size_t bytes) {
  Operation& op = of(d);
  switch (key) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return assign(op.transposes_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return assign(op.transposes_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return assign(op.epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return assign(op.bias_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return assign(op.vector, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return assign(op.beside_ld, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return assign(op.beside, value, bytes);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type, std::uint64_t rows, std::uint64_t cols,
                                          std::int64_t ld) {
  if (rows == 0 || cols == 0) return CUBLAS_STATUS_INVALID_VALUE;
  *made = reinterpret_cast<cublasLtMatrixLayout_t>(
      new Layout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols), ld});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  delete &of(l);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t key, const void* value,
                                                std::size_t bytes) {
  if (key == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return assign(of(l).batch, value, bytes);
  if (key == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) return assign(of(l).stride, value, bytes);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  delete &of(p);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref, cublasLtMatmulPreferenceAttributes_t key,
                                                    const void* value, std::size_t bytes) {
  Preference& p = of(pref);
  std::uint32_t scheme = 0;
  switch (key) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return assign(p.workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return assign(p.alignment_a, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return assign(p.alignment_b, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return assign(p.alignment_c, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return assign(p.alignment_d, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return assign(scheme, value, bytes);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t out,
                                              cublasLtMatmulPreference_t pref, int most, cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  const Asked p{of(d), of(a), of(b), of(out)};
  const Preference& wanted = of(pref);
  *found = 0;
  if (!p.fits()) return CUBLAS_STATUS_INVALID_VALUE;
  if (!p.supported()) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto alignment = std::min({wanted.alignment_a, wanted.alignment_b, wanted.alignment_c, wanted.alignment_d});
  for (std::uint64_t i = 0; i < kAlgorithms && *found < most && i * kWorkspaceEach <= wanted.workspace; ++i) {
    cublasLtMatmulHeuristicResult_t& r = results[(*found)++];
    r = {};
    const Algorithm made{kMark, i, alignment, divisor(p.op.vector), divisor(p.op.beside)};
    std::memcpy(&r.algo, &made, sizeof made);
    r.workspaceSize = i * kWorkspaceEach;
    r.state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t out, const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* result) {
  const Asked p{of(d), of(a), of(b), of(out)};
  Algorithm chosen{};
  std::memcpy(&chosen, algo, sizeof chosen);
  if (chosen.mark != kMark || chosen.index >= kAlgorithms || !p.fits() || !p.supported()) return CUBLAS_STATUS_INVALID_VALUE;
  *result = {};
  result->algo = *algo;
  result->workspaceSize = chosen.index * kWorkspaceEach;
  result->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* first,
                              cublasLtMatrixLayout_t a, const void* second, cublasLtMatrixLayout_t b, const void* beta,
                              const void* c, cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t out,
                              const cublasLtMatmulAlgo_t* algo, void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  const Operation op = of(desc);  // copies: the caller may change or destroy its own at once
  const Layout la = of(a), lb = of(b), ld = of(out);
  Algorithm chosen{};
  std::memcpy(&chosen, algo, sizeof chosen);
  if (chosen.mark != kMark || c != d || !Asked{op, la, lb, ld}.fits()) return CUBLAS_STATUS_INVALID_VALUE;
  if (chosen.index * kWorkspaceEach > workspace_bytes) return CUBLAS_STATUS_INVALID_VALUE;
  const auto placed = [](const void* at, std::uint64_t alignment, std::size_t bytes) {
    return divisor(at) >= alignment && hostcuda::on_device(at, bytes);
  };
  const bool wide = op.scale == CUDA_R_64F;
  const auto scalar = [&](const void* s) { return wide ? *static_cast<const double*>(s) : *static_cast<const float*>(s); };
  if (!placed(first, chosen.alignment, bytes_of(la)) || !placed(second, chosen.alignment, bytes_of(lb)) ||
      !placed(d, chosen.alignment, bytes_of(ld)) || !hostcuda::on_device(workspace, workspace_bytes))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (op.vector != nullptr && divisor(op.vector) < chosen.vector_alignment) return CUBLAS_STATUS_INVALID_VALUE;
  if (op.beside != nullptr && divisor(op.beside) < chosen.beside_alignment) return CUBLAS_STATUS_INVALID_VALUE;
  const Addresses at{static_cast<const std::byte*>(first), static_cast<const std::byte*>(second), static_cast<std::byte*>(d),
                     scalar(alpha), scalar(beta)};
  const cudaError_t code = hostcuda::issue(stream, [=] {
    const Claim claim(workspace, workspace_bytes);
    for (std::int64_t batch = 0; batch < ld.batch; ++batch) multiply(op, la, lb, ld, at, batch);
    claim.end();
  });
  return code == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
