#include "models/plan/data_shape.hpp"

namespace tandem {
namespace {

ExampleKind kind_of(Family family) {
  if (family == Family::bert) return ExampleKind::masked;
  return family == Family::t5 ? ExampleKind::prefix : ExampleKind::next_token;
}

}  // namespace

DataShape data_shape(const Plan& plan) {
  DataShape d;
  d.kind = kind_of(plan.model.family);
  d.seq_length = plan.training.seq_length;
  d.decoder_seq_length = plan.training.decoder_seq_length;
  d.micro_batch_size = plan.training.micro_batch_size;
  d.global_batch_size = plan.training.global_batch_size;
  d.context = plan.parallel.context;
  d.masked_positions = plan.masked_positions();
  d.mask_token = static_cast<std::int32_t>(plan.model.vocab_size - 1);
  d.types = plan.model.token_types > 1;
  d.mtp = plan.model.mtp.num_layers;
  d.separate = plan.training.documents == Documents::separate;
  d.seed = plan.training.seed;
  return d;
}

}  // namespace tandem
