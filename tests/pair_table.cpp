// Prints the parity cases and which pairs of features they cover.

#include <iostream>

#include "tests/agree/covering.hpp"

int main() { tandem::tests::print(tandem::tests::cover_pairs(tandem::tests::kCoveringSeed), std::cout); }
