// A loss of the whole vocabulary on every tensor rank, and inputs that stay gathered, as eager PyTorch has both: tensors counted by
// hand, one PyTorch operation after the other.

#include <algorithm>

#include "models/fields/fusion_file.hpp"
#include "tests/models/lowering/memory_case.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

MemoryCase shared_vocabulary(std::int64_t tensor) {
  MemoryCase c;
  c.layers = 2;
  c.hidden = 64;
  c.ffn = 256;
  c.vocab = 4096;
  c.tensor = tensor;
  return c;
}

TaskGraph with_set(const MemoryCase& c, const FusionSet& set, std::int64_t kept_outputs = 0) {
  Plan plan = c.plan();
  plan.training.fusion = set;
  plan.stack.facts.kept_outputs = kept_outputs;
  TaskGraph graph = lower(plan);
  CHECK_NOTHROW(graph.check());
  return graph;
}

const Template& template_of(const TaskGraph& graph, const std::string& name) {
  const auto& all = graph.templates;
  const auto found = std::find_if(all.begin(), all.end(), [&](const Template& t) { return t.name == name; });
  REQUIRE(found != all.end());
  return *found;
}

std::size_t number_of(const Template& t, const std::string& task) {
  const auto found = std::find_if(t.tasks.begin(), t.tasks.end(), [&](const Task& x) { return x.name == task; });
  INFO(t.name << " " << task);
  REQUIRE(found != t.tasks.end());
  return static_cast<std::size_t>(found - t.tasks.begin());
}

/// Scratch of at least `least` bytes that lies there while a task runs.
std::int64_t scratch_at(const Template& t, const std::string& task, std::int64_t least) {
  const auto k = static_cast<std::int32_t>(number_of(t, task));
  std::int64_t sum = 0;
  for (const ScratchTensor& s : t.scratch)
    if (s.first <= k && k <= s.last && s.bytes.count() >= least) sum += s.bytes.count();
  return sum;
}

bool has_task(const Template& t, const std::string& part) {
  return std::any_of(t.tasks.begin(), t.tasks.end(), [&](const Task& x) { return x.name.find(part) != std::string::npos; });
}

std::int64_t saved(const TaskGraph& graph, const std::string& block, const std::string& slot) {
  const StageOf stage(graph, 0);
  for (std::uint32_t i = 0; i < stage.program().instances.size(); ++i)
    if (stage.block(i) == block) return stage.behind(i, slot).bytes.count();
  throw std::runtime_error("no instance of " + block);
}

}  // namespace

TEST_CASE("eager PyTorch's loss has the logits of all tensor ranks, as many bytes as its operations allocate") {
  const std::int64_t t = GENERATE(2, 4);
  const MemoryCase c = shared_vocabulary(t);
  const std::int64_t n = c.seq * c.batch * c.vocab, least = n / t;
  const TaskGraph graph = with_set(c, fusion_set("eager")), shared = with_set(c, fusion_set("eager-loss-parallel"));
  const Template &forward = template_of(graph, "head_forward"), &backward = template_of(graph, "head_backward");
  // all_gather: the rank's own logits and all ranks' in one tensor; its copy to a list. cat: the list and what it is put together to.
  CHECK(scratch_at(forward, "logits_all_gather", least) == 2 * n / t + 2 * n);
  CHECK(scratch_at(forward, "logits_list", least) == 2 * n + 2 * n);
  CHECK(scratch_at(forward, "logits_join", least) == 2 * n + 2 * n);
  // float() beside the narrow logits, and both still there when log_softmax has written its output, which is kept.
  CHECK(scratch_at(forward, "logits_copy", least) == 2 * n + 4 * n);
  // The gathered tensor and the list wait for the device.
  CHECK(scratch_at(forward, "cross_entropy", least) == 2 * n + 4 * n + 2 * 2 * n);
  CHECK(saved(graph, "head_forward", "saved") - saved(shared, "head_forward", "saved") == 4 * n - 4 * n / t);
  // nll_loss' gradient; log_softmax' beside it; its narrow copy; the rank's share of that.
  CHECK(scratch_at(backward, "nll_gradient", least) == 4 * n);
  CHECK(scratch_at(backward, "log_softmax_backward", least) == 4 * n + 4 * n + 2 * 2 * n);
  CHECK(scratch_at(backward, "narrow_gradient", least) == 4 * n + 2 * n);
  CHECK(scratch_at(backward, "logits_dgrad", least) == 2 * n);
  const auto& gather = std::get<Collective>(forward.tasks[number_of(forward, "logits_all_gather")].op);
  CHECK((gather.kind == CollectiveKind::all_gather && gather.group == Group::tensor && gather.dtype == DType::bf16));
  CHECK(gather.elements == n);
  // Nothing is left to exchange in the loss, where the vocabulary-parallel one has a maximum and sums.
  CHECK_FALSE(has_task(forward, "all_reduce"));
  CHECK(has_task(template_of(shared, "head_forward"), "vocab_max_all_reduce"));
  CHECK_FALSE(has_task(template_of(shared, "head_forward"), "logits_all_gather"));
}

