#include <algorithm>

#include "models/base/error.hpp"
#include "models/graph/segments.hpp"
#include "models/lowering/cuda_graphs.hpp"
#include "models/lowering/stage/offload_copies.hpp"
#include "models/lowering/stage/stage.hpp"
#include "models/lowering/stage/stage_blocks.hpp"
#include "models/lowering/stage/stage_chunks.hpp"
#include "models/lowering/task_launches.hpp"
#include "models/lowering/templates/pieces.hpp"
#include "models/plan/mesh.hpp"

namespace tandem {
namespace lowering {
namespace {

template <class Make>
FirstAndLater pair(TemplateLibrary& library, bool always_first, Make&& make) {
  const TemplateId first = library.add(make(true));
  return {first, always_first ? first : library.add(make(false))};
}

/// One piece: the template itself.
std::vector<TemplateId> add_pieces(TemplateId whole, TemplateLibrary& library) {
  std::vector<Template> pieces = pieces_of(library[whole]);
  if (pieces.size() == 1) return {whole};
  std::vector<TemplateId> out;
  for (Template& p : pieces) out.push_back(library.add(std::move(p)));
  return out;
}

void add_pieces(BlockTemplates& t, TemplateLibrary& library) {
  t.forward_pieces = add_pieces(t.forward, library);
  t.backward_pieces = {add_pieces(t.backward.first, library), add_pieces(t.backward.later, library)};
}

BlockTemplates block_templates(const Shapes& s, bool always_first, TemplateLibrary& library) {
  const auto backward = [&](BackwardPart part) {
    return pair(library, always_first, [&](bool first) { return block_backward(s, {first, part}); });
  };
  BlockTemplates t;
  t.forward = library.add(block_forward(s));
  t.again = s.early_stop ? library.add(block_recompute(s)) : t.forward;
  t.backward = backward(s.defer_weights ? BackwardPart::input : BackwardPart::whole);
  if (s.defer_weights) t.weights = backward(BackwardPart::weights);
  for (const bool to_host : {true, false})
    if (auto copy = kept_copy(s, library[t.forward], to_host)) (to_host ? t.kept_out : t.kept_in) = library.add(std::move(*copy));
  if (s.adapters.here() && s.kind.index() == s.kinds.front().index())
    t.backward_end = pair(library, always_first, [&](bool first) { return block_backward(s, {first, BackwardPart::whole, true}); });
  return t;
}

TransferTemplates transfers(const Shapes& s, TemplateLibrary& library) {
  return {library.add(transfer("send_forward", s, true, 1)), library.add(transfer("send_backward", s, true, -1)),
          library.add(transfer("recv_forward", s, false, -1)), library.add(transfer("recv_backward", s, false, 1)),
          s.scatter_p2p ? library.add(gather_transfer(s)) : TemplateId()};
}

Shapes keeping_all(Shapes s) {
  s.keep = Keep{};
  return s;
}

DecoderTemplates decoder_templates(const Shapes& s, const TemplateChoice& choice, TemplateLibrary& library) {
  const bool always_first = choice.always_first;
  const Shapes d = s.decoder();
  DecoderTemplates t;
  if (choice.some_kept) t.kept_block = block_templates(keeping_all(d), always_first, library);
  t.block = block_templates(d, always_first, library);
  t.transfer = transfers(d, library);
  t.bridge_forward = library.add(bridge_forward(s, d));
  t.bridge_backward = pair(library, always_first, [&](bool first) { return bridge_backward(s, d, first); });
  t.pass_memory = library.add(memory_pass("memory_forward", d));
  t.pass_gradient = library.add(memory_pass("memory_backward", d));
  t.memory_start = library.add(memory_gradient_start(d));
  if (tables_region(s).elements() > 0) {
    t.tables_start = library.add(table_gradient_start(s));
    t.tables_add = library.add(table_gradient_add(s));
  }
  return t;
}

MtpTemplates mtp_templates(const Shapes& s, bool always_first, TemplateLibrary& library) {
  MtpTemplates t;
  t.final_norm_forward = library.add(state_norm_forward(s, false));
  t.norm_forward = library.add(state_norm_forward(s, true));
  t.forward = library.add(mtp_forward(s));
  t.final_norm_backward = pair(library, always_first, [&](bool first) { return state_norm_backward(s, false, first); });
  t.norm_backward = pair(library, always_first, [&](bool first) { return state_norm_backward(s, true, first); });
  t.backward = pair(library, always_first, [&](bool first) { return mtp_backward(s, first); });
  t.words = pair(library, always_first, [&](bool first) { return mtp_words(s, first); });
  return t;
}

}  // namespace

Templates make_templates(const Shapes& s, const TemplateChoice& choice, TemplateLibrary& library) {
  const bool always_first = choice.always_first;
  Templates t;
  for (const bool kept : {false, true}) {
    if (kept && !choice.some_kept) continue;
    for (const LayerKind kind : kinds_of(s)) {
      BlockTemplates& block = (kept ? t.kept_blocks : t.blocks)[kind.index()];
      block = block_templates((kept ? keeping_all(s) : s).of(kind), always_first, library);
      if (choice.pairs) add_pieces(block, library);
    }
  }
  if (s.on_host.input) t.input_out = library.add(input_copy(s, true)), t.input_in = library.add(input_copy(s, false));
  t.embed_forward = library.add(embed_forward(s));
  if (!s.adapters.here()) t.embed_backward = pair(library, always_first, [&](bool first) { return embed_backward(s, first); });
  Shapes last = s.decoder_layers > 0 ? s.decoder() : s;
  if (choice.evaluation) last.mtp = 0, last.loss_chunks = 1;
  if (last.mtp > 0) t.mtp = mtp_templates(last, always_first, library);
  t.head_forward = pair(library, false, [&](bool first) { return head_forward(last, first); });
  t.head_backward = last.loss_chunks > 1
                        ? pair(library, false, [&](bool first) { return head_backward(last, first || always_first, first); })
                        : pair(library, always_first, [&](bool first) { return head_backward(last, first, first); });
  if (shows_metrics(last)) t.metrics = library.add(metrics(last));
  t.transfer = transfers(s, library);
  if (s.decoder_layers > 0) t.decoder = decoder_templates(s, choice, library);
  return t;
}

}  // namespace lowering

namespace {

/// Templates that no program uses leave, and the others close up.
void drop_unused_templates(TaskGraph& graph) {
  std::vector<TemplateId> place(graph.templates.size());
  for (const Program& p : graph.programs)
    for (const Instance& i : p.instances) place[i.tmpl.index()] = i.tmpl;
  std::vector<Template> kept;
  for (std::size_t t = 0; t < place.size(); ++t) {
    if (place[t].value() < 0) continue;
    place[t] = TemplateId(static_cast<std::int32_t>(kept.size()));
    kept.push_back(std::move(graph.templates[t]));
  }
  for (Program& p : graph.programs)
    for (Instance& i : p.instances) i.tmpl = place[i.tmpl.index()];
  graph.templates = std::move(kept);
}

/// The plan of an evaluation: forward passes in the simplest order,
/// without dropout. MTP modules do not run; the loss is the next token's.
Plan forward_plan(const Plan& plan) {
  Plan p = plan;
  p.training.dropout = {};
  p.training.lora.dropout = 0;
  p.training.recompute = Recompute::none;
  p.parallel.offload.activations.clear();
  p.parallel.overlap_experts = false;
  if (!folds(p.parallel.schedule))  // where chunks lie otherwise
    p.parallel.schedule = p.parallel.virtual_pipeline > 1 ? ScheduleKind::interleaved : ScheduleKind::gpipe;
  return p;
}

/// If the stack keeps weights and gradients whole throughout a step, it shards only what ZeRO 1 shards.
Plan sharing_between_micro_batches(const Plan& plan) {
  Plan p = plan;
  if (plan.stack.facts.whole_between_micro_batches) p.parallel.zero_stage = 1;
  return p;
}

/// Inputs for the lowering of all stages of a plan.
class Lowering {
 public:
  explicit Lowering(const Plan& plan, bool every_pass = false, bool evaluation = false, bool weights_only = false)
      : plan_(sharing_between_micro_batches(plan)),
        every_pass_(every_pass),
        weights_only_(weights_only),
        shapes_(lowering::make_shapes(plan_)) {
    const bool some_kept = plan.training.recompute == Recompute::selective && plan.training.recompute_layers > 0;
    templates_ = lowering::make_templates(shapes_, {shapes_.sharded_gradients, some_kept, plan.runs_pairs(), evaluation}, library_);
  }

