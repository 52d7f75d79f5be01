#pragma once
// Command line arguments about searches of layouts.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tandem::program {

/// Adds --axis, whose texts search::read_axis() reads.
inline CLI::Option* add_axes(CLI::App& command, std::vector<std::string>& axes) {
  return command
      .add_option("--axis", axes,
                  "values of a plan field, \"tensor=1,2,4\"; may be given again for other fields. NAME is the last word of a field of parallel or "
                  "training: tensor, virtual_pipeline, token_dispatcher, micro_batch_size, flash_attention, recompute, ... VALUE is as in a "
                  "plan file, a list as JSON. For a field that is not searched by default, the axis widens the search")
      ->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->type_name("NAME=VALUE,...");
}

}  // namespace tandem::program
