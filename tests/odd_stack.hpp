#pragma once
// A stack of a test's own, "odd".

#include <cstdlib>
#include <filesystem>
#include <string>

#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/stacks.hpp"
#include "tests/temporary_folder.hpp"

namespace tandem::tests {

/// While it lives presets are those of a folder with one stack, "odd", that has this list or table under `key`.
class OddStack {
 public:
  OddStack(const std::string& key, const std::string& value) {
    std::filesystem::create_directories(folder_.path() / "models/stacks");
    folder_.file("models/stacks/odd.json", R"({"name": "odd", "read_until": {"as_of": "2026-01", "commit": "none"}, "rules": [], ")" + key + R"(": )" + value + "}");
    setenv("TANDEM_PRESETS", folder_.path().c_str(), 1);
  }
  ~OddStack() { unsetenv("TANDEM_PRESETS"); }
  OddStack(const OddStack&) = delete;
  OddStack& operator=(const OddStack&) = delete;

 private:
  TemporaryFolder folder_;
};

/// What `read` says meanwhile, or what is wrong with the list.
template <class Read>
std::string with_odd_stack(const std::string& key, const std::string& list, Read&& read) {
  const OddStack stack(key, list);
  try {
    return read();
  } catch (const ConfigError& e) {
    return e.problems().front().reason;
  }
}

/// `read` refuses what the stack has under `key`, or one entry of it: the reason has `wrong` in it.
template <class Read>
void check_refused(const std::string& key, const std::string& list, const std::string& wrong, Read&& read) {
  const OddStack stack(key, list);
  try {
    read();
    FAIL("nothing was refused");
  } catch (const ConfigError& e) {
    INFO(e.what());
    const std::string& field = e.problems().front().field;
    CHECK(field.substr(0, field.find('[')) == key);
    CHECK(e.problems().front().reason.find(wrong) != std::string::npos);
  }
}

}  // namespace tandem::tests
