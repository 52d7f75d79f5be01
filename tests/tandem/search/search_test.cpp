#include "experiments/tandem/search/search.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "experiments/tandem/base/interrupt.hpp"
#include "experiments/tandem/search/kept.hpp"
#include "experiments/tandem/search/pareto.hpp"
#include "experiments/tandem/search/report.hpp"
#include "models/planfile/plan_draft.hpp"
#include "models/plan/plan_words.hpp"
#include "models/stack/resolve.hpp"
#include "tests/catch.hpp"
#include "tests/tandem/search/spaces.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::search;
using namespace tandem::tests;

namespace {

/// Sets of modules that Megatron-LM computes again, in dense models and in mixtures.
const std::string kDenseSets = R"(recompute_modules=["core_attention"],["norm"],["norm","mlp"])";
const std::string kMixedSets = R"(recompute_modules=["core_attention"],["norm","moe_activation"],["norm","moe","mlp"])";

/// Small spaces of dense plans, plans whose weights are sharded too, and experts; in the last two what is computed again varies.
const std::vector<Asked> kSpaces{
    {"gpt-1.3b", "dgx-a100-80gb", 8, 32, {"virtual_pipeline=1,2", "micro_batch_size=1,2", "zero_stage=0,1", "recompute=none,full"}},
    {"llama2-7b", "dgx-h100", 8, 32, {"tensor=1,2,4,8", "pipeline=1,2", "virtual_pipeline=1", "schedule=1f1b", "micro_batch_size=1", "zero_stage=1,2,3"}},
    {"gpt-1.3b-moe128", "dgx-h100", 16, 32, {"tensor=1,2", "pipeline=1,2", "expert=4,8", "virtual_pipeline=1", "schedule=1f1b", "micro_batch_size=1", "zero_stage=0,1"}},
    {"llama2-7b", "hgx-a100-40gb", 8, 16, {"tensor=2,4", "pipeline=1,2", "virtual_pipeline=1", "schedule=1f1b", "micro_batch_size=1,2", "zero_stage=0,1", "sequence_parallel=true", "recompute=none,selective,full", kDenseSets}, 4096},
    {"gpt-1.3b-moe128", "dgx-a100-80gb", 16, 32, {"tensor=1", "pipeline=1,2", "expert=16", "virtual_pipeline=1", "schedule=1f1b", "micro_batch_size=1,4", "zero_stage=1", "recompute=none,selective,full", kMixedSets}, 2048},
};

/// A mixture whose rows take a while to travel.
const std::string kMixture = R"({"model": {"family": "llama", "num_layers": 8, "hidden_size": 4096, "num_attention_heads": 32, "num_kv_heads": 8,
  "ffn_hidden_size": 14336, "vocab_size": 32000, "moe": {"num_experts": 16, "experts_per_token": 4, "ffn_hidden_size": 2048}}})";

