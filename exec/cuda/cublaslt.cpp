#include "exec/cuda/cublaslt.hpp"

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
  check_blas(library_.get<decltype(&cublasLtCreate)>("cublasLtCreate")(&handle_), "creating a handle");
}

CublasLt::~CublasLt() { library_.get<decltype(&cublasLtDestroy)>("cublasLtDestroy")(handle_); }

std::string CublasLt::version() const {
  return version_text(library_.get<decltype(&cublasLtGetVersion)>("cublasLtGetVersion")());
}

/// The descriptors of one product, owned.
struct Gemm::Plan {
  const CublasLt& lt;
  GemmShape shape;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, out = nullptr;
  cublasLtMatmulAlgo_t algorithm{};

  Plan(const CublasLt& l, const GemmShape& s) : lt(l), shape(s) {
    check_blas(lt.create_operation(&operation, arithmetic(s.type), s.type == DType::fp64 ? CUDA_R_64F : CUDA_R_32F), "describing a product");
    set(CUBLASLT_MATMUL_DESC_TRANSA, s.first.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, s.second.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (s.bias) set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    if (s.sums) set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BGRADB);
    if (s.bias || s.sums) set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(element(s.result)));
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
  /// Freed by its owner.
  cublasLtMatmulPreference_t preference_of(const Choice& choice) const {
    cublasLtMatmulPreference_t preference = nullptr;
    check_blas(lt.create_preference(&preference), "creating a preference");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t key, auto value) {
      check_blas(lt.set_preference(preference, key, &value, sizeof value), "setting a preference");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, choice.workspace);
    for (const auto key : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                           CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      prefer(key, choice.alignment);
    if (choice.whole_sums)
      prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    return preference;
  }
  bool find_algorithm(const Choice& choice) {
    const cublasLtMatmulPreference_t preference = preference_of(choice);
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    const cublasStatus_t code = lt.heuristic(lt.handle(), operation, first, second, out, out, preference, 1, &result, &found);
    lt.destroy_preference(preference);
    algorithm = result.algo;
    return code == CUBLAS_STATUS_SUCCESS && found > 0 && result.state == CUBLAS_STATUS_SUCCESS;
  }
};

Gemm::Gemm(std::unique_ptr<Plan> plan) : plan_(std::move(plan)) {}
Gemm::Gemm(Gemm&&) noexcept = default;
Gemm& Gemm::operator=(Gemm&&) noexcept = default;
Gemm::~Gemm() = default;

std::optional<Gemm> Gemm::make(const CublasLt& lt, const GemmShape& shape, const Choice& choice) {
  auto plan = std::make_unique<Plan>(lt, shape);
  if (!plan->find_algorithm(choice)) return std::nullopt;
  return Gemm(std::move(plan));
}

void Gemm::run(const Operands& o, cudaStream_t s) {
  Plan& p = *plan_;
  if (p.shape.bias || p.shape.sums) p.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, o.vector);
  const double alpha64 = o.alpha, beta64 = p.shape.accumulate ? 1 : 0;
  const auto alpha32 = static_cast<float>(alpha64), beta32 = static_cast<float>(beta64);
  const bool wide = p.shape.type == DType::fp64;
  const void* alpha = wide ? static_cast<const void*>(&alpha64) : &alpha32;
  const void* beta = wide ? static_cast<const void*>(&beta64) : &beta32;
  check_blas(p.lt.matmul(p.lt.handle(), p.operation, alpha, o.first, p.first, o.second, p.second, beta, o.out, p.out, o.out,
                         p.out, &p.algorithm, o.workspace, o.workspace_bytes, s),
             "multiplying");
}

}  // namespace tandem::exec::cuda
