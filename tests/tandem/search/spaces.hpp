#pragma once
// Spaces that tests search, and what simulating every candidate says of them.

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiments/tandem/search/search.hpp"

namespace tandem::tests {

struct Asked {
  std::string model, cluster;
  std::int64_t devices = 8, batch = 32;
  std::vector<std::string> axes;
  std::int64_t sequence = 1024;
};

search::Space space_of(const Asked& a, const std::string& stack = "");

/// Small spaces of dense plans, plans whose weights are sharded too, and experts; in the last two what is computed again varies.
const std::vector<Asked>& small_spaces();

/// Sets of modules that Megatron-LM computes again in mixtures.
extern const char* const kMixedSets;

/// The file of a mixture whose rows take a while to travel.
extern const char* const kMixture;

/// The least time of a plan that fits, every candidate simulated by itself, ps; 0 where none does.
std::int64_t brute_force(const search::Space& space, const search::Judge& judge);

/// The times of the fastest candidates that fit, every one simulated, without those whose step is another's.
std::vector<std::int64_t> fastest(const search::Space& space, const search::Judge& judge, std::size_t rows);

/// Checks that the Pareto front over time and memory is the one that simulating every candidate finds.
void check_front(const search::Space& space);

search::SearchOptions options(std::int64_t best = 3);

/// Checks that the first of `best` rows of a search is within half a percent of brute_force, and no better; that both find a plan or
/// neither does. Returns whether they do.
bool check_beside_brute_force(const search::Space& space, std::int64_t best = 3);

}  // namespace tandem::tests