std::string refusal(const Asked& a) {
  try {
    space_of(a);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("A search finds the step that simulating every candidate finds, within half a percent") {
  for (const Asked& a : kSpaces) {
    INFO(a.model);
    REQUIRE(check_beside_brute_force(space_of(a)));
  }
}

/// The times of the fastest candidates that fit, every one simulated, without those whose step is another's.
std::vector<std::int64_t> fastest(const Space& space, const Judge& judge, std::size_t rows) {
  std::vector<std::int64_t> out;
  for (CandidateId id = 0; id < space.size(); ++id) {
    if (judge.group(id / space.members()).outcome != Outcome::bounded || judge.candidate(id).outcome == Outcome::same) continue;
    const Plan plan = space.plan(id);
    if (!stack_problems(plan, plan.stack.name, plan.stack.as_of).empty() || !lowering_gaps(plan).empty()) continue;
    if (const Simulated s = judge.simulate(id); s.fits) out.push_back(s.time_ps);
  }
  std::sort(out.begin(), out.end());
  out.resize(std::min(out.size(), rows));
  return out;
}

TEST_CASE("The best rows of a search are the fastest of all candidates, each simulated") {
  for (const Asked& a : kSpaces) {
    INFO(a.model << " on " << a.cluster);
    const Space space = space_of(a);
    Search search(space, options(8));
    search.explore();
    std::vector<std::int64_t> found;
    for (const Simulated& s : search.answer().best) found.push_back(s.time_ps);
    CHECK(found == fastest(space, search.judge(), 8));
    CHECK(search.knowledge().simulated.size() + search.knowledge().groups.size() < 2 * static_cast<std::size_t>(space.groups()));
  }
}

TEST_CASE("Layers are lowered for bounds only where these could matter, not for all that may be computed again") {
  const Asked asked{"gpt-1.3b-moe128", "dgx-h100", 64, 256,
                    {"virtual_pipeline=1", "schedule=1f1b", "zero_stage=1", "recompute=none,selective,full", kMixedSets}};
  const Space space = space_of(asked);
  Search search(space, options());
  search.explore();
  std::set<CandidateId> all, unrepeated;
  for (CandidateId g = 0; g < space.groups(); ++g) {
    if (search.judge().group(g).outcome != Outcome::bounded) continue;
    all.insert(space.same_layers(g * space.members())), unrepeated.insert(space.same_unrepeated_layers(g * space.members()));
  }
  CHECK(4 * unrepeated.size() < all.size());
  CHECK(search.judge().lowered().floors >= unrepeated.size() / 2);
  CHECK(2 * search.judge().lowered().floors < all.size());
  CHECK(search.judge().lowered().layers < search.judge().lowered().floors);
}

using TimeAndMemory = std::set<std::pair<std::int64_t, std::int64_t>>;

/// Time and memory of the plans that no other one beats, every candidate simulated by itself.
TimeAndMemory brute_force_front(const Space& space, const Judge& judge) {
  TimeAndMemory all, out;
  for (CandidateId id = 0; id < space.size(); ++id) {
    if (!space.divides(id)) continue;
    const Plan plan = space.plan(id);
    if (!plan_problems(plan).empty() || !lowering_gaps(plan).empty()) continue;
    if (!stack_problems(plan, plan.stack.name, plan.stack.as_of).empty()) continue;
    const Simulated s = judge.simulate(id);
    if (s.fits) all.emplace(s.time_ps, s.needed);
  }
  for (const auto& [time, memory] : all) {
    const auto beats = [&, t = time, m = memory](const auto& o) { return o != std::pair(t, m) && o.first <= t && o.second <= m; };
    if (std::none_of(all.begin(), all.end(), beats)) out.emplace(time, memory);
  }
  return out;
}

/// Checks that the Pareto front is that of brute force. Returns the number of groups whose candidates were estimated.
std::size_t check_front(const Space& space) {
  Search search(space, options());
  std::vector<FrontSearch> searched{explore_front(search)};
  const ParetoFront front = pareto_front({&search}, std::move(searched), {Rates{}});
  TimeAndMemory found;
  for (const ParetoPoint& p : front.points) found.emplace(p.step.time_ps, p.step.needed);
  CHECK(front.complete);
  CHECK(found == brute_force_front(space, search.judge()));
  CHECK(front.points.size() == found.size());
  CHECK(front.others.size() + front.points.size() < static_cast<std::size_t>(space.size()));
  return search.knowledge().groups.size();
}

TEST_CASE("The Pareto front is the one that simulating every candidate finds") {
  for (const Asked& a : kSpaces) {
    INFO(a.model);
    check_front(space_of(a));
  }
}

TEST_CASE("A search over the overlap of experts finds the rows and the front that simulating every candidate finds") {
  const TemporaryFolder folder;
  const Space space = space_of({folder.file("mixture.json", kMixture), "dgx-h100", 16, 64,
                                {"tensor=1,2", "pipeline=1,2", "expert=8,16", "micro_batch_size=1", "virtual_pipeline=2,1", "zero_stage=0,1",
                                 "sequence_parallel=true,false", "recompute=none,selective", R"(recompute_modules=["norm","moe_activation"])"}, 4096});
  REQUIRE(space.axis_of("parallel.overlap_experts") >= 0);
  Search search(space, options(8));
  search.explore();
  std::vector<std::int64_t> found;
  int paired = 0;
  for (const Simulated& s : search.answer().best) found.push_back(s.time_ps), paired += space.plan(s.id).runs_pairs() ? 1 : 0;
  CHECK(found == fastest(space, search.judge(), 8));
  CHECK(paired > 0);
  CHECK(paired < 8);
  check_front(space);
}

TEST_CASE("Bounds on time and memory are below what events say") {
  for (const Asked& a : kSpaces) {
    INFO(a.model);
    const Space space = space_of(a);
    const Judge judge(space, {});
    for (CandidateId id = 0; id < space.size(); id += 3) {
      const GroupView view = judge.group(id / space.members());
      if (view.outcome != Outcome::bounded) continue;
      const Simulated s = judge.simulate(id);
      INFO(space.text(id));
      const GroupView own = judge.closer(id / space.members());
      CHECK(view.floor_ps <= own.floor_ps);
      if (s.timed) CHECK(own.floor_ps <= s.time_ps);
      if (s.timed) CHECK(judge.passes_floor(id / space.members()) <= s.time_ps);
      if (s.timed) CHECK(judge.unrepeated_floor(id / space.members()) <= s.time_ps);
      CHECK(own.memory_floors[static_cast<std::size_t>(id % space.members())] <= s.needed);
      if (view.too_large[static_cast<std::size_t>(id % space.members())]) CHECK(!s.fits);
      CHECK(view.memory_floors[static_cast<std::size_t>(id % space.members())] <= s.needed);
    }
  }
}

TEST_CASE("Bounds of plans with an MTP module are below what events say, and come near it") {
  const TemporaryFolder folder;
  const std::string model = folder.file("mtp.json", R"({"model": {"family": "llama", "num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "ffn_hidden_size": 11008, "vocab_size": 32000, "mtp": {"num_layers": 1}}})");
  const Space space = space_of({model, "dgx-a100-80gb", 8, 32,
                                {"tensor=1,2", "pipeline=1,4", "virtual_pipeline=1,2", "schedule=1f1b,interleaved", "zero_stage=0,1,2",
                                 "recompute=none,full", "micro_batch_size=1", "sequence_parallel=false"}, 4096});
  const Judge judge(space, {});
  int large = 0, near = 0, timed = 0;
  for (CandidateId id = 0; id < space.size(); ++id) {
    const GroupView view = judge.group(id / space.members());
    if (view.outcome != Outcome::bounded) continue;
    INFO(space.text(id));
    const Simulated s = judge.simulate(id);
    const CandidateView c = judge.candidate(id);
    large += c.outcome == Outcome::too_large ? 1 : 0;
    if (c.outcome == Outcome::too_large) CHECK(!s.fits);
    if (!s.timed) continue;
    const std::int64_t floor = judge.passes_floor(id / space.members());
    CHECK(floor <= s.time_ps);
    near += static_cast<double>(floor) > 0.8 * static_cast<double>(s.time_ps) ? 1 : 0, ++timed;
  }
  CHECK(large > 0);
  CHECK(timed > 0);
  CHECK(2 * near > timed);
}

