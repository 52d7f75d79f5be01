// Activations in flight against formulas derived by hand.
//
// Korthikanti et al., arXiv 2205.05198, count what a layer keeps for its backward pass of one micro-batch in bytes, tensors
// of 16 bits: sbh(34 + 5as/h) (equation 1), sbh(10 + 24/t + 5as/(ht)) on t tensor ranks (2), sbh/t (34 + 5as/h) with sequence
// parallelism (4), sbh 34/t with selective recomputation (6), 2 sbh with full recomputation (section 5), where
//   34 sbh = 11 attention (2 input of qkv, 4 queries and keys, 2 values, 2 input of the projection, 1 mask)
//          + 19 MLP (2 input, 8 input of GELU, 8 input of the second matrix, 1 mask) + 4 inputs of the two norms,
//   5as^2b = 2 softmax, 2 dropped softmax, 1 mask.
// Here masks are functions of (seed, step, index) and are drawn again, so the 2 sbh of hidden masks and the as^2b of the
// attention's are not kept: 32 sbh + 4as^2b. Each norm also keeps mean and deviation, 8 sb together. Without attention dropout
// softmax and dropped softmax are one tensor. Flash attention keeps 2asb of statistics instead of either. Of the 32 sbh the
// layer's input, 2 sbh, is the output of the layer before and stands apart from the rest.

#include "models/schedule/pass_work.hpp"
#include "tests/models/lowering/memory_case.hpp"
#include "tests/schedule_list.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

struct Kept {
  std::int64_t input = 0, rest = 0;  ///< bytes of a layer and micro-batch on one rank
  std::int64_t for_weights = 0;      ///< of the rest, what the weights' gradients read too
  std::int64_t all() const { return input + rest; }
};

/// What attention leaves of its core: probabilities, statistics or nothing.
std::int64_t core_bytes(const MemoryCase& c, bool flash, bool recomputed, bool dropout) {
  if (recomputed) return 0;
  const std::int64_t asb = c.heads / c.tensor * c.seq * c.batch;
  return flash ? 2 * asb : (dropout ? 4 : 2) * asb * c.seq;
}

Kept kept_by_layer(const MemoryCase& c, bool sequence_parallel, std::int64_t core) {
  const std::int64_t sb = c.seq * c.batch, sbh = sb * c.hidden, t = c.tensor, shared = sequence_parallel ? t : 1;
  Kept k;
  k.input = 2 * sbh / shared;
  // Inputs of qkv, of the MLP and of the second norm, and the statistics; what tensor ranks cut: qkv, context, two of the MLP.
  k.rest = (6 * sbh + 8 * sb) / shared + (6 + 2 + 16) * sbh / t + core;
  // Inputs of the four matrices: 2 sbh of qkv and of the MLP, which tensor ranks share or have whole, 2 and 8 of what they cut.
  k.for_weights = 4 * sbh / shared + (2 + 8) * sbh / t;
  return k;
}

MemoryCase small(std::int64_t tensor, bool sequence_parallel, bool flash, double dropout) {
  MemoryCase c;
  c.layers = 2;
  c.tensor = tensor;
  c.parallel["sequence_parallel"] = sequence_parallel;
  c.training["flash_attention"] = flash;
  c.training["dropout"] = {{"hidden", dropout}, {"attention", dropout}};
  return c;
}

/// Bytes that the only micro-batch keeps on the only stage, according to the memory plan.
Kept planned(const MemoryCase& c) {
  const TaskGraph graph = lower(c.plan());
  const StageOf stage(graph, 0);
  const std::uint32_t forward = stage.find("block_forward", 1, 0, Phase::forward);
  const std::uint32_t backward = stage.find("block_backward", 1, 0, Phase::backward);
  const Allocation &x = stage.behind(forward, "x"), &saved = stage.behind(forward, "saved");
  CHECK(x.last == backward);
  Kept k{x.bytes.count(), 0, 0};
  if (saved.last == backward) k.rest = saved.bytes.count();
  else CHECK(saved.last == forward);
  return k;
}

}  // namespace

