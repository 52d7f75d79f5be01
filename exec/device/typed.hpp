#pragma once
// Operands as a device's kernels see them, and how they read and write elements.

#include <cstddef>
#include <cstdint>

#include "exec/shared/hd.hpp"
#include "models/base/dtype.hpp"
#include "models/base/narrow.hpp"

namespace tandem::exec::device {

/// An address of the device and the type of what lies there. Without an address: no such operand.
struct Typed {
  std::byte* address = nullptr;
  DType type = DType::fp32;

  constexpr bool here() const { return address != nullptr; }
};

template <class T>
constexpr T* as(const Typed& t) {
  return reinterpret_cast<T*>(t.address);
}

/// Element `i` in A. Types are fp64, fp32 (and tf32), bf16, fp16.
template <class A>
TANDEM_HD inline A load(const Typed& t, std::int64_t i) {
  switch (t.type) {
    case DType::fp64: return static_cast<A>(as<const double>(t)[i]);
    case DType::bf16: return static_cast<A>(from_bf16(as<const std::uint16_t>(t)[i]));
    case DType::fp16: return static_cast<A>(from_fp16(as<const std::uint16_t>(t)[i]));
    default: return static_cast<A>(as<const float>(t)[i]);
  }
}

/// Rounds to the nearest.
template <class A>
TANDEM_HD inline void store(const Typed& t, std::int64_t i, A value) {
  switch (t.type) {
    case DType::fp64: as<double>(t)[i] = static_cast<double>(value); break;
    case DType::bf16: as<std::uint16_t>(t)[i] = to_bf16(static_cast<float>(value)); break;
    case DType::fp16: as<std::uint16_t>(t)[i] = to_fp16(static_cast<float>(value)); break;
    default: as<float>(t)[i] = static_cast<float>(value);
  }
}

/// Rounds a number of 16 bits to the neighbour that 32 random bits choose, others to the nearest.
template <class A>
TANDEM_HD inline void store(const Typed& t, std::int64_t i, A value, std::uint32_t random) {
  if (t.type == DType::bf16)
    as<std::uint16_t>(t)[i] = to_bf16(static_cast<float>(value), random);
  else if (t.type == DType::fp16)
    as<std::uint16_t>(t)[i] = to_fp16(static_cast<float>(value), random);
  else
    store(t, i, value);
}

/// What a kernel computes in, and how it reads its large operands: their type is known at compile time where all of them have it.
enum class Form : std::uint8_t { doubles, floats, bf16, mixed };

template <class A>
struct AnyType {
  using Number = A;
  static TANDEM_HD A get(const Typed& t, std::int64_t i) { return load<A>(t, i); }
  static TANDEM_HD void put(const Typed& t, std::int64_t i, A value) { store(t, i, value); }
};
struct OnlyFloats {
  using Number = float;
  static TANDEM_HD float get(const Typed& t, std::int64_t i) { return as<const float>(t)[i]; }
  static TANDEM_HD void put(const Typed& t, std::int64_t i, float value) { as<float>(t)[i] = value; }
};
struct OnlyBf16 {
  using Number = float;
  static TANDEM_HD float get(const Typed& t, std::int64_t i) { return from_bf16(as<const std::uint16_t>(t)[i]); }
  static TANDEM_HD void put(const Typed& t, std::int64_t i, float value) { as<std::uint16_t>(t)[i] = to_bf16(value); }
};

/// body(storage) with the class above that a form means.
template <class F>
void with_storage(Form form, F body) {
  switch (form) {
    case Form::doubles: return body(AnyType<double>{});
    case Form::floats: return body(OnlyFloats{});
    case Form::bf16: return body(OnlyBf16{});
    case Form::mixed: return body(AnyType<float>{});
  }
}

}  // namespace tandem::exec::device