TEST_CASE("A search over chunks in a V, with and without pairs of passes, finds what brute force finds, and its bounds hold") {
  const Asked asked{"gpt-1.3b-moe128", "dgx-h100", 16, 32,
                    {"tensor=1", "pipeline=2,4", "expert=4", "virtual_pipeline=2", "schedule=interleaved,dualpipe-v,zb-v,v-half,v-min", "zero_stage=0,1",
                     "overlap_experts=false,true", "micro_batch_size=1", "recompute=none", "sequence_parallel=false"}};
  const Space space = space_of(asked, "tandem");
  REQUIRE(check_beside_brute_force(space));
  const Judge judge(space, {});
  int pairs = 0, zero_bubble = 0, third = 0;
  for (CandidateId id = 0; id < space.size(); ++id) {
    const GroupView view = judge.group(id / space.members());
    if (view.outcome != Outcome::bounded) continue;  // pairs of passes beside other schedules are not lowered
    const Simulated s = judge.simulate(id);
    if (!s.timed) continue;
    INFO(space.text(id));
    pairs += space.text(id).find("dualpipe-v") != std::string::npos ? 1 : 0;
    third += space.text(id).find("v-min") != std::string::npos ? 1 : 0;
    zero_bubble += space.text(id).find("zb-v") != std::string::npos ? 1 : 0;
    CHECK(view.floor_ps <= s.time_ps);
    CHECK(view.memory_floors[static_cast<std::size_t>(id % space.members())] <= s.needed);
  }
  CHECK(pairs > 0);
  CHECK(zero_bubble > 0);
  CHECK(third > 0);
}