  ScheduleShape schedule() const {
    std::vector<PassWork> work;
    if (shapes_.defer_weights)
      for (const auto& chunks : lowering::stage_chunks(plan_))
        work.push_back(lowering::StageBlocks(plan_, shapes_, templates_, chunks).work(library_));
    return lowering::shape_of(plan_, work);
  }

  TaskGraph lower(const ScheduleShape& shape) {
    const ScheduleKind kind = plan_.parallel.schedule;
    return lower(make_events(kind, shape), false, has_exchanges(kind, shape), has_chunks(kind) ? chunk_group(kind, shape) : 1);
  }

  TaskGraph lower_forward() {
    const ScheduleShape shape = schedule();
    std::vector<std::vector<ScheduleEvent>> events;
    for (std::int32_t s = 0; s < shape.stages; ++s)
      events.push_back(make_forward_events(plan_.parallel.schedule, shape, StageId(s)));
    return lower(events, true, false, 1);
  }

 private:
  TaskGraph lower(const std::vector<std::vector<ScheduleEvent>>& events, bool forward_only, bool exchanges, std::int64_t group) {
    TaskGraph graph;
    graph.exposed_pieces = plan_.stack.facts.exposed_pieces;
    for (std::size_t s = 0; s < events.size(); ++s) {
      const Program* const before = s > 0 ? &graph.programs.back() : nullptr;
      const lowering::StageContext context{plan_,     shapes_,     templates_, library_, forward_only,
                                           exchanges, every_pass_, group,      before,     weights_only_};
      graph.programs.push_back(lowering::lower_stage(context, StageId(static_cast<std::int32_t>(s)), events[s]));
    }
    graph.templates = library_.take();
    const HostOperations& of_stack = plan_.stack.facts.host_operations;
    lowering::count_host_operations(graph, of_stack);
    if (of_stack.update_recorded) lowering::record_updates(graph);
    lowering::capture_graphs(graph, capture());
    return graph;
  }

