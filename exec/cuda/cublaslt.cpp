#include "exec/cuda/cublaslt.hpp"

#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <iterator>
#include <system_error>

#include "models/base/error.hpp"

namespace tandem::exec::cuda {
namespace {

constexpr int kToolkitMajor = CUBLAS_VER_MAJOR;

void check_blas(cublasStatus_t code, const char* what) {
  if (code != CUBLAS_STATUS_SUCCESS)
    throw DeviceError(std::string("cuBLASLt: ") + what + ": status " + std::to_string(static_cast<int>(code)));
}

cudaDataType_t element(DType t) {
  switch (t) {
    case DType::fp64: return CUDA_R_64F;
    case DType::fp32: case DType::tf32: return CUDA_R_32F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::fp16: return CUDA_R_16F;
    case DType::fp8: return CUDA_R_8F_E4M3;
    default: throw ContractError("cuBLASLt has no element type for this one");
  }
}

cublasComputeType_t arithmetic(DType t) {
  if (t == DType::fp64) return CUBLAS_COMPUTE_64F;
  return t == DType::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

/// The epilogue that a shape needs. `sums` belong to the second operand: a bias gradient comes with its weight's gradient.
/// DGELU_BGRAD is not used, because it would sum in the activations' narrow type.
cublasLtEpilogue_t epilogue(const GemmShape& s) {
  switch (s.activation) {
    case ProductActivation::none:
      if (s.sums) return CUBLASLT_EPILOGUE_BGRADB;
      return s.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case ProductActivation::gelu: return s.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case ProductActivation::gelu_gradient: return CUBLASLT_EPILOGUE_DGELU;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

/// True if cuBLASLt has an epilogue for the whole shape and cublasLt.h's rule for the stride of the stored activation input holds.
/// In fp64 its GELU is accurate to 3e-9 only (H100, cuBLASLt 13.1, 2026-11-26).
bool has_epilogue(const GemmShape& s) {
  constexpr std::int64_t kBesideMultiple = 8;
  if (s.activation == ProductActivation::none) return !(s.bias && s.sums);
  if (s.type == DType::fp64) return false;
  const bool gradient_of_bias = s.activation == ProductActivation::gelu_gradient && s.bias;
  return !s.sums && !gradient_of_bias && s.batch == 1 && s.out.ld % kBesideMultiple == 0;
}

std::string version_text(std::size_t v) {  // 130102 is 13.1.2
  return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100);
}

}  // namespace

CublasLt::CublasLt() : library_("libcublasLt.so." + std::to_string(kToolkitMajor)) {
  if (!library_) throw DeviceError("cuBLASLt cannot be loaded: " + library_.problem() + "; install it or set LD_LIBRARY_PATH");
  const auto load = [this](auto& f, const char* name) { f = library_.get<std::decay_t<decltype(f)>>(name); };
  load(matmul, "cublasLtMatmul");
  load(heuristic, "cublasLtMatmulAlgoGetHeuristic");
  load(create_operation, "cublasLtMatmulDescCreate");
  load(destroy_operation, "cublasLtMatmulDescDestroy");
  load(set_operation, "cublasLtMatmulDescSetAttribute");
  load(create_layout, "cublasLtMatrixLayoutCreate");
  load(destroy_layout, "cublasLtMatrixLayoutDestroy");
  load(set_layout, "cublasLtMatrixLayoutSetAttribute");
  load(create_preference, "cublasLtMatmulPreferenceCreate");
  load(destroy_preference, "cublasLtMatmulPreferenceDestroy");
  load(set_preference, "cublasLtMatmulPreferenceSetAttribute");
  load(check_algorithm, "cublasLtMatmulAlgoCheck");
  check_blas(library_.get<decltype(&cublasLtCreate)>("cublasLtCreate")(&handle_), "creating a handle");
}

CublasLt::~CublasLt() { library_.get<decltype(&cublasLtDestroy)>("cublasLtDestroy")(handle_); }

std::string CublasLt::version() const {
  return version_text(library_.get<decltype(&cublasLtGetVersion)>("cublasLtGetVersion")());
}

/// The cuBLASLt descriptors of one product.
struct Gemm::Plan {
  const CublasLt& lt;
  GemmShape shape;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, out = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  Choice choice;

  Plan(const CublasLt& l, const GemmShape& s, const Choice& c) : lt(l), shape(s), choice(c) {
    check_blas(lt.create_operation(&operation, arithmetic(s.type), s.type == DType::fp64 ? CUDA_R_64F : CUDA_R_32F), "describing a product");
    set(CUBLASLT_MATMUL_DESC_TRANSA, s.first.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, s.second.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (s.does_more()) set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue(s));
    // The heuristic reads alignments from these addresses; it does not dereference them.
    if (s.bias || s.sums) {
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(element(s.result)));
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<void*>(static_cast<std::uintptr_t>(c.vector_alignment)));
    }
    if (s.activation != ProductActivation::none) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, s.out.ld);
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, reinterpret_cast<void*>(static_cast<std::uintptr_t>(c.alignment)));
    }
    if (s.fast_sum) set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
    if (s.type == DType::fp8) {
      set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, s.scale);
      set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, s.scale);
    }
    first = layout(s.first, s.type);
    second = layout(s.second, s.type);
    out = layout(s.out, s.result);
  }
  ~Plan() {
    lt.destroy_operation(operation);
    for (auto l : {first, second, out}) lt.destroy_layout(l);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  template <class T>
  void set(cublasLtMatmulDescAttributes_t key, T value) {
    check_blas(lt.set_operation(operation, key, &value, sizeof value), "setting an attribute of a product");
  }
  cublasLtMatrixLayout_t layout(const Stored& m, DType type) {
    cublasLtMatrixLayout_t l = nullptr;
    check_blas(lt.create_layout(&l, element(type), static_cast<std::uint64_t>(m.rows), static_cast<std::uint64_t>(m.cols), m.ld),
               "describing a matrix");
    if (shape.batch > 1) {
      const auto count = static_cast<std::int32_t>(shape.batch);
      check_blas(lt.set_layout(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), "describing a batch");
      check_blas(lt.set_layout(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m.stride, sizeof m.stride), "describing a batch");
    }
    return l;
  }
  /// The caller frees it.
  cublasLtMatmulPreference_t preference() const {
    cublasLtMatmulPreference_t made = nullptr;
    check_blas(lt.create_preference(&made), "creating a preference");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t key, auto value) {
      check_blas(lt.set_preference(made, key, &value, sizeof value), "setting a preference");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, choice.workspace);
    for (const auto key : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                           CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      prefer(key, choice.alignment);
    if (choice.whole_sums)
      prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    return made;
  }
  std::vector<Algorithm> algorithms(int most) const {
    const cublasLtMatmulPreference_t wanted = preference();
    std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
    int found = 0;
    const cublasStatus_t code = lt.heuristic(lt.handle(), operation, first, second, out, out, wanted, most, results.data(), &found);
    lt.destroy_preference(wanted);
    std::vector<Algorithm> all;
    for (int i = 0; code == CUBLAS_STATUS_SUCCESS && i < found; ++i)
      if (const auto& r = results[static_cast<std::size_t>(i)]; r.state == CUBLAS_STATUS_SUCCESS) all.push_back(r.algo);
    return all;
  }
  bool can_use(const Algorithm& a) const {
    cublasLtMatmulHeuristicResult_t result{};
    const cublasStatus_t code = lt.check_algorithm(lt.handle(), operation, first, second, out, out, &a, &result);
    return code == CUBLAS_STATUS_SUCCESS && result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= choice.workspace;
  }
};

