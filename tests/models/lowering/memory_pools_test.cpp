// What PyTorch's allocator reserves where FSDP allocates on streams of its own, and the root unit that stays gathered.
//
// c10/cuda/CUDACachingAllocator.cpp hands a block on only inside the stream that it was allocated on, so each stream keeps the most
// that it ever had. FSDP2 allocates what a gather writes and the summed gradients on streams of their own, FSDP1 also the weights
// where they are used and the gradients that it sends.

#include "tests/models/lowering/memory_case.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

/// On two data ranks.
MemoryCase sharded(const std::string& copies) {
  MemoryCase c = odd_sizes();
  c.data = 2;
  c.parallel = {{"zero_stage", 3}, {"bucket_bytes", "1 B"}, {"unit_copies", copies}};
  return c;
}

/// Bytes of the gathered parts of a GPT in bf16, each padded to whole blocks of 64 for both ranks.
struct Gathered {
  std::int64_t layer, word, positions, norm, output;
  std::int64_t ends() const { return word + positions + norm + output; }
};

Gathered gathered_of(const MemoryCase& c) {
  const auto bytes = [](std::int64_t elements) { return aligned(2 * up(up(elements, 64), 128)); };
  const std::int64_t h = c.hidden, f = c.ffn;
  const std::int64_t layer = 4 * h + (3 * h * h + 3 * h) + (h * h + h) + (f * h + f) + (f * h + h);
  return {bytes(layer), bytes(c.vocab * h), bytes(c.seq * h), bytes(2 * h), bytes(c.vocab * h)};
}

std::int64_t cached(const TaskGraph& graph) { return graph.programs.front().memory.cached_bytes.count(); }
std::int64_t live(const TaskGraph& graph) { return graph.programs.front().memory.live_peak_bytes.count(); }

}  // namespace

TEST_CASE("where one stream has all tensors nothing is reserved past the most that is alive") {
  CHECK(cached(lower(sharded("none").plan())) == 0);
}

TEST_CASE("FSDP2 reserves what arrives and the summed gradients beside the most that the computation has") {
  const MemoryCase c = sharded("per_parameter");
  const Gathered g = gathered_of(c);
  const TaskGraph graph = lower(c.plan());
  // One use ahead: the first two uses arrive together, later the next one while a layer waits to be copied out.
  const std::int64_t arrives = std::max({g.word + g.positions + g.layer, 2 * g.layer, g.layer + g.norm + g.output});
  CHECK(peaks_of(graph, 0, {"arrived_weights"}).named == arrives);
  const std::int64_t sums = peaks_of(graph, 0, {"gradients"}).named;
  const std::int64_t computation = peaks_of(graph, 0, {"arrived_weights", "gradients"}).others;
  CHECK(cached(graph) == arrives + sums + computation - live(graph));
  CHECK(cached(graph) > 0);
}

TEST_CASE("FSDP1 reserves gathered weights, and sent and summed gradients beside the most that the computation has") {
  MemoryCase c = sharded("flat");
  c.parallel["overlap_grad_reduce"] = true;
  c.training["dtypes"] = {{"gradients", "fp32"}, {"gradient_reduce", "fp32"}};
  const Gathered g = gathered_of(c);
  const TaskGraph graph = lower(c.plan());
  // One use ahead.
  const std::int64_t uses = std::max({g.word + g.positions + g.layer, 2 * g.layer, g.layer + g.norm + g.output});
  CHECK(peaks_of(graph, 0, {"unit_weights"}).named == uses);
  const std::int64_t sums = peaks_of(graph, 0, {"gradients", "sent_gradients"}).named;
  CHECK(sums > peaks_of(graph, 0, {"gradients"}).named);
  const std::int64_t computation = peaks_of(graph, 0, {"unit_weights", "gradients", "sent_gradients"}).others;
  CHECK(cached(graph) == uses + sums + computation - live(graph));
}

TEST_CASE("FSDP's summed gradients are made unit by unit as they are first summed, and stay to the end of the step") {
  MemoryCase c = sharded("per_parameter");
  c.micro_batches = GENERATE(1, 2);
  const TaskGraph graph = lower(c.plan());
  CHECK_NOTHROW(graph.check());
  const StageOf stage(graph, 0);
  const auto sums = [&](const char* block, std::int64_t layer, std::int64_t mb, Phase phase) {
    return stage.alive(stage.find(block, layer, mb, phase), called("gradients"));
  };
  // One of two ranks' half in fp32 has as many bytes as all of a unit in bf16.
  const Gathered g = gathered_of(c);
  const std::int64_t all = g.layer * c.layers + g.ends();
  CHECK(sums("head_backward", -1, 0, Phase::backward) == 0);
  CHECK(stage.alive(static_cast<std::uint32_t>(stage.program().instances.size() - 1), called("gradients")) == all);
  std::int64_t before = 0;
  for (std::int64_t l = c.layers; l-- > 0;) {
    const std::int64_t now = sums("block_backward", l, 0, Phase::backward);
    CHECK(now >= before);
    CHECK(now < stage.most(called("gradients")));
    before = now;
  }
  if (c.micro_batches == 2) CHECK(sums("embed_forward", -1, 1, Phase::forward) == stage.most(called("gradients")));
  // Not FSDP's: there from the start.
  c.parallel["unit_copies"] = "none";
  const TaskGraph plain = lower(c.plan());
  const StageOf other(plain, 0);
  CHECK(other.alive(0, called("gradients")) == other.most(called("gradients")));
}