  lowering::Capture capture() const {
    lowering::Capture c{plan_.training.cuda_graphs, 0, shapes_.capacity == 0, !plan_.parallel.overlap_param_gather};
    if (c.of != CudaGraphs::none) c.launch = plan_.stack.facts.graph_launches.of(c.of == CudaGraphs::iteration);
    return c;
  }

  const Plan plan_;
  bool every_pass_, weights_only_;
  lowering::Shapes shapes_;
  lowering::TemplateLibrary library_;
  lowering::Templates templates_;
};

}  // namespace

ScheduleShape schedule_shape(const Plan& plan) {
  require_lowerable(plan);
  return Lowering(plan).schedule();
}

TaskGraph lower(const Plan& plan, const ScheduleShape& shape) {
  require_lowerable(plan);
  require(shape.stages == plan.parallel.pipeline && shape.micro_batches == plan.micro_batches() &&
              shape.chunks == plan.parallel.virtual_pipeline,
          "a shape of another plan");
  return Lowering(plan).lower(shape);
}

TaskGraph lower(const Plan& plan) {
  require_lowerable(plan);
  Lowering all(plan);
  return all.lower(all.schedule());
}

TaskGraph lower_every_pass(const Plan& plan) {
  require_lowerable(plan);
  Lowering all(plan, true);
  return all.lower(all.schedule());
}

TaskGraph lower_evaluation(const Plan& plan, StatesKept kept) {
  const Plan forward = forward_plan(plan);
  require_lowerable(forward);
  TaskGraph graph = Lowering(forward, false, true, kept == StatesKept::weights).lower_forward();
  drop_unused_templates(graph);
  return graph;
}

}  // namespace tandem
