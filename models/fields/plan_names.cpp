#include "models/fields/plan_names.hpp"

namespace tandem {
namespace {

template <class E>
std::string_view spelled(E v) {
  return Spelling<E>::names.at(static_cast<std::size_t>(v));
}

}  // namespace

std::string_view name(Family v) { return spelled(v); }
std::string_view name(Activation v) { return spelled(v); }
std::string_view name(Normalization v) { return spelled(v); }
std::string_view name(NormPlacement v) { return spelled(v); }
std::string_view name(ParallelResidual v) { return spelled(v); }
std::string_view name(QkNorm v) { return spelled(v); }
std::string_view name(PositionEmbedding v) { return spelled(v); }
std::string_view name(RecurrenceRule v) { return spelled(v); }
std::string_view name(ScheduleKind v) { return spelled(v); }
std::string_view name(TokenDispatcher v) { return spelled(v); }
std::string_view name(ContextMode v) { return spelled(v); }
std::string_view name(OptimizerSync v) { return spelled(v); }
std::string_view name(UnitCopies v) { return spelled(v); }
std::string_view name(Recompute v) { return spelled(v); }
std::string_view name(OptimizerKind v) { return spelled(v); }
std::string_view name(MuonScale v) { return spelled(v); }
std::string_view name(DecayShape v) { return spelled(v); }
std::string_view name(CudaGraphs v) { return spelled(v); }
std::string_view name(Documents v) { return spelled(v); }
std::string_view name(FrozenWeights v) { return spelled(v); }
std::string_view name(AttentionKernel v) { return spelled(v); }
std::string_view name(RouterScores v) { return spelled(v); }
std::string_view name(GroupScore v) { return spelled(v); }

}  // namespace tandem