/// All that a plan says but for names and notes.
std::vector<std::int64_t> words_of(const Plan& plan) {
  std::vector<std::int64_t> words;
  append_words(words, plan.model), append_words(words, plan.parallel);
  append_words(words, plan.training), append_words(words, plan.stack);
  return words;
}

TEST_CASE("Candidates that share what was filled in have the plans that they have by themselves") {
  std::vector<Asked> asked = kSpaces;
  // A balanced split needs layers that cost the same on any stage.
  asked.push_back({"gpt-1.3b", "dgx-h100", 8, 16, {"pipeline=4", "recompute=full", "recompute_layers=0,1", "pipeline_split=auto,balanced"}});
  for (Asked& a : asked)
    for (const char* axis : {"overlap_grad_reduce=false,true", "scatter_p2p=false,true", "offload.optimizer=false,true", "bucket_bytes=1000000,2000000"})
      a.axes.emplace_back(axis);
  for (const Asked& a : asked)
    for (const char* stack : {"", "pytorch-fsdp"}) {
      INFO(a.model << " " << stack);
      const Space space = space_of(a, stack);
      CandidatePlans plans(space);
      for (CandidateId id = 0; id < space.size(); id += 7) {
        const CandidateId mixed = id * 7919 % space.size();  // neighbours far apart, too
        const Plan alone = space.plan(mixed);
        const Plan& shared = plans.of(mixed);
        CHECK(words_of(shared) == words_of(alone));
        CHECK(shared.stack.facts.host_operations.tasks == alone.stack.facts.host_operations.tasks);
        CHECK(shared.stack.facts.whole_between_micro_batches == alone.stack.facts.whole_between_micro_batches);
        CHECK(space.divides(mixed) == (alone.parallel.data > 0 && alone.world_size() == a.devices));
      }
    }
}

TEST_CASE("Every candidate of a search is under the reason that it is counted under") {
  const Space space = space_of(kSpaces.front());
  Search search(space, options());
  search.explore();
  const Answer answer = search.answer();
  Counts counts{};
  std::string reason;
  for (CandidateId id = 0; id < space.size(); ++id) ++at(counts, search.outcome(id, answer, reason));
  CHECK(counts == answer.counts);
  CHECK(at(counts, Outcome::bounded) > 0);
  CHECK(at(counts, Outcome::estimated) + at(counts, Outcome::simulated) > 0);
}

TEST_CASE("A stack's refusal is found with a group of one candidate, before bounds, and only where its rule holds") {
  const Space space = space_of(kSpaces[1]);
  REQUIRE(space.members() == 1);
  const Judge judge(space, {});
  Counts counts{};
  for (CandidateId id = 0; id < space.size(); ++id) {
    INFO(space.text(id));
    const Plan plan = space.plan(id);
    const bool refused = plan.parallel.pipeline > 1 && plan.parallel.zero_stage > 1;  // Megatron-LM's arguments.py
    const GroupView group = judge.group(id);
    if (group.outcome == Outcome::stack) CHECK(refused);
    if (group.outcome == Outcome::bounded || group.outcome == Outcome::same) CHECK(!refused);
    ++at(counts, group.outcome);
  }
  CHECK(at(counts, Outcome::stack) > 0);
  CHECK(at(counts, Outcome::bounded) > 0);
}

TEST_CASE("A search tells how many groups it has settled and sharpened, also of one that it goes on from") {
  const Space space = space_of(kSpaces.front());
  Search first(space, options()), second(space, options());
  first.explore();
  second.take(first.knowledge());
  for (const Search* search : {&first, &second}) {
    std::int64_t refused = 0, sharp = 0;
    for (const GroupFact& f : search->knowledge().facts) refused += f.outcome != Outcome::bounded ? 1 : 0, sharp += f.sharp ? 1 : 0;
    CHECK(search->settled_groups() == refused + static_cast<std::int64_t>(search->knowledge().groups.size()));
    CHECK(search->sharp_groups() == sharp);
    CHECK(sharp > 0);
  }
}

/// What a whole search prints, going on from `known`.
std::string text_after(const Space& space, SearchOptions o, Knowledge known = {}) {
  Search search(space, std::move(o));
  search.take(std::move(known));
  search.explore();
  return to_json(search, search.answer(), {});
}