Gemm::Gemm(std::unique_ptr<Plan> plan) : plan_(std::move(plan)) {}
Gemm::Gemm(Gemm&&) noexcept = default;
Gemm& Gemm::operator=(Gemm&&) noexcept = default;
Gemm::~Gemm() = default;

std::optional<Gemm> Gemm::make(const CublasLt& lt, const GemmShape& shape, const Choice& choice) {
  if (!has_epilogue(shape)) return std::nullopt;
  auto plan = std::make_unique<Plan>(lt, shape, choice);
  const auto found = plan->algorithms(1);
  if (found.empty()) return std::nullopt;
  plan->algorithm = found.front();
  return Gemm(std::move(plan));
}

std::vector<Gemm::Algorithm> Gemm::algorithms(int most) const { return plan_->algorithms(most); }

const Gemm::Algorithm& Gemm::algorithm() const { return plan_->algorithm; }

bool Gemm::use(const Algorithm& algorithm) {
  if (!plan_->can_use(algorithm)) return false;
  plan_->algorithm = algorithm;
  return true;
}

void Gemm::run(const Operands& o, cudaStream_t s) {
  Plan& p = *plan_;
  if (p.shape.bias || p.shape.sums) p.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, o.vector);
  if (p.shape.activation != ProductActivation::none) p.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, o.beside);
  const double alpha64 = o.alpha, beta64 = p.shape.accumulate ? 1 : 0;
  const auto alpha32 = static_cast<float>(alpha64), beta32 = static_cast<float>(beta64);
  const bool wide = p.shape.type == DType::fp64;
  const void* alpha = wide ? static_cast<const void*>(&alpha64) : &alpha32;
  const void* beta = wide ? static_cast<const void*>(&beta64) : &beta32;
  check_blas(p.lt.matmul(p.lt.handle(), p.operation, alpha, o.first, p.first, o.second, p.second, beta, o.out, p.out, o.out,
                         p.out, &p.algorithm, o.workspace, o.workspace_bytes, s),
             "multiplying");
}

std::string text_of(const Gemm::Algorithm& algorithm) {
  std::string out;
  for (const std::uint64_t word : algorithm.data) {
    char hex[17];
    std::snprintf(hex, sizeof hex, "%016" PRIx64, word);
    out += hex;
  }
  return out;
}

std::optional<Gemm::Algorithm> algorithm_of(const std::string& text) {
  constexpr std::size_t kDigits = 16;
  Gemm::Algorithm algorithm{};
  if (text.size() != kDigits * std::size(algorithm.data)) return std::nullopt;
  for (std::size_t i = 0; i < std::size(algorithm.data); ++i) {
    const char* begin = text.data() + i * kDigits;
    const auto [end, error] = std::from_chars(begin, begin + kDigits, algorithm.data[i], 16);
    if (error != std::errc() || end != begin + kDigits) return std::nullopt;
  }
  return algorithm;
}

}  // namespace tandem::exec::cuda