TEST_CASE("a layer keeps sbh(8 + 24/t + 4as/(ht)) bytes, divided by t with sequence parallelism, and statistics") {
  const std::int64_t t = GENERATE(1, 2);
  const bool sp = GENERATE(false, true), flash = GENERATE(false, true);
  const double dropout = GENERATE(0.0, 0.1);
  if (sp && t == 1) return;
  const MemoryCase c = small(t, sp, flash, dropout);
  CAPTURE(t, sp, flash, dropout);
  const Kept expected = kept_by_layer(c, sp, core_bytes(c, flash, false, dropout > 0)), got = planned(c);
  CHECK(got.input == expected.input);
  CHECK(got.rest == expected.rest);
  if (flash || dropout == 0) return;
  // The same in the paper's words: equations 1, 2 and 4 less the masks and plus the statistics.
  const std::int64_t sb = c.seq * c.batch, sbh = sb * c.hidden, as2b = c.heads * c.seq * c.seq * c.batch;
  const std::int64_t paper = sp ? (34 * sbh + 5 * as2b) / t : 10 * sbh + 24 * sbh / t + 5 * as2b / t;
  CHECK(got.all() == paper - 2 * sbh / (sp ? t : 1) - as2b / t + 8 * sb / (sp ? t : 1));
}

TEST_CASE("selective recomputation of the core keeps neither scores nor statistics, full recomputation only the layer's input") {
  const std::int64_t t = GENERATE(1, 2);
  const bool sp = GENERATE(false, true), flash = GENERATE(false, true);
  if (sp && t == 1) return;
  MemoryCase c = small(t, sp, flash, 0.1);
  CAPTURE(t, sp, flash);
  c.training["recompute"] = "selective";
  c.training["recompute_modules"] = {"core_attention"};
  CHECK(planned(c).all() == kept_by_layer(c, sp, 0).all());
  c.training.erase("recompute_modules");
  c.training["recompute"] = "full";
  const Kept full = planned(c);
  CHECK(full.input == 2 * c.seq * c.batch * c.hidden / (sp ? t : 1));
  CHECK(full.rest == 0);
}

TEST_CASE("tensors that are kept begin at multiples of 256 bytes") {
  MemoryCase c = small(1, false, false, 0.1);
  c.seq = 5;
  c.hidden = 12;
  c.ffn = 20;
  const std::int64_t sb = c.seq * c.batch, sbh = sb * c.hidden, core = 2 * c.heads * c.seq * c.seq * c.batch;
  // Norm statistics, inputs of qkv, MLP and second norm and the context, qkv, both probabilities, both of the MLP.
  CHECK(planned(c).rest == 2 * aligned(4 * sb) + 4 * aligned(2 * sbh) + aligned(6 * sbh) + 2 * aligned(core) +
                               2 * aligned(2 * sb * c.ffn));
  CHECK(planned(c).input == aligned(2 * sbh));
}

