#pragma once
// Quantities as types: only products that mean something exist.
//   Bytes / Bandwidth -> Duration      Flops / FlopRate -> Duration
// Time is an integer count of picoseconds, so sums are exact and two runs are equal byte for byte.

#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>

namespace tandem {

/// Simulated or measured time: integer picoseconds (about 106 days fit).
class Duration {
 public:
  constexpr Duration() = default;
  static constexpr Duration picoseconds(std::int64_t ps) { return Duration(ps); }
  static constexpr Duration nanoseconds(std::int64_t ns) { return Duration(ns * 1000); }
  /// Nearest picosecond. Negative and non-finite values are a contract violation of the caller.
  static Duration seconds(double s) { return Duration(std::llround(s * 1e12)); }
  static constexpr Duration max() { return Duration(std::numeric_limits<std::int64_t>::max()); }

  constexpr std::int64_t ps() const { return ps_; }
  constexpr double seconds() const { return static_cast<double>(ps_) * 1e-12; }

  constexpr auto operator<=>(const Duration&) const = default;
  constexpr Duration& operator+=(Duration d) { ps_ += d.ps_; return *this; }
  constexpr Duration& operator-=(Duration d) { ps_ -= d.ps_; return *this; }
  friend constexpr Duration operator+(Duration a, Duration b) { return a += b; }
  friend constexpr Duration operator-(Duration a, Duration b) { return a -= b; }
  friend constexpr Duration operator*(Duration a, std::int64_t n) { return Duration(a.ps_ * n); }
  friend constexpr Duration operator*(std::int64_t n, Duration a) { return a * n; }

 private:
  explicit constexpr Duration(std::int64_t ps) : ps_(ps) {}
  std::int64_t ps_ = 0;
};

/// A size in bytes, exact.
class Bytes {
 public:
  constexpr Bytes() = default;
  explicit constexpr Bytes(std::int64_t n) : n_(n) {}
  constexpr std::int64_t count() const { return n_; }
  constexpr auto operator<=>(const Bytes&) const = default;
  constexpr Bytes& operator+=(Bytes b) { n_ += b.n_; return *this; }
  constexpr Bytes& operator-=(Bytes b) { n_ -= b.n_; return *this; }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return a += b; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return a -= b; }
  friend constexpr Bytes operator*(Bytes a, std::int64_t n) { return Bytes(a.n_ * n); }
  friend constexpr Bytes operator*(std::int64_t n, Bytes a) { return a * n; }

 private:
  std::int64_t n_ = 0;
};

/// Floating-point operations of one rank (one fused multiply-add counts 2), exact. Totals over a
/// cluster can pass 2^63: sum them as double.
class Flops {
 public:
  constexpr Flops() = default;
  explicit constexpr Flops(std::int64_t n) : n_(n) {}
  constexpr std::int64_t count() const { return n_; }
  constexpr auto operator<=>(const Flops&) const = default;
  constexpr Flops& operator+=(Flops f) { n_ += f.n_; return *this; }
  friend constexpr Flops operator+(Flops a, Flops b) { return a += b; }
  friend constexpr Flops operator*(Flops a, std::int64_t n) { return Flops(a.n_ * n); }
  friend constexpr Flops operator*(std::int64_t n, Flops a) { return a * n; }

 private:
  std::int64_t n_ = 0;
};

/// Bytes per second, one direction.
class Bandwidth {
 public:
  constexpr Bandwidth() = default;
  static constexpr Bandwidth bytes_per_second(double v) { return Bandwidth(v); }
  constexpr double bytes_per_second() const { return v_; }
  constexpr auto operator<=>(const Bandwidth&) const = default;
  friend constexpr Bandwidth operator*(Bandwidth b, double share) { return Bandwidth(b.v_ * share); }

 private:
  explicit constexpr Bandwidth(double v) : v_(v) {}
  double v_ = 0;
};

/// Floating-point operations per second.
class FlopRate {
 public:
  constexpr FlopRate() = default;
  static constexpr FlopRate flops_per_second(double v) { return FlopRate(v); }
  constexpr double flops_per_second() const { return v_; }
  constexpr auto operator<=>(const FlopRate&) const = default;
  friend constexpr FlopRate operator*(FlopRate r, double share) { return FlopRate(r.v_ * share); }

 private:
  explicit constexpr FlopRate(double v) : v_(v) {}
  double v_ = 0;
};

inline Duration operator/(Bytes b, Bandwidth w) {
  return Duration::seconds(static_cast<double>(b.count()) / w.bytes_per_second());
}
inline Duration operator/(Flops f, FlopRate r) {
  return Duration::seconds(static_cast<double>(f.count()) / r.flops_per_second());
}

}  // namespace tandem
