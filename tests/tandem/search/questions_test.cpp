// The fields that a search varies, and questions that it refuses.

#include <algorithm>

#include "experiments/tandem/search/search.hpp"
#include "tests/catch.hpp"
#include "tests/tandem/search/spaces.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::search;
using namespace tandem::tests;

namespace {

/// The values of an axis in an open search.
std::vector<std::string> values_of(const std::string& model, const std::string& field) {
  const Space space = space_of({model, "dgx-h100", 1024, 1024, {}});
  std::vector<std::string> out;
  for (const AxisValue& v : space.axes()[static_cast<std::size_t>(space.axis_of(field))].values) out.push_back(v.text);
  return out;
}

std::string refusal(const Asked& a) {
  try {
    space_of(a);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("Any number of layers is searched in several chunks") {
  const auto chunks = [](const std::string& model) { return values_of(model, "parallel.virtual_pipeline"); };
  const auto has = [](const std::vector<std::string>& all, const char* one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  for (const char* few : {"2", "3", "4"}) CHECK(has(chunks("deepseek-v3"), few));  // 61 layers, a prime
  CHECK(has(chunks("llama3-405b"), "8"));  // 126 layers; with embedding and head as one each, 16 stages x 8
  CHECK(chunks("llama3-8b") == std::vector<std::string>{"1", "2", "4", "8"});
  for (const char* model : {"deepseek-v3", "llama3-405b", "gpt2-124m"}) CHECK(chunks(model).size() <= 9);
}

TEST_CASE("A search varies the sets of modules that its stack has options for, and no others") {
  const auto sets = [](const char* model, const char* cluster, const std::string& stack) {
    const Space space = space_of({model, cluster, 64, 64, {}}, stack);
    std::vector<std::string> out;
    const std::ptrdiff_t axis = space.axis_of("training.recompute_modules");
    if (axis < 0) return out;
    for (const AxisValue& v : space.axes()[static_cast<std::size_t>(axis)].values) out.push_back(v.text);
    return out;
  };
  const std::vector<std::string> none, operations{R"(["operations"])"};
  CHECK(sets("llama3-8b", "dgx-h100", "") == std::vector<std::string>{R"(["core_attention"])", R"(["mlp"])"});
  CHECK(sets("llama3-8b", "mi300x-8x400g", "") == sets("llama3-8b", "dgx-h100", ""));
  CHECK(sets("llama3-8b", "dgx-h100", "megatron-core@2024-07") == none);
  CHECK(sets("llama3-8b", "dgx-h100", "torchtitan") == operations);
  CHECK(sets("llama3-8b", "hls-gaudi3", "") == none);
  CHECK(sets("gpt-1.3b-moe128", "hls-gaudi3", "") == none);
  CHECK(sets("deepseek-v3", "dgx-h100", "") == std::vector<std::string>{R"(["core_attention"])", R"(["norm","mla_up_proj"])",
                                                                       R"(["norm","mla_up_proj","moe_activation"])",
                                                                       R"(["norm","mla_up_proj","moe","mlp"])"});
}

TEST_CASE("A search says which dispatchers it leaves alone, unless the axes, the model or the stack's switches do") {
  const TemporaryFolder folder;
  const std::string dropless = folder.file("mixture.json", kMixture);
  const auto unsearched = [](const std::string& model, const std::string& stack, std::vector<std::string> axes) {
    return space_of({model, "dgx-h100", 64, 64, std::move(axes)}, stack).question().unsearched;
  };
  const std::vector<std::string> ways{"token_dispatcher=alltoall,allgather"};
  CHECK(unsearched("llama3-8b", "", {}).empty());
  CHECK(unsearched(dropless, "megatron-core@2025-04", {}) == ways);  // before DeepEP, which is a switch of the stack since
  CHECK(unsearched(dropless, "megatron-core@2025-05", {}).empty());
  CHECK(unsearched(dropless, "megatron-core@2025-04", {"token_dispatcher=allgather"}).empty());
  CHECK(unsearched("gpt-1.3b-moe128", "megatron-core@2025-04", {}).empty());  // a capacity goes without allgather
}

TEST_CASE("A search says that it leaves two levels of context ranks alone, where the stack has them and sequences are long") {
  const auto unsearched = [](const std::string& stack, std::vector<std::string> axes, std::int64_t sequence = 32768) {
    return space_of({"llama3-8b", "dgx-h100", 64, 64, std::move(axes), sequence}, stack).question().unsearched;
  };
  const std::vector<std::string> levels{"ulysses=1,2,4,8"};
  CHECK(unsearched("megatron-core@2024-11", {}) == levels);
  CHECK(unsearched("megatron-core@2024-10", {}).empty());
  CHECK(unsearched("torchtitan", {}).empty());
  CHECK(unsearched("megatron-core@2024-11", {}, 8192).empty());  // two context ranks at most
  CHECK(unsearched("megatron-core@2024-11", {"ulysses=2"}).empty());
  CHECK(unsearched("megatron-core@2024-11", {"context_mode=ulysses"}).empty());
}

TEST_CASE("A search of long sequences varies how context ranks share attention, as stack and model allow") {
  const auto modes = [](const char* model, const std::string& stack, std::vector<std::string> axes, std::int64_t sequence = 32768) {
    const Space space = space_of({model, "dgx-h100", 64, 64, std::move(axes), sequence}, stack);
    std::vector<std::string> out;
    const std::ptrdiff_t axis = space.axis_of("parallel.context_mode");
    if (axis < 0) return out;
    for (const AxisValue& v : space.axes()[static_cast<std::size_t>(axis)].values) out.push_back(v.text);
    return out;
  };
  const std::vector<std::string> own, both{"ring", "ulysses"};
  CHECK(modes("llama3-8b", "megatron-core", {}) == both);
  CHECK(modes("deepseek-v3", "megatron-core", {}) == both);
  CHECK(modes("llama3-8b", "megatron-deepspeed", {}) == std::vector<std::string>{"ulysses"});  // DeepSpeed has no ring
  CHECK(modes("gemma3-27b", "megatron-core", {}) == std::vector<std::string>{"all_gather", "ulysses"});  // windows go without a ring
  CHECK(modes("llama3-8b", "torchtitan@2026-05", {}) == own);
  CHECK(modes("llama3-8b", "torchtitan@2026-06", {}) == std::vector<std::string>{"all_gather"});  // its ring is gone
  CHECK(modes("llama3-8b", "neuronx", {}) == own);
  CHECK(modes("llama3-8b", "megatron-core", {}, 4096) == own);  // no context ranks
  CHECK(modes("llama3-8b", "megatron-core", {"context=1"}) == own);
  CHECK(modes("llama3-8b", "megatron-core", {"context_mode=ring"}) == std::vector<std::string>{"ring"});
}

TEST_CASE("Sequences of a million tokens are shared among more context ranks") {
  const auto most = [](std::int64_t sequence) {
    const Space space = space_of({"llama3-8b", "dgx-h100", 64, 64, {}, sequence}, "megatron-core");
    return space.axes()[static_cast<std::size_t>(space.axis_of("parallel.context"))].values.back().text;
  };
  CHECK(most(8192) == "2");
  CHECK(most(131072) == "16");
  CHECK(most(262144) == "16");
  CHECK(most(1048576) == "64");
}

TEST_CASE("A search varies the overlap of experts where the stack has it with some candidate") {
  const auto varies = [](const char* model, const char* stack, std::vector<std::string> axes) {
    return space_of({model, "dgx-h100", 64, 64, std::move(axes)}, stack).axis_of("parallel.overlap_experts") >= 0;
  };
  CHECK(varies("gpt-1.3b-moe128", "megatron-core@2025-09", {}));
  CHECK_FALSE(varies("gpt-1.3b-moe128", "megatron-core@2025-08", {}));
  CHECK_FALSE(varies("gpt-1.3b-moe128", "megatron-deepspeed", {}));
  CHECK_FALSE(varies("llama3-8b", "megatron-core", {}));
  CHECK_FALSE(varies("gpt-1.3b-moe128", "megatron-core", {"recompute=full"}));  // it has none with whole layers computed again
}

TEST_CASE("Questions with unknown axes, values or presets are refused by name") {
  const Asked base{"gpt-1.3b", "dgx-a100-80gb", 8, 32, {}};
  const auto with = [&](std::vector<std::string> axes) { return Asked{base.model, base.cluster, 8, 32, std::move(axes)}; };
  CHECK(refusal(with({"tensr=1"})).find("did you mean \"tensor\"") != std::string::npos);
  CHECK(refusal(with({"tensor=1", "tp=2"})).find("given twice") != std::string::npos);
  CHECK(refusal(with({"tensor=two"})).find("parallel.tensor") != std::string::npos);
  CHECK(refusal(with({"global_batch_size=8"})).find("may not vary") != std::string::npos);
  CHECK(refusal({"gpt-1.4b", "dgx-a100-80gb", 8, 32, {}}).find("did you mean") != std::string::npos);
  CHECK(refusal({"gpt-1.3b", "", 8, 32, {}}).find("--cluster") != std::string::npos);
  const Space space = space_of(with({"data=3"}));
  Search search(space, options());
  search.explore();
  const Answer answer = search.answer();
  CHECK(at(answer.counts, Outcome::devices) == space.size());
}
