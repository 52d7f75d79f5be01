// How NCCL's communicators are parted, and that a library that is not there is an error of its own.
#include "exec/nccl/pairs.hpp"

#include <set>

#include "exec/nccl/nccl.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::exec;

TEST_CASE("No stage is in two of the pairs that one split makes, and every pair is in one") {
  for (std::int64_t stages = 2; stages <= 17; ++stages)
    for (const int way : {-1, 1}) {
      std::set<std::pair<std::int64_t, std::int64_t>> pairs;
      for (int c = 0; c < nccl::kPairClasses; ++c) {
        std::multiset<std::int64_t> busy;
        for (std::int64_t to = 0; to < stages; ++to) {
          const std::int64_t from = nccl::sender_to(to, way, stages);
          if (nccl::pair_class(from, stages) != c) continue;
          REQUIRE((from + way + stages) % stages == to);
          busy.insert(from), busy.insert(to), pairs.insert({from, to});
        }
        for (const std::int64_t s : busy) REQUIRE(busy.count(s) == 1);
      }
      REQUIRE(pairs.size() == static_cast<std::size_t>(stages));
    }
}

TEST_CASE("NCCL that is not found is an error of the build or host that names what would work") {
  try {
    require_nccl("libno-such-nccl.so");
    FAIL("it was found");
  } catch (const InfeasibleError& e) {
    CHECK(std::string(e.what()).find("--comm staged") != std::string::npos);
  }
}