namespace {

/// Chunks of a micro-batch that device d of p holds at once (references at each).
std::int64_t in_flight(ScheduleKind kind, const ScheduleShape& s, std::int64_t d) {
  const std::int64_t p = s.stages, m = s.micro_batches, v = s.chunks;
  switch (kind) {
    case ScheduleKind::gpipe: return m;                                                        // arXiv 1811.06965
    case ScheduleKind::breadth_first: return m * v;                                            // arXiv 2211.05953
    case ScheduleKind::one_f_one_b: return std::min(m, p - d);                                 // arXiv 2104.04473
    case ScheduleKind::interleaved: return std::min(m * v, 2 * (p - d - 1) + (v - 1) * p + 1); // arXiv 2205.05198, p | m
    case ScheduleKind::zb_h1: return std::min(m, p);                                           // arXiv 2401.10241
    case ScheduleKind::zb_h2: return std::min(m, 2 * p - 1);
    case ScheduleKind::dualpipe_v: return 2 * p + 1;                                           // deepseek-ai/DualPipe: README.md, PP + 1
    case ScheduleKind::zb_v: return std::min(m + std::min(m, d + 1), 2 * p);                   // arXiv 2401.10241 section 6, m >= 2p-1: 2p
    case ScheduleKind::v_half:
    case ScheduleKind::v_min: break;  // tests/models/schedule/controllable_memory_test.cpp
  }
  return 0;
}

MemoryCase pipeline(ScheduleKind kind, const ScheduleShape& s) {
  MemoryCase c;
  c.pipeline = s.stages;
  c.micro_batches = s.micro_batches;
  c.parallel["schedule"] = name(kind);
  c.parallel["virtual_pipeline"] = s.chunks;
  c.parallel["pipeline_split"] = std::vector<std::int64_t>(static_cast<std::size_t>(s.stages * s.chunks),
                                                           c.layers / (s.stages * s.chunks));
  return c;
}

/// Micro-batches that wait for their backward passes; with `in_flight` those that a split backward pass leaves behind wait too.
std::int64_t before_backward(ScheduleKind kind, const ScheduleShape& s, std::int64_t d) {
  if (kind == ScheduleKind::zb_h1) return in_flight(ScheduleKind::one_f_one_b, s, d);
  if (kind == ScheduleKind::zb_h2) return std::min(s.micro_batches, 2 * (s.stages - d) - 1);
  return in_flight(kind, s, d);
}

/// Most bytes of layers' inputs at once, each from its layer's forward to the last pass that reads it.
std::int64_t most_inputs(const StageOf& stage) {
  std::map<std::uint32_t, std::int64_t> change;
  for (std::uint32_t i = 0; i < stage.program().instances.size(); ++i) {
    if (stage.block(i) != "block_forward" || stage.program().instances[i].phase != Phase::forward) continue;
    const Allocation& x = stage.behind(i, "x");
    change[i] += x.bytes.count(), change[x.last + 1] -= x.bytes.count();
  }
  std::int64_t now = 0, peak = 0;
  for (const auto& [instance, by] : change) peak = std::max(peak, now += by);
  return peak;
}

}  // namespace

TEST_CASE("a stage keeps what its layers keep for every chunk in flight") {
  const auto kind = GENERATE(ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved, ScheduleKind::zb_h1,
                             ScheduleKind::zb_h2, ScheduleKind::dualpipe_v, ScheduleKind::zb_v);
  ScheduleShape s{GENERATE(2, 4), GENERATE(4, 8), kind == ScheduleKind::interleaved || folds(kind) ? 2 : 1};
  s.folded = folds(kind);
  if (kind == ScheduleKind::dualpipe_v && s.micro_batches < 2 * s.stages) return;
  const std::string recompute = GENERATE("none", "full");
  MemoryCase c = pipeline(kind, s);
  c.training["recompute"] = recompute;
  CAPTURE(name(kind), s.stages, s.micro_batches, recompute);
  const TaskGraph graph = lower(c.plan(), s);
  const Kept layer = kept_by_layer(c, false, core_bytes(c, false, false, false));
  for (std::int64_t d = 0; d < s.stages; ++d) {
    const StageOf stage(graph, d);
    const std::int64_t layers = c.layers / (s.stages * s.chunks), blocks = in_flight(kind, s, d) * layers;
    // A split backward pass reads the input in its first half.
    CHECK(most_inputs(stage) == before_backward(kind, s, d) * layers * layer.input);
    if (recompute != "none") continue;
    const std::int64_t later = splits_backwards(kind) ? layer.for_weights : 0;
    CHECK(stage.most(called("block_saved")) == before_backward(kind, s, d) * layers * (layer.rest - later));
    CHECK(stage.most(called("weight_inputs")) == blocks * later);
  }
}

TEST_CASE("with full recomputation one block's tensors are there at a time, but a zero-bubble schedule's wait for their weights") {
  const auto kind = GENERATE(ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved, ScheduleKind::zb_h1,
                             ScheduleKind::zb_h2);
  const ScheduleShape s{4, 8, kind == ScheduleKind::interleaved ? 2 : 1};
  MemoryCase c = pipeline(kind, s);
  c.training["recompute"] = "full";
  CAPTURE(name(kind));
  const TaskGraph graph = lower(c.plan(), s);
  const Kept layer = kept_by_layer(c, false, core_bytes(c, false, false, false));
  const std::int64_t later = splits_backwards(kind) ? layer.for_weights : 0;
  for (std::int64_t d = 0; d < s.stages; ++d) {
    // Weights follow the backward that is d (ZB-H1) or 2d (ZB-H2) later.
    const std::int64_t waiting = kind == ScheduleKind::zb_h1 ? d + 1 : 2 * d + 1, blocks = c.layers / s.stages;
    CHECK(StageOf(graph, d).most(called("block_saved")) == layer.rest - later);
    CHECK(StageOf(graph, d).most(called("weight_inputs")) == std::min(s.micro_batches, waiting) * blocks * later);
  }
}