TEST_CASE("ZeRO over one rank is counted as the step without it where events say the same, and only there") {
  const auto [stack, alike] = GENERATE(table<std::string, bool>({{"megatron-core", true}, {"neuronx", false}}));
  INFO(stack);
  const Asked asked{"llama2-7b", "dgx-a100-80gb", 8, 8,
                    {"tensor=8", "pipeline=1", "virtual_pipeline=1", "schedule=1f1b", "micro_batch_size=1", "zero_stage=0,1", "recompute=none", "sequence_parallel=false"}};
  const Space space = space_of(asked, stack);
  REQUIRE(space.size() == 2);
  Search search(space, options(10));
  search.explore();
  const Simulated without = search.judge().simulate(0), with = search.judge().simulate(1);
  CHECK((without.time_ps == with.time_ps && without.needed == with.needed) == alike);
  CHECK(at(search.answer().counts, Outcome::same) == (alike ? 1 : 0));
}

TEST_CASE("Shards put together answer as one search does, on any number of threads") {
  const Space space = space_of(kSpaces.front());
  for (const std::int64_t events : {500, 5}) {
    SearchOptions whole = options(), merging = options();
    whole.events = merging.events = events, merging.jobs.most = 2;
    Knowledge known;
    for (std::int64_t s = 0; s < 3; ++s) {
      SearchOptions part = options();
      part.shard = s, part.shards = 3;
      Search shard(space, part);
      shard.explore();
      known.take(shard.knowledge(), space.members());
    }
    CHECK(text_after(space, merging, std::move(known)) == text_after(space, whole));
  }
}

TEST_CASE("A search that is stopped anywhere goes on to the same answer") {
  const Space space = space_of(kSpaces.front());
  for (const std::int64_t events : {500, 3}) {
    SearchOptions whole = options();
    whole.events = events;
    Knowledge known;
    int stops = 0;
    for (bool ended = false; !ended;) {
      SearchOptions o = whole;
      bool stop = false;
      o.learned = [&] { stop = true; };  // after the first thing that is new
      o.jobs.stop = [&] { return stop; };
      Search search(space, o);
      search.take(std::move(known));
      try {
        search.explore();
        ended = true;
      } catch (const program::Interrupted&) {
        ++stops;
      }
      known = search.knowledge();
    }
    CHECK(stops >= 3);
    CHECK(text_after(space, whole, std::move(known)) == text_after(space, whole));
  }
}

TEST_CASE("A simulated layout that is fast enough is a row, even if a bound says that it is slower") {
  const Space space = space_of(kSpaces.front());
  Search right(space, options());
  right.explore();
  const Answer expected = right.answer();
  REQUIRE(expected.best.size() == 3);
  Knowledge known = right.knowledge();
  const auto group = static_cast<std::size_t>(expected.best.front().id / space.members());
  known.facts[group].floor_ps = 2 * expected.limit_ps;  // a bound that is wrong
  Search wrong(space, options());
  wrong.take(std::move(known));
  const Answer answer = wrong.answer();
  REQUIRE(answer.best.size() == expected.best.size());
  for (std::size_t i = 0; i < answer.best.size(); ++i) CHECK(answer.best[i].id == expected.best[i].id);
  std::string reason;
  CHECK(wrong.outcome(answer.best.front().id, answer, reason) == Outcome::simulated);
  CHECK(at(answer.counts, Outcome::simulated) >= 3);
}

/// Explores a search of either kind. Returns what became of its candidates, and its rows.
std::pair<Counts, std::vector<CandidateId>> explored(Search& search, Kind kind) {
  Answer answer;
  if (kind == Kind::front) answer = search.answer_from(explore_front(search).simulated, kNoLimit);
  else search.explore(), answer = search.answer();
  std::vector<CandidateId> rows;
  for (const Simulated& s : answer.best) rows.push_back(s.id);
  return {answer.counts, rows};
}

