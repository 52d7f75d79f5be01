#include "models/planfile/attention_kernels.hpp"

#include "models/plan/library_attention.hpp"

namespace tandem {
namespace {

/// The kinds of attention that the plan's layers have.
std::set<Mixer> mixers(const ModelSpec& m) {
  std::set<Mixer> out;
  for (std::int64_t l = 0; l < m.total_blocks(); ++l)
    if (const LayerKind kind = m.kind(l); kind.has_attention()) out.insert(kind.mixer);
  return out;
}

AttentionTraits traits(const Plan& plan, Mixer mixer) {
  const ModelSpec& m = plan.model;
  const std::int64_t seen = mixer == Mixer::windowed ? m.window.size : mixer == Mixer::indexed ? m.indexer.topk : 0;
  const AttentionHeads heads = m.attention_heads(mixer);
  AttentionTraits a{activation_type(plan.training.dtypes.compute)};
  a.dropout = plan.training.dropout.attention;
  a.alibi = m.position_embedding == PositionEmbedding::alibi;
  a.window = seen > 0 && seen < plan.training.seq_length;
  a.soft_cap = m.attention_soft_cap > 0;
  a.documents = plan.training.documents == Documents::separate;
  a.gathers_ranks = plan.parallel.context > 1 && (plan.parallel.context_mode != ContextMode::ring || head_ranks(plan.parallel) > 1);
  a.head_dim = heads.head_dim;
  a.value_dim = heads.value_dim;
  return a;
}

}  // namespace

bool AttentionKernels::only_own() const {
  const std::set<AttentionKernel> own{AttentionKernel::own};
  return !why_own.empty() && forward == own && backward == own;
}

AttentionKernels attention_kernels(const Plan& plan, AttentionKernel named) {
  AttentionKernels out;
  if (!plan.training.flash_attention) return out;
  if (!plan.training.fusion.own_unusual_attention) return {{named}, {named}, ""};
  for (const Mixer mixer : mixers(plan.model)) {
    const std::string_view why = why_no_library(traits(plan, mixer));
    const bool sinks = plan.model.has_sinks(mixer);  // the backward pass reads their statistics alone
    out.forward.insert(why.empty() && !sinks ? named : AttentionKernel::own);
    out.backward.insert(why.empty() ? named : AttentionKernel::own);
    if (out.why_own.empty()) out.why_own = why.empty() && sinks ? "heads have sinks" : why;
  }
  return out;
}

}  // namespace tandem
