#include "models/lowering/stage.hpp"

namespace tandem {
namespace lowering {

Templates make_templates(const Shapes& s, TemplateLibrary& library) {
  Templates t;
  t.block_forward = library.add(block_forward(s));
  t.embed_forward = library.add(embed_forward(s));
  t.block_backward = {library.add(block_backward(s, true)), library.add(block_backward(s, false))};
  t.embed_backward = {library.add(embed_backward(s, true)), library.add(embed_backward(s, false))};
  t.head_forward = {library.add(head_forward(s, true)), library.add(head_forward(s, false))};
  t.head_backward = {library.add(head_backward(s, true)), library.add(head_backward(s, false))};
  t.send_forward = library.add(transfer("send_forward", s, true, 1));
  t.send_backward = library.add(transfer("send_backward", s, true, -1));
  t.recv_forward = library.add(transfer("recv_forward", s, false, -1));
  t.recv_backward = library.add(transfer("recv_backward", s, false, 1));
  t.tie = library.add(tie(s));
  return t;
}

}  // namespace lowering

TaskGraph lower(const Plan& plan) {
  require_lowerable(plan);
  const lowering::Shapes shapes = lowering::make_shapes(plan);
  lowering::TemplateLibrary library;
  const lowering::Templates templates = lowering::make_templates(shapes, library);
  TaskGraph graph;
  for (std::int32_t s = 0; s < plan.parallel.pipeline; ++s)
    graph.programs.push_back(lowering::lower_stage({plan, shapes, templates, library}, StageId(s)));
  graph.templates = library.take();
  return graph;
}

}  // namespace tandem
