#pragma once
// Catch2 v2 (Debian 12, Ubuntu 22.04) and v3 behind one include. An exception in an assertion ends its case: less to compile.
#define CATCH_CONFIG_FAST_COMPILE
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
