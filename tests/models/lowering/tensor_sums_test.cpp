// What an input's gradient, summed over tensor ranks, may run beside: the weight's gradient waits for the sum or does not, and what
// it reads is gathered in time.

#include <algorithm>
#include <set>

#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;

namespace {

/// A GPT with an output matrix of its own, or a T5, over two tensor ranks.
TaskGraph graph_of(const std::string& family, bool sequence, const std::string& overlap) {
  const std::string t5 = R"(, "num_decoder_layers": 1)", own = R"(, "tie_embeddings": false)";
  return lower(parse_plan(
      R"({"model": {"family": ")" + family + R"(", "num_layers": 1, "hidden_size": 16, "num_attention_heads": 4, "vocab_size": 64)" +
          (family == "t5" ? t5 : own) + R"(}, "parallel": {"tensor": 2, "sequence_parallel": )" + (sequence ? "true" : "false") +
          overlap + R"(}, "training": {"seq_length": 8, "micro_batch_size": 1, "global_batch_size": 1)" +
          (family == "t5" ? R"(, "decoder_seq_length": 8)" : "") + R"(}, "cluster": {"preset": "cpu-host", "devices": 2}})",
      "sums.json"));
}

const Template& template_of(const TaskGraph& graph, const std::string& name) {
  const auto t = std::find_if(graph.templates.begin(), graph.templates.end(), [&](const Template& x) { return x.name == name; });
  REQUIRE(t != graph.templates.end());
  return *t;
}

std::uint16_t task_of(const Template& t, const std::string& name) {
  const auto k = std::find_if(t.tasks.begin(), t.tasks.end(), [&](const Task& x) { return x.name == name; });
  INFO(t.name << " " << name);
  REQUIRE(k != t.tasks.end());
  return static_cast<std::uint16_t>(k - t.tasks.begin());
}

/// All that must have ended before a task starts: what it depends on, and what its stream has before it.
std::set<std::uint16_t> before(const Template& t, std::uint16_t task) {
  std::set<std::uint16_t> seen;
  std::vector<std::uint16_t> ahead{task};
  while (!ahead.empty()) {
    const std::uint16_t at = ahead.back();
    ahead.pop_back();
    std::vector<std::uint16_t> next = t.tasks[at].deps;
    for (std::uint16_t k = at; k-- > 0;) {
      if (t.tasks[k].stream != t.tasks[at].stream) continue;
      next.push_back(k);
      break;
    }
    for (const std::uint16_t k : next)
      if (seen.insert(k).second) ahead.push_back(k);
  }
  return seen;
}

struct Column {
  std::string family, where, name, gather;
};

const Column kColumns[] = {
    {"gpt", "block_backward", "qkv", "ln1_all_gather"},          {"gpt", "block_backward", "fc1", "ln2_all_gather"},
    {"gpt", "head_backward", "logits", "final_norm_all_gather"}, {"t5", "decoder_backward", "cross_q", "cross_norm_all_gather"},
    {"t5", "decoder_backward", "cross_kv", "memory_all_gather"},
};

}  // namespace

TEST_CASE("a weight's gradient waits for the sum of its input's unless they overlap") {
  const Column c = kColumns[GENERATE(range(0, 5))];
  const bool sequence = GENERATE(false, true);
  const std::string overlap = GENERATE("", R"(, "overlap_tensor_sum": true)", R"(, "tensor_overlap": true)");
  INFO(c.where << " " << c.name << " " << sequence << overlap);
  const TaskGraph graph = graph_of(c.family, sequence, overlap);
  const Template& t = template_of(graph, c.where);
  const std::uint16_t weights = task_of(t, c.name + "_wgrad"), input = task_of(t, c.name + "_dgrad");
  const std::uint16_t sum = task_of(t, c.name + "_dgrad" + (sequence ? "_reduce_scatter" : "_all_reduce"));
  CHECK(before(t, sum).contains(input));
  CHECK(before(t, weights).contains(sum) == overlap.empty());
  if (!sequence) return;
  const std::uint16_t gather = task_of(t, c.gather);
  CHECK(before(t, weights).contains(gather));
  CHECK_FALSE(before(t, input).contains(gather));
  CHECK((gather < input) == !overlap.empty());
}

TEST_CASE("only a layer's collectives run in pieces, the head's and the embedding's do not") {
  const std::string overlap = GENERATE("", R"(, "overlap_tensor_sum": true)", R"(, "tensor_overlap": true)");
  INFO(overlap);
  const TaskGraph graph = graph_of("gpt", true, overlap);
  int inside = 0, outside = 0;
  for (const Template& t : graph.templates)
    for (const Task& k : t.tasks) {
      const auto* c = std::get_if<Collective>(&k.op);
      if (c == nullptr || c->group != Group::tensor || k.stream != Stream::tensor) continue;
      const bool layer = t.name.starts_with("block_");
      ++(layer ? inside : outside);
      INFO(t.name << " " << k.name);
      CHECK(c->chunked == (layer && overlap.find("\"tensor_overlap") != std::string::npos));
    }
  CHECK(inside > 4);
  CHECK(outside > 2);
}
