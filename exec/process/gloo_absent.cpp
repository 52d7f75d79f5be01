// Compiled instead of gloo_carrier.cpp if Gloo was not found.
#include "exec/process/gloo_carrier.hpp"

namespace tandem::exec {

std::unique_ptr<Carrier> make_gloo_carrier(const LaunchSpec&, JoinOptions) {
  throw InfeasibleError(Problem{"", "--launch", "env", "this program was built without Gloo",
                                "install Gloo (Debian: libgloo-dev) and build again"});
}

}  // namespace tandem::exec
