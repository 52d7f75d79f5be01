#pragma once
// Ranks of a plan that follow from what it says: parallel.data, or cluster.devices.

#include <string>

#include "models/fields/plan_fields.hpp"

namespace tandem::program {

/// parallel.data or cluster.devices, if the plan leaves it out, and its derivation: "cluster.devices 256 / (tensor 8 x pipeline 4 x
/// context 1) = 8". Both texts are empty if the plan gives both fields.
struct DerivedRanks {
  std::string field, from;
};
DerivedRanks derived_ranks(const Plan& plan, const Given& given);

/// The fields that a plan file's text and its presets spell out. Throws as read_draft() does.
Given given_fields(const std::string& text, const std::string& path);

}  // namespace tandem::program
