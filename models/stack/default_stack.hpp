#pragma once
// The stack of plans that name none. A stack file that cannot be read stops only plans that may need it.

#include <string>
#include <vector>

namespace tandem {

struct DefaultStack {
  std::string name;
  std::vector<std::string> notes;  ///< one for each stack file that cannot be read and that the generation does not need
};

/// The default stack for devices of this generation: the one that has it in `default_on`, else "tandem". Throws ConfigError that names two
/// files if several have it. A file that cannot be read throws its own error if it has the generation, or if it may and no other file does.
DefaultStack default_stack(const std::string& generation);

}  // namespace tandem
