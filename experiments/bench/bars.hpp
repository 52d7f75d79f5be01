#pragma once
// Cases that print results besides their time. Each returns an exit status.

#include <string>

namespace tandem::bench {

/// Simulates a plan without folding equal ranks into one role; prints events per second.
int unfolded(const std::string& plan);
/// A ring all-reduce of 1 GiB over `devices`. Every message of every step is a separate transfer.
int ring(int devices);
/// All-to-all among 128 devices behind one crossbar: 16,256 flows of different sizes that start at different times.
int desynchronised();
/// Closed-form estimates of a search over layouts, cold and warm.
int closed_form();

}  // namespace tandem::bench