TEST_CASE("a zero-bubble schedule keeps the gradients of every product's output until the weights, sbh(4 + 14/t) a layer") {
  // 2 sbh each of the projection's and the second matrix's outputs, which every tensor rank has whole (or its rows of);
  // 6 sbh of qkv's and 8 sbh of the first matrix's. With gradients that are sharded, what the first half has of them waits, too:
  // in fp32 of two norms' scales and shifts and two biases that are added after a sum, 6 h.
  const int zero = GENERATE(0, 2);
  const auto kind = GENERATE(ScheduleKind::zb_h1, ScheduleKind::zb_h2);
  const bool sp = GENERATE(false, true);
  const ScheduleShape s{4, 8, 1};
  MemoryCase c = pipeline(kind, s);
  c.tensor = 2;
  c.data = 2;
  c.parallel["zero_stage"] = zero;
  c.parallel["sequence_parallel"] = sp;
  const TaskGraph graph = lower(c.plan(), s);
  const std::int64_t sbh = c.seq * c.batch * c.hidden, early = zero == 2 ? 4 * 6 * c.hidden : 0;
  for (std::int64_t d = 0; d < s.stages; ++d) {
    const std::int64_t waiting = kind == ScheduleKind::zb_h1 ? d + 1 : 2 * d + 1;
    CHECK(StageOf(graph, d).most(called("weight_gradient_inputs")) ==
          std::min(s.micro_batches, waiting) * c.layers / s.stages * (4 * sbh / (sp ? c.tensor : 1) + 14 * sbh / c.tensor + early));
  }
}

TEST_CASE("all activations of a single stage at its peak") {
  // The peak is where the head's backward begins: every layer's tensors and input, the head's input, its normalised input with
  // statistics and the gradient of its logits in 32 bits (4sbv, section 4.3), and the hidden gradient that is being written; tokens and targets of the step.
  const std::string schedule = GENERATE("1f1b", "gpipe");
  MemoryCase c;
  c.micro_batches = 4;
  c.parallel["schedule"] = schedule;
  const TaskGraph graph = lower(c.plan());
  const std::int64_t sb = c.seq * c.batch, hidden = 2 * sb * c.hidden, flight = schedule == "gpipe" ? c.micro_batches : 1;
  const std::int64_t head = hidden + 4 * sb + 4 * sb * c.vocab, ids = 4 * sb * c.micro_batches;
  const std::int64_t layers = c.layers * kept_by_layer(c, false, core_bytes(c, false, false, false)).all();
  CHECK(StageOf(graph, 0).most(of_kind(MemoryKind::activations)) == flight * (layers + hidden + head) + hidden + 2 * ids);
}

TEST_CASE("transfers hold two receive buffers a direction at most") {
  const ScheduleShape s{4, 8, 1};
  const auto kind = GENERATE(ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zb_h1, ScheduleKind::zb_h2);
  const MemoryCase c = pipeline(kind, s);
  const TaskGraph graph = lower(c.plan(), s);
  const std::int64_t hidden = 2 * c.seq * c.batch * c.hidden;
  CHECK(StageOf(graph, 0).most(called("received_hidden")) == 0);
  for (std::int64_t d = 0; d + 1 < s.stages; ++d) {
    CAPTURE(name(kind), d);
    CHECK(StageOf(graph, d).most(called("received_gradient")) <= 2 * hidden);
    CHECK(StageOf(graph, d).most(called("received_gradient")) >= hidden);
    // What was received is the first layer's input, kept like any other; one more is on its way.
    const std::int64_t kept = before_backward(kind, s, d + 1);
    CHECK(StageOf(graph, d + 1).most(called("received_hidden")) == std::min(s.micro_batches, kept + 1) * hidden);
  }
}
