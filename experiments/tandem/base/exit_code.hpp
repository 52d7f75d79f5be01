#pragma once
// The exit codes of the program.

namespace tandem::program {

/// What the program answers to the shell; documented in --help and docs/reference/exit-codes.md, and stable.
enum class ExitCode : int {
  ok = 0,
  internal = 1,     ///< a bug in Tandem
  usage = 2,        ///< bad command line
  input = 3,        ///< bad or unreadable input: file and field are named
  infeasible = 4,   ///< a plan that cannot be: does not divide, does not fit, not implemented
  nothing = 5,      ///< nothing found: no plan of a sweep fits
  tolerance = 6,    ///< a comparison outside tolerance
  world = 7,        ///< a device or a rank failed, the host has no memory or thread left, or a training is not finite
  interrupted = 130,///< by the user or a batch system; results so far are kept
};

}  // namespace tandem::program