TEST_CASE("the root unit is gathered once a micro-batch, and whole from its forward to the end of its backward pass") {
  MemoryCase c = sharded("per_parameter");
  c.parallel["root_unit"] = true;
  const Gathered g = gathered_of(c);
  const TaskGraph graph = lower(c.plan());
  CHECK_NOTHROW(graph.check());
  const StageOf stage(graph, 0);
  std::int64_t gathers = 0;
  for (std::uint32_t i = 0; i < stage.program().instances.size(); ++i) gathers += stage.block(i) == "weight_gather";
  CHECK(gathers == c.micro_batches * (4 + 2 * c.layers));
  // All of it arrives at once.
  CHECK(stage.most(called("arrived_weights")) == std::max(g.ends(), 2 * g.layer));
  for (std::int64_t mb = 0; mb < c.micro_batches; ++mb) {
    const auto holds = [&](const char* block, std::int64_t layer, Phase phase) {
      return stage.alive(stage.find(block, layer, mb, phase), called("unit_weights"));
    };
    CHECK(holds("embed_forward", -1, Phase::forward) == g.ends());
    for (std::int64_t l = 0; l < c.layers; ++l) {
      CHECK(holds("block_forward", l, Phase::forward) == g.ends() + g.layer);
      CHECK(holds("block_backward", l, Phase::backward) == g.ends() + g.layer);
    }
    CHECK(holds("embed_backward", -1, Phase::backward) == g.ends());
  }
}

TEST_CASE("the root unit's gradients leave together behind the backward pass, those of layers before") {
  MemoryCase c = sharded("per_parameter");
  c.parallel["root_unit"] = GENERATE(false, true);
  const bool root = c.parallel["root_unit"];
  const TaskGraph graph = lower(c.plan());
  const StageOf stage(graph, 0);
  for (std::int64_t mb = 0; mb < c.micro_batches; ++mb) {
    const std::uint32_t from = stage.find("head_backward", -1, mb, Phase::backward);
    const std::uint32_t to = stage.find("embed_backward", -1, mb, Phase::backward);
    std::int64_t before = 0, all = 0;
    for (std::uint32_t i = from; i < stage.program().instances.size(); ++i) {
      if (stage.block(i) != "grad_reduce" || stage.program().instances[i].micro_batch != mb) continue;
      ++all;
      before += i < to;
    }
    CHECK(all == c.layers + 4);
    CHECK(before == c.layers + (root ? 0 : 2));  // the head's two units leave at once, unless they wait for the embedding's two
  }
}

TEST_CASE("of an encoder and a decoder, words and positions that both use are in the root unit of every stage that has them") {
  const std::int64_t stages = GENERATE(1, 2);
  nlohmann::json p = {
      {"model", {{"family", "t5"}, {"num_layers", 3}, {"num_decoder_layers", 2}, {"hidden_size", 24}, {"num_attention_heads", 4},
                 {"vocab_size", 37}, {"position_embedding", "learned"}, {"max_position_embeddings", 21}, {"tie_embeddings", true}}},
      {"parallel", {{"pipeline", stages}, {"data", 2}, {"zero_stage", 3}, {"unit_copies", "per_parameter"}, {"root_unit", true}}},
      {"training", {{"seq_length", 16}, {"decoder_seq_length", 8}, {"micro_batch_size", 1}, {"global_batch_size", 4}}},
      {"cluster", {{"preset", "cpu-host"}, {"devices", 2 * stages}}}};
  if (stages == 2) p["parallel"]["pipeline_split"] = {3, 2};
  const TaskGraph graph = lower(parse_plan(p.dump(), "t5.json"));
  CHECK_NOTHROW(graph.check());
  const StageOf last(graph, stages - 1);
  std::int64_t gathers = 0;
  for (std::uint32_t i = 0; i < last.program().instances.size(); ++i) gathers += last.block(i) == "weight_gather";
  // Words, positions and the last norm once; blocks, and the norm between the stacks, in both passes.
  CHECK(gathers == 2 * (3 + 2 * (stages == 1 ? 5 + 1 : 2 + 1)));
  const std::pair<const char*, Phase> passes[] = {{"decoder_forward", Phase::forward}, {"decoder_backward", Phase::backward}};
  for (const auto& [block, phase] : passes) {
    std::int64_t held = 0;
    last.alive(last.find(block, 4, 0, phase), [&](const Allocation& a) { return held += a.name == "unit_weights", false; });
    CHECK(held == 3 + 1);  // and the block's own
  }
}
