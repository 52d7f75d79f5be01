#include "experiments/program/program.hpp"

int main(int argc, char** argv) { return static_cast<int>(tandem::program::run(argc, argv)); }