TEST_CASE("A kept file serves the other kind of search by its simulations, which answers as without the file") {
  const Space space = space_of(kSpaces[3]);
  const TemporaryFolder folder;
  for (const Kind kind : {Kind::fastest, Kind::front}) {
    const Kind other = kind == Kind::front ? Kind::fastest : Kind::front;
    const std::string file = folder.at("kept" + std::to_string(static_cast<int>(kind)) + ".json");
    Search first(space, options()), alone(space, options()), after(space, options()), same(space, options());
    const auto answer = explored(first, kind);
    Keeper(file, {}, kind, {&first}).write(true);
    CHECK(Keeper(file, {}, kind, {&same}).resume() == Resumed::all);
    CHECK(same.knowledge().facts == first.knowledge().facts);
    CHECK(same.knowledge().groups == first.knowledge().groups);
    CHECK(same.knowledge().found.size() == first.knowledge().found.size());
    CHECK(explored(same, kind) == answer);
    CHECK(Keeper(file, {}, other, {&after}).resume() == Resumed::simulations);
    CHECK(after.knowledge().simulated.size() == first.knowledge().simulated.size());
    CHECK(explored(after, other) == explored(alone, other));
    CHECK_THROWS_WITH(merge({file}, other, {&after}), Catch::Contains("--pareto"));
  }
}

/// The values of an axis in an open search.
std::vector<std::string> values_of(const std::string& model, const std::string& field) {
  const Space space = space_of({model, "dgx-h100", 1024, 1024, {}});
  std::vector<std::string> out;
  for (const AxisValue& v : space.axes()[static_cast<std::size_t>(space.axis_of(field))].values) out.push_back(v.text);
  return out;
}

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
  CHECK(sets("llama3-8b", "dgx-h100", "") == std::vector<std::string>{R"(["core_attention"])", R"(["norm"])", R"(["norm","mlp"])"});
  CHECK(sets("llama3-8b", "mi300x-8x400g", "") == sets("llama3-8b", "dgx-h100", ""));
  CHECK(sets("llama3-8b", "dgx-h100", "megatron-core@2024-07") == none);
  CHECK(sets("llama3-8b", "dgx-h100", "torchtitan") == operations);
  CHECK(sets("llama3-8b", "hls-gaudi3", "") == none);
  CHECK(sets("gpt-1.3b-moe128", "hls-gaudi3", "") == none);
  CHECK(sets("deepseek-v3", "dgx-h100", "") == std::vector<std::string>{R"(["core_attention"])", R"(["norm","mla_up_proj","moe_activation"])",
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

TEST_CASE("Numbers alone refuse only groups that their plans refuse, for the same reason") {
  for (const Asked& asked : kSpaces) {
    const Space space = space_of(asked);
    const Judge judge(space, {});
    for (std::int64_t g = 0; g < space.groups(); ++g) {
      const GroupView view = judge.group(g);
      const std::optional<Outcome> simple = judge.refused_by_numbers(g);
      if (simple) CHECK(*simple == view.outcome);
      if (view.outcome == Outcome::devices || view.reason.starts_with("training.global_batch_size")) CHECK(simple);
    }
  }
}

TEST_CASE("A search that is stopped answers with what it has simulated, and leaves the rest out") {
  const Space space = space_of(kSpaces.front());
  SearchOptions o = options(4);
  bool stop = false;
  const Search* running = nullptr;
  o.learned = [&] { stop = running->knowledge().simulated.size() >= 2; };
  o.jobs.stop = [&] { return stop; };
  Search search(space, o);
  running = &search;
  REQUIRE_THROWS_AS(search.explore(), program::Interrupted);
  const Answer answer = search.answer_so_far(2);
  CHECK(answer.interrupted);
  CHECK(!answer.complete);
  REQUIRE(answer.best.size() == 2);
  for (const auto& [id, s] : search.knowledge().simulated)
    if (s.fits && id != answer.best[0].id && id != answer.best[1].id) CHECK(s.time_ps >= answer.best[1].time_ps);
  CHECK(at(answer.counts, Outcome::bounded) == 0);
  CHECK(at(answer.counts, Outcome::left) > 0);
  CHECK(search.settled_groups() > 0);
  CHECK(search.settled_groups() < space.groups());
  const auto slower = [](const Found& a, const Found& b) { return a.estimate_ps < b.estimate_ps; };
  CHECK(std::is_sorted(answer.estimated.begin(), answer.estimated.end(), slower));
}

TEST_CASE("A search where nothing fits says so and still counts every candidate") {
  const Space space = space_of({"gpt3-175b", "dgx-a100-80gb", 8, 32, {"virtual_pipeline=1", "micro_batch_size=1", "recompute=full"}});
  Search search(space, options());
  search.explore();
  const Answer answer = search.answer();
  CHECK(answer.best.empty());
  CHECK(at(answer.counts, Outcome::too_large) > 0);
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
