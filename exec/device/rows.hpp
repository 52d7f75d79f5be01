#pragma once
// Rows kept in registers, so that each is loaded once: the threads per row and the elements per thread.

#include <cstdint>

#include "exec/device/chunk.hpp"

namespace tandem::exec::device {

/// A thread's k-th piece of a row; `i`: index of the piece among all threads' pieces.
struct Slot {
  int k;
  std::int64_t i;
};

/// Threads per row, and elements that each keeps; 0: the row is loaded again whenever it is needed.
struct RowPlan {
  int team = 0, kept = 0;

  constexpr bool keeps() const { return team > 0; }
  constexpr std::int64_t rows_of_block() const { return keeps() ? kThreads / team : 1; }
};

/// `may`: elements can be loaded 16 bytes at a time.
constexpr RowPlan row_plan(std::int64_t cols, Form form, bool may) {
  const int lanes = lanes_of(form);
  if (form == Form::doubles || !may || cols % lanes != 0) return {};
  constexpr RowPlan all[] = {{32, 8}, {32, 24}, {32, 32}, {256, 8}, {256, 16}, {256, 32}, {256, 64}};
  for (const RowPlan& p : all)
    if (cols <= p.team * p.kept) return p;
  return {};
}

/// A storage form with a row plan, as compile-time constants.
template <class S, int kTeam, int kKept>
struct RowForm {
  using Storage = S;
  static constexpr int kThreadsOfRow = kTeam, kPieces = kKept / kLanes<S>;
};
template <class S>
struct RowForm<S, 0, 0> {
  using Storage = S;
  static constexpr int kThreadsOfRow = 0, kPieces = 0;
};

/// Elements of a row that a thread keeps.
template <class Variant>
inline constexpr int kKept = Variant::kPieces * kLanes<typename Variant::Storage>;

/// Calls body(RowForm) for a form and a plan.
template <class F>
void with_rows(Form form, const RowPlan& plan, F body) {
  with_storage(form, [&](auto storage) {
    using S = decltype(storage);
    if constexpr (sizeof(typename S::Number) == sizeof(float)) {
      if (plan.team == 32 && plan.kept == 8) return body(RowForm<S, 32, 8>{});
      if (plan.team == 32 && plan.kept == 24) return body(RowForm<S, 32, 24>{});
      if (plan.team == 32) return body(RowForm<S, 32, 32>{});
      if (plan.kept == 8) return body(RowForm<S, 256, 8>{});
      if (plan.kept == 16) return body(RowForm<S, 256, 16>{});
      if (plan.kept == 32) return body(RowForm<S, 256, 32>{});
      if (plan.kept == 64) return body(RowForm<S, 256, 64>{});
    }
    return body(RowForm<S, 0, 0>{});
  });
}

/// Calls body(variant) with the class for the kernel's `run`.
template <class Kernel, class F>
void with_variant(const Kernel& kernel, F body) {
  if constexpr (requires { kernel.plan(); }) with_rows(kernel.form, kernel.plan(), body);
  else with_storage(kernel.form, body);
}

}  // namespace tandem::exec::device
