// A folder of checkpoints: which ones stay, which one counts, and what is damaged.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "exec/checkpoint/folder.hpp"
#include "exec/process/world.hpp"
#include "exec/run/run.hpp"
#include "models/base/error.hpp"
#include "tests/backends.hpp"
#include "tests/patched_plan.hpp"
#include "tests/catch.hpp"
#include "tests/exec/cpu/numbers.hpp"
#include "tests/exec/state/kept_files.hpp"
#include "tests/exec/state/whole_state.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::exec;
namespace fs = std::filesystem;

namespace {

struct Saves {
  std::int64_t steps = 1, every = 1, keep = 100;
};

Plan plan_of(const std::string& patch = "{}") {
  tests::SmallPlan p;
  p.tensor = p.data = 2;
  return tests::patched_plan(p, patch);
}

void train_into(const fs::path& folder, const Plan& plan, const Saves& saves, const SavedState* resume = nullptr) {
  GraphCache graphs(plan);
  World world;
  const auto keeper = make_file_keeper(test::always(folder.string(), {to_json(plan), 0}, saves.keep), world);
  RunOptions o = tests::run_options();
  o.steps = saves.steps;
  o.state_every = saves.every;
  o.keeper = keeper.get();
  o.resume = resume;
  run(graphs, test::Numbers(), o);
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

std::string bytes_of(const fs::path& file) {
  std::ostringstream out;
  out << std::ifstream(file, std::ios::binary).rdbuf();
  return out.str();
}

void put(const fs::path& file, const std::string& bytes) { std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes; }

/// What opening the checkpoint and reading all of it is refused with.
std::string refusal(const fs::path& path) {
  try {
    test::whole_of(*load_checkpoint(path.string()).state);
    return "";
  } catch (const ConfigError& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("a folder keeps the last checkpoints, and the latest counts") {
  const tests::TemporaryFolder place;
  const fs::path folder = place.path() / "run";
  train_into(folder, plan_of(), {5, 1, 3});
  CHECK(names_in(folder) == std::set<std::string>{"latest", "step-00000003", "step-00000004", "step-00000005"});
  CHECK(bytes_of(folder / "latest") == "step-00000005\n");
  CHECK(load_checkpoint(folder.string()).state->facts().steps == 5);
  CHECK(load_checkpoint((folder / "step-00000004").string()).state->facts().steps == 4);
  // A run that goes on from an earlier one makes its own latest; what is ahead of it stays.
  const Checkpoint earlier = load_checkpoint((folder / "step-00000003").string());
  train_into(folder, plan_of(), {4, 1, 3}, earlier.state.get());
  CHECK(bytes_of(folder / "latest") == "step-00000004\n");
  CHECK(load_checkpoint(folder.string()).state->facts().steps == 4);
  CHECK(names_in(folder).contains("step-00000005"));
}

TEST_CASE("where the latest checkpoint is gone or incomplete, an older one is taken, and a note says so") {
  const tests::TemporaryFolder place;
  const fs::path folder = place.path() / "run";
  train_into(folder, plan_of(), {3, 1, 3});
  CHECK(load_checkpoint(folder.string()).note.empty());
  fs::remove(folder / "step-00000003" / "manifest.json");
  const Checkpoint older = load_checkpoint(folder.string());
  CHECK(older.state->facts().steps == 2);
  CHECK(older.note == "latest names step-00000003, which is incomplete: step-00000002 is taken");
  fs::remove_all(folder / "step-00000003");
  CHECK(load_checkpoint(folder.string()).note == "latest names step-00000003, which is not there: step-00000002 is taken");
  CHECK(load_checkpoint((folder / "step-00000001").string()).note.empty());
}

TEST_CASE("a folder that another run has saved into takes no further checkpoint of this one") {
  const tests::TemporaryFolder place;
  const fs::path folder = place.path() / "run";
  train_into(folder, plan_of(), {2, 1, 2});
  const std::string path = folder.string();
  REQUIRE(latest_name(path) == "step-00000002");
  fs::copy(folder / "step-00000002", folder / "step-00000003.1.new");
  std::string said;
  try {
    publish(path, "step-00000003.1.new", 3, 2, "step-00000001");
  } catch (const ConfigError& e) {
    said = e.what();
  }
  CHECK(said.find("names step-00000002, which this run has not saved: another run saves there") != std::string::npos);
  CHECK(names_in(folder) == std::set<std::string>{"latest", "step-00000001", "step-00000002", "step-00000003.1.new"});
  publish(path, "step-00000003.1.new", 3, 2, "step-00000002");
  CHECK(latest_name(path) == "step-00000003");
}

TEST_CASE("what is not a whole checkpoint, and what is somebody else's, is passed over and stays") {
  const tests::TemporaryFolder place;
  const fs::path folder = place.path() / "run";
  fs::create_directories(folder / "step-00000007");  // no manifest: not ours to remove
  fs::create_directories(folder / "step-00000009");
  put(folder / "notes.txt", "mine");
  train_into(folder, plan_of(), {3, 1, 1});
  CHECK(names_in(folder) == std::set<std::string>{"latest", "notes.txt", "step-00000003", "step-00000007", "step-00000009"});
  CHECK(load_checkpoint(folder.string()).state->facts().steps == 3);
  fs::remove(folder / "latest");  // then the one of the most steps counts
  CHECK(load_checkpoint(folder.string()).state->facts().steps == 3);
  fs::remove(folder / "step-00000003" / "manifest.json");
  CHECK(refusal(folder).find("holds no complete checkpoint") != std::string::npos);
}

TEST_CASE("every element of a state is in one part of one file, and ranks that hold copies write none") {
  const Plan plan = plan_of(R"({"parallel": {"zero_stage": )" + std::to_string(GENERATE(0, 1, 3)) + "}}");
  const tests::TemporaryFolder place;
  train_into(place.path() / "run", plan, {1});
  const Checkpoint saved = load_checkpoint((place.path() / "run").string());
  for (const SavedTensor& t : saved.state->tensors()) {
    INFO(t.buffer << "." << t.name);
    std::vector<int> covered(static_cast<std::size_t>(t.rows * t.cols), 0);
    for (const Block& b : t.parts)
      for (std::int64_t r = b.row; r < b.row + b.rows; ++r)
        for (std::int64_t c = b.col; c < b.col + b.cols; ++c) ++covered[static_cast<std::size_t>(r * t.cols + c)];
    CHECK(std::all_of(covered.begin(), covered.end(), [](int n) { return n == 1; }));
  }
}

TEST_CASE("a manifest or a file of parts that is cut short or has any bit turned over is refused by name") {
  const tests::TemporaryFolder place;
  const fs::path folder = place.path() / "run", step = folder / "step-00000001";
  train_into(folder, plan_of(), {1});
  REQUIRE(refusal(folder).empty());
  for (const std::string& name : names_in(step)) {
    const std::string whole = bytes_of(step / name);
    const bool parts = name != "manifest.json";
    // The manifest says where a part lies, so a file's own header is for other readers alone.
    const std::size_t from = parts ? 8 + static_cast<unsigned char>(whole[0]) + 256 * static_cast<unsigned char>(whole[1]) : 0;
    for (std::size_t at = from; at < whole.size(); at += 1 + whole.size() / 61) {
      std::string turned = whole;
      turned[at] = static_cast<char>(turned[at] ^ (1 << (at % 8)));
      put(step / name, turned);
      INFO(name << " byte " << at);
      CHECK(refusal(folder).find(name) != std::string::npos);
    }
    for (const std::size_t n : {std::size_t{0}, from, whole.size() / 2, whole.size() - 2}) {  // a manifest ends with a new line
      put(step / name, whole.substr(0, n));
      INFO(name << " of " << n << " bytes");
      CHECK(refusal(folder).find(name) != std::string::npos);
    }
    fs::remove(step / name);
    CHECK_FALSE(refusal(folder).empty());
    put(step / name, whole);
  }
  CHECK(refusal(folder).empty());
}
