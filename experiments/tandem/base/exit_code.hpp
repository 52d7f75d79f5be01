#pragma once
// The exit codes of the program.

namespace tandem::program {

/// The program's exit codes. They are stable and documented in --help and docs/reference/exit-codes.md.
enum class ExitCode : int {
  ok = 0,
  internal = 1,     ///< a bug in Tandem
  usage = 2,        ///< bad command line
  input = 3,        ///< bad or unreadable input; the message names file and field
  infeasible = 4,   ///< an impossible plan: degrees do not divide, does not fit, or not implemented
  nothing = 5,      ///< nothing found: no plan of a sweep or search fits, or none meets the limits of days and money
  tolerance = 6,    ///< a comparison outside tolerance
  world = 7,        ///< a device or rank failed, the host lacks memory or threads, or a training is not finite
  interrupted = 130,///< by the user or a batch system; what is done is kept, if it makes a result
  unread = 141,     ///< standard output was closed before all was written, as by `| head`; the work itself succeeded
};

}  // namespace tandem::program
