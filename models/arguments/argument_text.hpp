#pragma once
// Reads a framework's arguments from a text: options as given to a program, or the block of arguments that it prints when it starts.

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/json.hpp"

namespace tandem::arguments {

/// Arguments by name, and how the text spelled them.
struct Arguments {
  std::shared_ptr<nlohmann::json> values;  ///< an object, by name in the framework's program: "num_layers"; `env` has variables
  std::string program;                     ///< "pretrain_gpt.py"; empty if the text names none
  bool printed = false;                    ///< read from a block that the program printed, with its defaults
  std::set<std::string> launcher = {};     ///< names of options in front of the program
  std::shared_ptr<nlohmann::json> launched = nullptr;  ///< those options with their values, which the program's may have replaced in `values`
  std::vector<std::string> launchers = {};             ///< commands in front of the program: "srun", "accelerate"
  std::vector<std::string> words = {};                 ///< behind the program, of no option
  bool own_script = false;                 ///< the program is the user's, which may have options of its own
  std::map<std::string, std::string> open = {};        ///< arguments with a shell's variable that the text does not set, as they are written
};

/// Name of an argument in its program, and how its option gives the value.
struct ArgumentName {
  std::string name;
  bool switches_off = false;  ///< the option makes it false: "--disable-bias-linear" of add_bias_linear
  bool needs_value = false;   ///< the program refuses the option without a value
};

/// The argument of an option, given without its dashes: "num-layers".
using ArgumentNames = std::function<ArgumentName(const std::string& option)>;

/// Whether a line begins or ends a block of arguments that Megatron-LM printed.
bool begins_block(std::string_view line);
bool ends_block(std::string_view line);

/// Whether a text has such a block, complete or not.
bool has_printed_block(std::string_view text);

/// Whether a text looks like arguments: it has an option or a printed block.
bool looks_like_arguments(std::string_view text);

/// Reads a command ("torchrun x.py --num-layers 96 --swiglu": command_line.hpp), or the last printed
/// block ("num_layers ......... 96"). A text value becomes null, a boolean, a number, a list or a text. The last of equal options
/// counts. Throws ConfigError for a text without arguments, an open quote, or an option that lacks its value.
Arguments read_arguments(std::string_view text, const ArgumentNames& names, const std::string& file);

/// The value of one word: None, True, 12, 1e-4, [1, 2], ([0]*3+[1]*58), 128,0, or a text.
nlohmann::json argument_value(const std::string& word);

/// Layers of each pipeline chunk of a layout such as "Et*3|(tt|)*29,m|L" (Megatron-LM: PipelineParallelLayerLayout): the number of
/// `t` between bars. Null for a text that is no layout.
nlohmann::json layout_layers(const std::string& layout);

}  // namespace tandem::arguments