TEST_CASE("a loss of the whole vocabulary is the one kernel after the other that a single rank has") {
  const auto names = [](const Template& t) {
    std::vector<std::string> out;
    for (const Task& task : t.tasks) out.push_back(task.name);
    return out;
  };
  std::vector<std::string> shared = names(template_of(with_set(shared_vocabulary(2), fusion_set("eager")), "head_forward"));
  for (const char* more : {"logits_all_gather", "logits_list", "logits_join"}) {
    const auto at = std::find(shared.begin(), shared.end(), more);
    REQUIRE(at != shared.end());
    shared.erase(at);
  }
  CHECK(shared == names(template_of(with_set(shared_vocabulary(1), fusion_set("eager")), "head_forward")));
}

TEST_CASE("an engine that refers to the logits of two micro-batches holds 4 bytes a logit through the step") {
  MemoryCase c = shared_vocabulary(GENERATE(1, 2));
  c.micro_batches = 3;
  c.pipeline = GENERATE(1, 2);
  const std::int64_t n = c.seq * c.batch * c.vocab;
  const TaskGraph kept = with_set(c, fusion_set("eager"), 2), none = with_set(c, fusion_set("eager"));
  const StageOf stage(kept, c.pipeline - 1);
  for (std::uint32_t i = 0; i < stage.program().instances.size(); ++i) CHECK(stage.alive(i, called("kept_logits")) == 2 * 2 * n);
  CHECK(StageOf(none, c.pipeline - 1).most(called("kept_logits")) == 0);
  if (c.pipeline > 1) CHECK(StageOf(kept, 0).most(called("kept_logits")) == 0);
  // Megatron's loss writes over its fp32 copy: its set counts what DeepSpeed keeps of that.
  CHECK(StageOf(with_set(c, fusion_set("megatron"), 2), c.pipeline - 1).most(called("kept_logits")) == 0);
}

TEST_CASE("rows that eager PyTorch gathers for a product stay for its weight's gradient and are not gathered again") {
  MemoryCase c = shared_vocabulary(2);
  c.parallel = {{"sequence_parallel", true}};
  FusionSet again = fusion_set("eager");
  again.gathered_inputs = false;
  const TaskGraph kept = with_set(c, fusion_set("eager")), gathered = with_set(c, again);
  const std::int64_t tokens = c.seq * c.batch;
  // The inputs of attention and MLP, of all rows in place of half of them.
  CHECK(saved(kept, "block_forward", "saved") - saved(gathered, "block_forward", "saved") == 2 * 2 * (tokens - tokens / 2) * c.hidden);
  for (const std::string norm : {"ln1", "ln2"}) {
    CHECK(has_task(template_of(kept, "block_forward"), norm + "_all_gather"));
    CHECK_FALSE(has_task(template_of(kept, "block_backward"), norm + "_all_gather"));
    CHECK(has_task(template_of(gathered, "block_backward"), norm + "_all_gather"));
  }
  c.parallel = {{"sequence_parallel", false}};
  CHECK(saved(with_set(c, fusion_set("eager")), "block_forward", "saved") == saved(with_set(c, again), "block_forward", "saved"));
}

TEST_CASE("eager PyTorch casts bf16 scores to fp32 for their softmax and back, and their gradients, too") {
  MemoryCase c = shared_vocabulary(1);
  c.model = {{"position_embedding", "rope"}};
  c.training = {{"flash_attention", false}, {"dropout", {{"attention", 0}}}};
  const TaskGraph graph = with_set(c, fusion_set("eager"));
  const std::int64_t n = c.batch * c.heads * c.seq * c.seq;
  const auto moved = [&](const Template& t, const std::string& task) {
    const Task& at = t.tasks[number_of(t, task)];
    return traffic(at.op, at.dtype).count();
  };
  const Template &forward = template_of(graph, "block_forward"), &backward = template_of(graph, "block_backward");
  CHECK(moved(forward, "softmax_mask") == (2 + 2) * n);
  CHECK(moved(forward, "softmax_widen") == (2 + 4) * n);
  CHECK(moved(forward, "softmax") == (4 + 4) * n);
  CHECK(moved(forward, "softmax_narrow") == (4 + 2) * n);
  CHECK(moved(backward, "softmax_backward_widen") == (2 + 4) * n);
  CHECK(moved(backward, "softmax_backward") == (4 + 4 + 4) * n);
  CHECK(moved(backward, "softmax_backward_narrow") == (4 + 2) * n);
  // Two fp32 tensors beside the narrow ones while the gradient is made.
  CHECK(scratch_at(backward, "softmax_backward", 4 * n) == 2 * 4 * n);
  // GPT-2's and BERT's files have the softmax in the scores' type.
  c.model = {{"position_embedding", "learned"}};
  const TaskGraph narrow = with_set(c, fusion_set("eager"));
  CHECK(moved(template_of(narrow, "block_forward"), "softmax") == (2 + 2) * n);
  CHECK_FALSE(has_task(template_of(narrow, "block_backward"), "softmax_backward_widen"));
}
