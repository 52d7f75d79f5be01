#include "models/base/dtype.hpp"

#include <array>

#include "models/base/error.hpp"

namespace tandem {
namespace {

struct Named {
  DType type;
  std::string_view name;
};

constexpr std::array kNames{Named{DType::fp64, "fp64"},   Named{DType::fp32, "fp32"},   Named{DType::tf32, "tf32"},
                            Named{DType::bf16, "bf16"},   Named{DType::fp16, "fp16"},   Named{DType::fp8, "fp8"},
                            Named{DType::fp8_block, "fp8_block"}, Named{DType::mxfp8, "mxfp8"}, Named{DType::nvfp4, "nvfp4"},
                            Named{DType::nf4, "nf4"},     Named{DType::nf4_double, "nf4_double"}, Named{DType::dynamic8, "dynamic8"},
                            Named{DType::int32, "int32"}, Named{DType::int64, "int64"}};

}  // namespace

std::string_view name(DType t) {
  for (const Named& n : kNames) {
    if (n.type == t) return n.name;
  }
  throw ContractError("DType without a name");
}

std::optional<DType> dtype_from_name(std::string_view s) {
  for (const Named& n : kNames) {
    if (n.name == s) return n.type;
  }
  return std::nullopt;
}

}  // namespace tandem
