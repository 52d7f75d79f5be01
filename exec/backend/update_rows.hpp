#pragma once
// Parameter pieces by optimizer update. Where optimizer states are offloaded, each offloaded unit has its own update.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "exec/backend/launch.hpp"
#include "exec/backend/piece_row.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {

struct UpdateRows {
  std::int32_t unit = -1;      ///< KernelContext::layer of that update; -1: the update of all states on the device
  std::vector<PieceRow> rows;  ///< ascending
};

/// A backend's pieces, converted to the form its kernels need: all of them, and those of each separate update.
template <class Form>
struct PieceForms {
  Form all{};
  std::vector<std::pair<std::int32_t, Form>> updates{};  ///< by unit

  const Form& of(const Launch& launch) const {
    if (updates.empty() || !std::holds_alternative<AdamW>(launch.op)) return all;
    const auto mine = std::find_if(updates.begin(), updates.end(), [&](const auto& u) { return u.first == launch.context.layer; });
    require(mine != updates.end(), "an update of a unit whose pieces nobody named");
    return mine->second;
  }
};

}  // namespace tandem::exec
