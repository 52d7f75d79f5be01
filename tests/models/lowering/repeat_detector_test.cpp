// Whether a state is that of an earlier time, by states of a few numbers.

#include "models/lowering/program/repeat_detector.hpp"
#include "tests/catch.hpp"

using tandem::lowering::Point;
using tandem::lowering::RepeatDetector;

TEST_CASE("what recurs is as long ago, or older than all that is") {
  Point near(10, 3), far(2, 1);
  RepeatDetector r;
  const auto show = [&] {
    r.point(near);
    r.point(far);
    r.number(7);
  };
  r.take({12, 5});
  show();
  near = Point(14, 3);
  r.compare({16, 9});
  show();
  CHECK(r.matches());
  r.move(2);
  show();
  CHECK(near == Point(22, 3));
  CHECK(far == Point(2, 1));
}

TEST_CASE("what is newer than something that goes along does not stand still") {
  Point along(3, 0), still(9, 0);
  RepeatDetector r;
  const auto show = [&] {
    r.point(along);
    r.point(still);
  };
  r.take({10, 0});
  show();
  along = Point(7, 0);  // would pass the other one in the next round
  r.compare({14, 0});
  show();
  CHECK_FALSE(r.matches());
}

TEST_CASE("another number, another distance, more or less is another state") {
  Point p(5, 0);
  RepeatDetector r;
  r.take({8, 0});
  r.number(1);
  r.point(p);
  const auto matches = [&](std::int64_t number, std::int64_t instance, int more) {
    Point now(instance, 0);
    r.compare({12, 0});
    r.number(number);
    if (more >= 0) r.point(now);
    if (more > 0) r.number(0);
    return r.matches();
  };
  CHECK(matches(1, 9, 0));
  CHECK(matches(1, 5, 0));
  CHECK_FALSE(matches(2, 9, 0));
  CHECK_FALSE(matches(1, 8, 0));
  CHECK_FALSE(matches(1, 9, 1));
  CHECK_FALSE(matches(1, 9, -1));
  r.compare({12, 0});
  r.number(1);
  r.point(p);
  r.point(p);
  CHECK_FALSE(r.matches());
  CHECK(matches(1, 9, 0));  // what was too much is forgotten
  r.compare({12, 0});
  r.refuse();
  CHECK_FALSE(r.matches());
}
