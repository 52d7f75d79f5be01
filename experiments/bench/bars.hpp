#pragma once
// Cases that print what they have to say beside their time; each returns an exit status.

#include <string>

namespace tandem::bench {

/// Plays a plan with every rank a role of its own; prints events a second.
int unfolded(const std::string& plan);
/// A ring all-reduce of 1 GiB over `devices`, every message of every step a transfer of its own.
int ring(int devices);
/// All-to-all among 128 devices behind one crossbar: 16,256 flows of different sizes that start at different times.
int desynchronised();
/// Estimates of a search over layouts, cold and warm.
int closed_form();

}  // namespace tandem::bench
