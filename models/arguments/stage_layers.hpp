#pragma once
// Functions of frameworks' tables: layers of pipeline chunks, and lists, as options say them.

#include <vector>

#include "models/base/json.hpp"

namespace tandem::arguments {

/// Functions of a framework's table. Layers are those of each chunk, in the order of a micro-batch.
///   stage_layers(layers, stages, chunks, first, last): the end stages have so many layers (null: as the others).
///   ends_as_layers(layers, stages, chunks, embedding, loss): embedding or loss count as a layer (true or false).
///   weighted_ends(layers, chunks, first, last): as equal as can be where the ends count as so many layers more.
///   more_behind_the_first(layers, chunks): equal chunks, those left over behind the first. small_letters("AbC").
///   costed_split(layers, stages, layer, head): as costed_split.hpp says.
///   largest_stage(layers, stages, v): of the stage with most. layers_named(lists): of chunks of modules' names. chunk_modules(layers,
///   first, last, head): these names; null where weighted_ends(..., first, last) says the same.
///   split_before(points, layers): of chunks that begin at layers' names, "layers.14"; split_behind: that end at them. cuts_behind(layers):
///   the names for split_behind; throws ConfigError if a chunk but the last has no layer.
///   layout_layers(text): as argument_text.hpp says. layout_text(layers, modules): the same backwards.
///   zeros_and_ones(n, all, every): "([0]*n+[1]*rest)"; listed(text): the list. comma_text(a, ...): "a,b".
///   whole_number("2"), text(2). list(a, ...): a list.
///   steps_of_samples, steps_of_tokens: as step_counts.hpp says.
///   composed_of(defaults): files that Hydra adds to this one. words("a,b c"): a list, a list as it is. has(object, name): whether it has the field. distinct(list): each value once.
///   appended(list, value): with the value behind it unless it is there.
///   layers_of_pattern, chunks_of_pattern, prediction_of_pattern, pattern_of_ratios, experts_of_pattern, pattern_of_layers,
///   ones_of_letters: as hybrid_pattern.hpp says.
///   power_of_two(n), exponent_of_two(x).
///   interleaved_group(stages, micro_batches): micro-batches that pass a chunk as one group, as models/schedule has it; null unless both count.
/// Throws ConfigError where the layers do not divide. Throws ContractError for another name.
nlohmann::json stage_call(const std::string& name, const std::vector<nlohmann::json>& arguments);

}  // namespace tandem::arguments
