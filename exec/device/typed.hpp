#pragma once
// Operands as device kernels see them, and access to their elements.

#include <cstddef>
#include <cstdint>

#include "exec/shared/hd.hpp"
#include "models/base/dtype.hpp"
#include "models/base/narrow.hpp"

namespace tandem::exec::device {

/// A device address and the element type there. nullptr: the operand is missing.
struct Typed {
  std::byte* address = nullptr;
  DType type = DType::fp32;

  constexpr bool here() const { return address != nullptr; }
};

/// Size in bytes of a part of an operation's scratch memory: `elements` elements, padded to a multiple of 256 bytes.
constexpr std::int64_t padded_bytes(DType type, std::int64_t elements) {
  return (bytes_of(type, elements).count() + 255) / 256 * 256;
}

template <class T>
constexpr T* as(const Typed& t) {
  return reinterpret_cast<T*>(t.address);
}

/// Loads element `i` as A. Types: fp64, fp32 (and tf32), bf16, fp16.
template <class A>
TANDEM_HD inline A load(const Typed& t, std::int64_t i) {
  switch (t.type) {
    case DType::fp64: return static_cast<A>(as<const double>(t)[i]);
    case DType::bf16: return static_cast<A>(from_bf16(as<const std::uint16_t>(t)[i]));
    case DType::fp16: return static_cast<A>(from_fp16(as<const std::uint16_t>(t)[i]));
    default: return static_cast<A>(as<const float>(t)[i]);
  }
}

/// Stores a value, rounded to nearest.
template <class A>
TANDEM_HD inline void store(const Typed& t, std::int64_t i, A value) {
  switch (t.type) {
    case DType::fp64: as<double>(t)[i] = static_cast<double>(value); break;
    case DType::bf16: as<std::uint16_t>(t)[i] = to_bf16(static_cast<float>(value)); break;
    case DType::fp16: as<std::uint16_t>(t)[i] = to_fp16(static_cast<float>(value)); break;
    default: as<float>(t)[i] = static_cast<float>(value);
  }
}

/// Stores a value. 16-bit types are rounded up or down by 32 random bits, others to nearest.
template <class A>
TANDEM_HD inline void store(const Typed& t, std::int64_t i, A value, std::uint32_t random) {
  if (t.type == DType::bf16)
    as<std::uint16_t>(t)[i] = to_bf16(static_cast<float>(value), random);
  else if (t.type == DType::fp16)
    as<std::uint16_t>(t)[i] = to_fp16(static_cast<float>(value), random);
  else
    store(t, i, value);
}

/// A kernel's arithmetic type, and whether its large operands all have one type that is known at compile time.
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

/// Calls body(storage) with the class above for a form.
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
