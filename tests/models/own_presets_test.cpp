#include <cstdlib>
#include <filesystem>

#include "models/base/error.hpp"
#include "models/base/presets.hpp"
#include "tests/catch.hpp"
#include "tests/source_dir.hpp"
#include "tests/temporary_folder.hpp"

namespace fs = std::filesystem;
using namespace tandem;

namespace {

/// TANDEM_PRESETS, while it lives, is an empty folder with these folders in it.
class OwnPresets : public tests::TemporaryFolder {
 public:
  explicit OwnPresets(const std::vector<std::string>& folders) {
    for (const std::string& folder : folders) fs::create_directories(path() / folder);
    setenv("TANDEM_PRESETS", path().c_str(), 1);
  }
  ~OwnPresets() { unsetenv("TANDEM_PRESETS"); }
};

/// What is wrong with TANDEM_PRESETS when a preset of Tandem's is looked for; empty when nothing is.
std::string refusal(const std::string& name = "h100-sxm5-80gb") {
  try {
    find_preset("topology/presets/devices", name);
    return "";
  } catch (const ConfigError& e) {
    CHECK(e.problems().front().field == "TANDEM_PRESETS");
    return e.problems().front().reason;
  }
}

const std::string kDevices = "topology/presets/devices";

}  // namespace

TEST_CASE("a TANDEM_PRESETS without a folder of presets is refused") {
  CHECK(refusal() == "");
  {
    const OwnPresets own({"devices"});
    own.file("devices/h100-sxm5-80gb.json", "{}");
    CHECK(refusal() == "has none of the folders of presets");
  }
  const OwnPresets own({"models/stacks"});
  CHECK(refusal() == "");
}

TEST_CASE("every folder of Tandem's own data is one that presets are looked for in") {
  setenv("TANDEM_PRESETS", tests::source_dir().c_str(), 1);
  CHECK(refusal() == "");
  unsetenv("TANDEM_PRESETS");
}

TEST_CASE("a preset at the wrong level of TANDEM_PRESETS is refused") {
  const OwnPresets own({"topology/presets", "topology/devices"});
  own.file("topology/devices/h100-sxm5-80gb.json", "{}");
  CHECK(refusal() == "topology/devices/h100-sxm5-80gb.json lies where no preset is looked for");
}

TEST_CASE("links of TANDEM_PRESETS that lead nowhere or in a ring are refused, asked for or not") {
  for (const std::string target : {"nowhere", "other.json"}) {
    const OwnPresets own({kDevices});
    fs::create_symlink(target, own.path() / kDevices / "other.json");
    const std::string why = target == "nowhere" ? "is a link to a file that is not there" : "cannot be read: Too many levels of symbolic links";
    CHECK(refusal() == kDevices + "/other.json " + why);
  }
  const OwnPresets own({"topology"});
  fs::create_symlink("nowhere", own.path() / "topology/presets");
  CHECK(refusal() == "topology/presets is a link to a file that is not there");
}

TEST_CASE("a folder of TANDEM_PRESETS that leads back to itself is walked to an end") {
  const OwnPresets own({kDevices});
  for (const char* name : {"a", "b", "c"}) fs::create_directory_symlink(".", own.path() / "topology" / name);
  CHECK(refusal() == "");
}

TEST_CASE("a folder in the place of a preset is not passed over") {
  const OwnPresets own({kDevices + "/h100-sxm5-80gb.json"});
  CHECK(refusal() == kDevices + "/h100-sxm5-80gb.json is a directory, not a file");
}

TEST_CASE("hidden files and other texts in TANDEM_PRESETS are let be") {
  const OwnPresets own({kDevices});
  fs::create_symlink("me@here.1234", own.path() / kDevices / ".#mine.json");  // an editor's lock
  own.file(kDevices + "/README.md", "mine");
  CHECK(refusal() == "");
}

TEST_CASE("a preset that breaks after the folder was checked is not replaced by Tandem's") {
  const OwnPresets own({kDevices});
  CHECK(refusal() == "");
  fs::create_symlink("nowhere", own.path() / kDevices / "h100-sxm5-80gb.json");
  CHECK_THROWS_AS(find_preset(kDevices, "h100-sxm5-80gb"), ConfigError);
}

TEST_CASE("files taken from TANDEM_PRESETS are named") {
  CHECK(own_presets_note() == "");
  const OwnPresets own({kDevices, "models/presets"});
  const std::string head = "taken from TANDEM_PRESETS=" + own.path().string() + ": ";
  CHECK(own_presets_note() == "");  // nothing was looked for
  CHECK(!find_preset("models/presets", "gpt2-124m").empty());
  CHECK(own_presets_note() == head + "nothing");
  CHECK(look_for_data_file(kDevices, "a100-sxm4-80gb.json").ends_with("/" + kDevices + "/a100-sxm4-80gb.json"));
  own.file(kDevices + "/mine.json", "{}");
  own.file("models/presets/gpt2-124m.json", "{}");
  CHECK(!find_preset(kDevices, "mine").empty());
  CHECK(find_preset("models/presets", "gpt2-124m") == own.at("models/presets/gpt2-124m.json"));
  CHECK(!find_preset("models/presets", "gpt2-345m").empty());
  CHECK(own_presets_note() == head + "models/presets/gpt2-124m.json and topology/presets/devices/mine.json");
}
