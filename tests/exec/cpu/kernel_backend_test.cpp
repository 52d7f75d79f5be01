#include <utility>

#include "models/graph/memory_plan.hpp"
#include "tests/exec/cpu/recurrence_cases.hpp"

namespace tandem::exec::test {
namespace {

constexpr std::int64_t kSeq = 5, kTokens = 3 * kSeq, kCols = 37, kElements = kTokens * kCols;
const AttentionDims kDims{3, 7, kSeq, 11};
constexpr std::int64_t kQkv = kTokens * 7 * 3 * 11, kContext = kTokens * 7 * 11, kSquare = 3 * 7 * kSeq * kSeq;
const VocabDims kVocab{kTokens, kCols, kCols - 4};

/// The exact sum 2^-18 so many times: 1056 bits above the lowest.
Operand one_word(std::int64_t sums = 1) {
  Values v(static_cast<std::size_t>(sums * kExactWords), 0.0);
  for (std::size_t i = 33; i < v.size(); i += static_cast<std::size_t>(kExactWords)) v[i] = 1;
  return words(v);
}
Operand tokens() { return integers(random_integers(kTokens, kCols - 4, 9)); }

std::vector<Call> linear_calls() {
  return {
      {MatMul{7, 5, 3, true, false, true}, {random(21, 1), random(15, 2), random(5, 3)}, {result(35)}},
      {BiasGrad{kTokens, kCols}, {random(kElements, 1)}, {result(kCols)}},
      {LayerNorm{kTokens, kCols, 1e-5},
       {random(kElements, 1), random(kCols, 2), random(kCols, 3)},
       {result(kElements), result(2 * kTokens)}},
      {LayerNormBackward{kTokens, kCols, true},
       {random(kElements, 1), random(kElements, 2), positive(2 * kTokens, 3), random(kCols, 4), random(kElements, 5)},
       {result(kElements), result(kCols), result(kCols)}},
      {Pointwise{kElements, PointwiseKind::gelu_tanh}, {random(kElements, 1)}, {result(kElements)}},
      {PointwiseBackward{kElements, PointwiseKind::gelu_tanh},
       {random(kElements, 1), random(kElements, 2)},
       {result(kElements)}},
      {GatedPointwise{kTokens, kCols, GateKind::silu}, {random(2 * kElements, 1)}, {result(kElements)}},
      {MatMul{7, 5, 3, true, false, false, true, DType::fp64, true},
       {random(21, 1), random(15, 2), fp64(random_values(35, 3))},
       {fp64(random_values(35, 3)), result(7)}},
      {Elementwise{kTokens, kCols, ElementwiseKind::multiply, Spread::row, 0.5},
       {random(kElements, 1), random(kTokens, 2)},
       {result(kElements)}},
      {SoftCap{kElements, 0.5}, {random(kElements, 1)}, {random(kElements, 1)}},
      {SoftCapBackward{kElements, 0.5}, {random(kElements, 1), random(kElements, 2)}, {random(kElements, 1)}},
      {RowGate{kTokens, kCols}, {random(kElements, 1), random(kTokens, 2)}, {result(kElements)}},
      {RowGateBackward{kTokens, kCols},
       {random(kElements, 1), random(kElements, 2), random(kTokens, 3)},
       {result(kElements), result(kTokens)}},
      {RowReduce{kTokens, kCols, RowReduceKind::inverse_root_of_mean, 1e-5}, {positive(kElements, 1)}, {result(kTokens)}},
      {BiasDropoutAddNorm{kTokens, kCols, 0.25, true, DropoutSite::mlp_output, false, 1e-5},
       {random(kElements, 1), random(kCols, 2), random(kElements, 3), random(kCols, 4), random(kCols, 5)},
       {result(kElements), result(kElements), result(2 * kTokens)}},
      {GatedPointwiseBackward{kTokens, kCols, GateKind::silu},
       {random(kElements, 1), random(2 * kElements, 2)},
       {result(2 * kElements)}},
      {BiasDropoutAdd{kTokens, kCols, 0.25, true, DropoutSite::mlp_output},
       {random(kElements, 1), random(kCols, 2), random(kElements, 3)},
       {result(kElements)}},
      {BiasDropoutAddBackward{kTokens, kCols, 0.25, true, DropoutSite::mlp_output},
       {random(kElements, 1)},
       {result(kElements), result(kCols)}}};
}

const AttentionDims kHeads{3, 7, kSeq, 10};

constexpr std::int64_t kListed = 3;
const IndexDims kIndex{3, 7, kSeq, 11, kListed};
AttentionDims listed_dims() {
  AttentionDims d = kDims;
  d.window = kListed;
  return d;
}
/// Lists of chosen keys, ascending, shorter where a query sees fewer.
Operand lists() {
  std::vector<int> all;
  for (std::int64_t s = 0; s < 3; ++s) all.insert(all.end(), {0, -1, -1, 0, 1, -1, 0, 1, 2, 0, 2, 3, 1, 2, 4});
  return integers(all);
}
FlashAttention to_chosen() {
  FlashAttention op{listed_dims(), 0, false};
  op.chosen = true;
  return op;
}
FlashAttentionBackward to_chosen_backward() {
  FlashAttentionBackward op{listed_dims(), 0, false};
  op.chosen = true;
  return op;
}

std::vector<Call> attention_calls() {
  return {{AttentionScores{kDims}, {random(kQkv, 1), random(kQkv, 2)}, {result(kSquare)}},
          {AttentionSoftmax{kDims, 0.25, true}, {random(kSquare, 1)}, {result(kSquare), result(kSquare)}},
          {AttentionSoftmax{kDims, 0, false, 8}, {random(kSquare, 1), random(7 * 8, 2)}, {result(kSquare)}},
          {AttentionContext{kDims}, {positive(kSquare, 1), random(kQkv, 2)}, {result(kContext)}},
          {AttentionContextBackward{kDims},
           {random(kContext, 1), positive(kSquare, 2), random(kQkv, 3)},
           {result(kSquare), random(kQkv, 4)}},
          {AttentionSoftmaxBackward{kDims, 0.25}, {random(kSquare, 1), positive(kSquare, 2)}, {result(kSquare)}},
          {AttentionSoftmaxBackward{kDims, 0, 8}, {random(kSquare, 1), positive(kSquare, 2)}, {result(kSquare), result(7 * 8)}},
          {AttentionScoresBackward{kDims},
           {random(kSquare, 1), random(kQkv, 2), random(kQkv, 4), random(kQkv, 3)},
           {random(kQkv, 3), same_as(0)}},
          {FlashAttention{kDims, 0.25, true}, {random(kQkv, 1), random(kQkv, 2)}, {result(kContext), result(3 * 7 * kSeq)}},
          {FlashAttentionBackward{kDims, 0.25, true},
           {random(kContext, 1), random(kQkv, 2), random(kQkv, 3), random(kContext, 4), positive(3 * 7 * kSeq, 5)},
           {result(kQkv), same_as(0)}},
          {to_chosen(), {random(kQkv, 1), random(kQkv, 2), lists()}, {result(kContext), result(3 * 7 * kSeq)}},
          {to_chosen_backward(),
           {random(kContext, 1), random(kQkv, 2), random(kQkv, 3), random(kContext, 4), positive(3 * 7 * kSeq, 5), lists()},
           {result(kQkv), same_as(0)}},
          {IndexTopK{kIndex},
           {random(kTokens * 77, 1), random(kTokens * 11, 2), random(kTokens * 7, 3)},
           {integer_result(kTokens * kListed)}},
          {IndexTarget{listed_dims()},
           {random(kQkv, 1), random(kQkv, 2), positive(3 * 7 * kSeq, 5), lists()},
           {result(kTokens * kListed)}},
          {IndexTopKBackward{kIndex, 4},
           {positive(kTokens * kListed, 1), random(kTokens * 77, 2), random(kTokens * 11, 3), random(kTokens * 7, 4), lists()},
           {result(kTokens * 77), result(kTokens * 11), result(kTokens * 7)}},
          {SplitKv{kTokens, kDims}, {random(kQkv, 1)}, {result(2 * kContext)}},
          {MergeKv{kTokens, kDims}, {random(2 * kContext, 1)}, {random(kQkv, 2)}},
          {PackColumns{kTokens, 36, 4}, {random(kTokens * 36, 1)}, {result(kTokens * 36)}},
          {UnpackColumns{kTokens, 36, 4}, {random(kTokens * 36, 1)}, {result(kTokens * 36)}},
          {PackColumns{kTokens, 32, 4, 2, 6}, {random(kTokens * 32, 1)}, {result(kTokens * 44)}},
          {UnpackColumns{kTokens, 32, 4, 2, 6}, {random(kTokens * 44, 1)}, {result(kTokens * 32)}},
          {PackColumns{kTokens, 32, 4, 2, 6, true}, {random(kTokens * 32, 1)}, {result(kTokens * 44)}},
          {UnpackColumns{kTokens, 32, 4, 2, 6, true}, {random(kTokens * 44, 1)}, {result(kTokens * 32)}},
          {OrderRows{2, 12, 7, 3}, {random(2 * 12 * 7, 1)}, {result(2 * 12 * 7)}},
          {OrderRows{2, 12, 7, 3, true}, {random(2 * 12 * 7, 1)}, {result(2 * 12 * 7)}},
          {TakePart{kTokens, 32, 4, 2, 6, true}, {random(kTokens * 32, 1)}, {result(kTokens * 11)}},
          {PlacePart{kTokens, 32, 4, 2, 6, true}, {random(kTokens * 11, 1)}, {result(kTokens * 32)}},
          {Dequantize{3 * 64, DType::nf4, DType::fp32}, {in_type(Operand::Kind::nf4, random(3 * 64, 1).values)}, {result(3 * 64)}},
          {TakeColumns{kTokens, 32, 5, 9}, {random(kTokens * 32, 1)}, {result(kTokens * 9)}},
          {AddColumns{kTokens, 32, 5, 9}, {random(kTokens * 9, 1), random(kTokens * 32, 2)}, {random(kTokens * 32, 2)}},
          {HeadNorm{kHeads, 1e-5},
           {random(kTokens * 210, 1), random(10, 2), random(10, 3)},
           {random(kTokens * 210, 1), result(kTokens * 140)}},
          {HeadNormBackward{kHeads, 1e-5},
           {random(kTokens * 210, 1), random(kTokens * 140, 2), random(10, 3), random(10, 4)},
           {random(kTokens * 210, 1), result(10), result(10)}},
          {HeadNorm{kHeads, 1e-5, true}, {random(kTokens * 210, 1)}, {random(kTokens * 210, 1), result(kTokens * 140)}},
          {HeadNormBackward{kHeads, 1e-5, true}, {random(kTokens * 210, 1), random(kTokens * 140, 2)}, {random(kTokens * 210, 1)}},
          {RowNormSums{kHeads}, {random(kTokens * 210, 1)}, {result(2 * kTokens)}},
          {RowNorm{kHeads, 2, 1e-5},
           {random(kTokens * 210, 1), random(70, 2), random(70, 3), positive(2 * kTokens, 4)},
           {random(kTokens * 210, 1), result(kTokens * 140)}},
          {RowNormDots{kHeads},
           {random(kTokens * 210, 1), random(kTokens * 140, 2), random(70, 3), random(70, 4)},
           {result(2 * kTokens)}},
          {RowNormBackward{kHeads, 2, 1e-5},
           {random(kTokens * 210, 1), random(kTokens * 140, 2), random(70, 3), random(70, 4), positive(2 * kTokens, 5),
            random(2 * kTokens, 6)},
           {random(kTokens * 210, 1), result(70), result(70)}},
          {LatentNorm{kTokens, 6, 4, 1e-5},
           {random(kTokens * 10, 1), random(6, 2)},
           {result(kTokens * 6), result(kTokens * 4), result(2 * kTokens)}},
          {LatentNormBackward{kTokens, 6, 4},
           {random(kTokens * 6, 1), random(kTokens * 4, 2), random(kTokens * 10, 3), positive(2 * kTokens, 4), random(6, 5)},
           {result(kTokens * 10), result(6)}},
          {LatentHeads{kHeads, 4, 1.5},
           {random(kTokens * 70, 1), random(kTokens * 112, 2), random(kTokens * 4, 3)},
           {result(kTokens * 210)}},
          {LatentHeadsBackward{kHeads, 4, 1.5},
           {random(kTokens * 210, 1)},
           {result(kTokens * 70), result(kTokens * 112), result(kTokens * 4)}},
          {Rotary{kHeads, 10000}, {random(kTokens * 210, 1)}, {random(kTokens * 210, 1)}}};
}

std::vector<Call> expert_calls() {
  const MoeDims dims{kTokens, 11, 7, 2, 0};
  const Operand slots =
      integers({0, 9, 1, 10, 2, 11, 3, 12, 4, 13, 5, 14, 6, 15, 7, 16, 8, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29});
  const Operand counts = integers({9, 9, 0, 2, 5, 5, 0}), logits = random(kTokens * 7, 1), weights = random(2 * kTokens, 2);
  const std::int64_t rows = dims.rows() * dims.hidden;
  MoeDims gathered = dims;
  gathered.here = 3;
  gathered.room = dims.rows();
  return {{ExpertSlots{gathered, 1}, {slots, counts}, {integer_result(2 * kTokens), integer_result(3)}},
          {TopKRouter{dims}, {logits}, {result(kTokens * 7), result(2 * kTokens), integer_result(2 * kTokens), integer_result(7)}},
          {TopKRouterBackward{dims, 0.01, 4},
           {weights, positive(kTokens * 7, 3), weights, slots, counts, logits},
           {result(kTokens * 7)}},
          {TopKRouter{dims, {RouterScores::sigmoid, true, 2.5, 7, 4, GroupScore::max, true}},
           {logits, random(7, 4)},
           {result(kTokens * 7), result(2 * kTokens), integer_result(2 * kTokens), integer_result(7)}},
          {TopKRouterBackward{dims, 0.01, 4, {RouterScores::sigmoid, true, 2.5, 7, 4, GroupScore::max, true}},
           {weights, positive(kTokens * 7, 3), weights, slots, counts, logits, random(7, 4)},
           {result(kTokens * 7)}},
          {TopKRouterBackward{dims, 0.01, 4, {}, 0.02},
           {weights, positive(kTokens * 7, 3), weights, slots, counts, logits},
           {result(kTokens * 7)}},
          {BalanceGrad{dims, 4}, {counts}, {result(7)}},
          {MoeDispatch{dims}, {random(kTokens * 11, 1), slots}, {result(rows)}},
          {MoeDispatchBackward{dims}, {random(rows, 1), slots}, {result(kTokens * 11)}},
          {MoeCombine{dims}, {random(rows, 1), slots, weights}, {result(kTokens * 11)}},
          {MoeCombineBackward{dims},
           {random(kTokens * 11, 1), random(rows, 3), slots, weights},
           {result(rows), result(2 * kTokens)}},
          {MoeDispatch{dims, true}, {random(kTokens * 11, 1), slots, weights}, {result(rows)}},
          {MoeDispatchBackward{dims, true},
           {random(rows, 1), slots, random(kTokens * 11, 3), weights},
           {result(kTokens * 11), result(2 * kTokens)}},
          {MoeCombine{dims, false}, {random(rows, 1), slots}, {result(kTokens * 11)}},
          {MoeCombineBackward{dims, false}, {random(kTokens * 11, 1), slots}, {result(rows)}},
          {GroupedMatMul{1, 7, 30, 5, 11, true, true}, {random(rows, 1), random(7 * 55, 2), counts}, {result(30 * 5)}},
          {GroupedMatMul{6, 3, 4, 5, 11}, {random(24 * 11, 1), random(3 * 55, 2)}, {result(24 * 5)}},
          {GroupedWeightGrad{1, 7, 30, 5, 11, true}, {random(30 * 5, 1), random(rows, 2), counts}, {result(7 * 55)}},
          {GroupedWeightGrad{6, 3, 4, 5, 11}, {random(24 * 5, 1), random(24 * 11, 2)}, {result(3 * 55)}},
          {GroupedBias{1, 7, 30, 11, false, true}, {random(rows, 1), random(77, 2), counts}, {random(rows, 1)}},
          {GroupedBiasGrad{1, 7, 30, 11, true}, {random(rows, 1), counts}, {result(77)}}};
}

std::vector<Call> embedding_and_loss_calls() {
  return {
      {Embedding{kTokens, 11, kCols}, {tokens(), random(kCols * 11, 1)}, {result(kTokens * 11)}},
      {EmbeddingBackward{kTokens, 11, kCols}, {tokens(), random(kTokens * 11, 1)}, {result(kCols * 11)}},
      {PositionDropout{3, kSeq, kCols, 0.25, true}, {random(kElements, 1), random(7 * kCols, 2)}, {result(kElements)}},
      {PositionDropoutBackward{3, kSeq, kCols, 7, 0.25, true},
       {random(kElements, 1)},
       {result(kElements), result(7 * kCols)}},
      {TakeFirst{3, kSeq, kCols}, {random(kElements, 1)}, {result(3 * kCols)}},
      {TakeFirstBackward{3, kSeq, kCols}, {random(3 * kCols, 1), random(kElements, 2)}, {random(kElements, 2)}},
      {VocabMax{kVocab}, {random(kElements, 1)}, {result(kTokens)}},
      {VocabExpSum{kVocab}, {random(kElements, 1), positive(kTokens, 2), tokens()}, {result(2 * kTokens)}},
      {CrossEntropy{kVocab, 77, true},
       {random(kElements, 1), positive(kTokens, 2), positive(2 * kTokens, 3), tokens()},
       {fp64(unwritten(1)), result(kElements)}}};
}

/// Of one matrix, that of whole_matrix().
const Muon kMuon{1, kTokens, kCols, kTokens, kCols, 1, 0.9, true, 0.5, 0.1, false};

std::vector<Call> optimizer_calls() {
  return {{Accumulate{kElements, DType::fp64, DType::fp64},
           {fp64(random_values(kElements, 1)), fp64(random_values(kElements, 2))},
           {fp64(random_values(kElements, 2))}},
          {Fill{kElements, DType::fp64}, {}, {fp64(unwritten(kElements))}},
          {GradNorm{kElements}, {random(kElements, 1)}, {word_result(1)}},
          {ClipCoefficient{1}, {one_word()}, {}},
          {AdamW{kElements, 0.9, 0.99, 1e-8, 0.1, false},
           {random(kElements, 1)},
           {random(kElements, 2), random(kElements, 3), positive(kElements, 4)}},
          {Sgd{kElements, 0.9, 0.1, false}, {random(kElements, 1)}, {random(kElements, 2), random(kElements, 3)}},
          {kMuon, {random(kElements, 1)}, {random(kElements, 2), random(kElements, 3), random(kMuon.room_elements(), 4)}},  // the room is not filled
          {TensorNorms{kElements, 2}, {random(kElements, 1)}, {word_result(2)}}};
}

std::vector<Call> layerwise_calls() {
  const Operand gradients = random(kElements, 1), weights = random(kElements, 2), exp_avg = random(kElements, 3),
                exp_avg_sq = positive(kElements, 4);
  const LayerwiseKind lamb = LayerwiseKind::lamb, lans = LayerwiseKind::lans;
  return {{LayerwiseMoments{lamb, kElements, 2, 0.9, 0.99, 1e-6, 0.1, false},
           {gradients, weights, exp_avg, exp_avg_sq},
           {exp_avg, exp_avg_sq, word_result(4)}},
          {LayerwiseMoments{lans, kElements, 2, 0.9, 0.99, 1e-6, 0.1, false},
           {gradients, weights, exp_avg, exp_avg_sq, one_word(2)},
           {exp_avg, exp_avg_sq, word_result(6)}},
          {LayerwiseApply{lamb, kElements, 2, 0.9, 0.99, 1e-6, 0.1, false},
           {gradients, exp_avg, exp_avg_sq, one_word(4), weights},
           {weights}},
          {LayerwiseApply{lans, kElements, 2, 0.9, 0.99, 1e-6, 0.1, false},
           {gradients, exp_avg, exp_avg_sq, one_word(6), one_word(2), weights},
           {weights}}};
}

std::vector<Call> all_calls() {
  std::vector<Call> all;
  for (const auto& some : {linear_calls(), attention_calls(), embedding_and_loss_calls(), expert_calls(), optimizer_calls(),
                           layerwise_calls(), recurrence_calls(RecurrenceRule::gated_delta, kSeq),
                           recurrence_calls(RecurrenceRule::mamba2, kSeq), recurrence_calls(RecurrenceRule::gated_delta, 70)}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::span<const ParamPiece> whole() {
  static const Param param = [] {
    Param p;
    p.global_index = 1;
    p.rows = kTokens;
    p.cols = kCols;
    p.offset = 0;
    p.decay = true;
    return p;
  }();
  static const ParamPiece piece{&param, 0, kElements, 0, 0, 0, true};
  return {&piece, 1};
}

/// The same as a matrix that Muon updates.
std::span<const ParamPiece> whole_matrix() {
  static const Param param = [] {
    Param p = *whole().front().param;
    p.matrices = {1, 1, {kTokens, 0, 0}, kCols, 1, 1};
    return p;
  }();
  static const ParamPiece piece{&param, 0, kElements, 0, 0, 0, true};
  return {&piece, 1};
}

bool is_computation(const Op& op) {
  return !is_communication(op) && !std::holds_alternative<HostCopy>(op) && !is_simulated_only(op);
}

std::vector<Values> run(const Call& call, DType dtype, std::int64_t threads = 0) {
  Kernels kernels(dtype);
  if (threads > 0) kernels.use(make_eager_cpu_backend(threads));
  kernels.context.seq_length = kSeq;
  kernels.pieces = std::holds_alternative<Muon>(call.op) ? whole_matrix() : whole();
  kernels.table = {.learning_rate = 0.01, .bias_correction1 = 0.1, .bias_correction2 = 0.01};
  Op op = call.op;
  if (auto* muon = std::get_if<Muon>(&op)) muon->gradients = muon->weights = muon->state = muon->iteration = dtype;
  auto results = kernels.run(op, call.inputs, call.outputs);
  results.push_back({kernels.table.grad_norm, kernels.table.clip_coefficient});
  return results;
}

/// Exact sums as the numbers that their words stand for.
std::vector<Values> with_sums_as_numbers(const Call& call, std::vector<Values> results) {
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    if (call.outputs[i].kind != Operand::Kind::int64) continue;
    Values numbers(results[i].size() / static_cast<std::size_t>(kExactWords), 0.0);
    for (std::size_t w = 0; w < results[i].size(); ++w) {
      const auto place = static_cast<int>(w % static_cast<std::size_t>(kExactWords));
      numbers[w / static_cast<std::size_t>(kExactWords)] += std::ldexp(results[i][w], 32 * place - 1074);
    }
    results[i] = numbers;
  }
  return results;
}

template <std::size_t... I>
std::vector<Op> one_of_each(std::index_sequence<I...>) {
  return {Op(std::in_place_index<I>)...};
}

}  // namespace

TEST_CASE("every kind of operation is supported in fp64, fp32, bf16 and fp16, moves numbers between ranks or is simulated only") {
  const auto backend = make_cpu_backend();
  for (Op op : one_of_each(std::make_index_sequence<kOpKinds>{})) {
    if (auto* a = std::get_if<Accumulate>(&op)) a->source = a->destination = DType::fp32;
    if (auto* d = std::get_if<Dequantize>(&op)) d->source = DType::nf4, d->destination = DType::fp32;
    INFO(kind_name(op));
    for (const DType dtype : {DType::fp32, DType::fp64, DType::bf16, DType::fp16})
      CHECK(backend->supports(op, {dtype, {}, {}}).possible == !(is_communication(op) || is_simulated_only(op)));
    for (const DType dtype : {DType::tf32, DType::fp8, DType::mxfp8, DType::int32, DType::int64}) {
      CHECK_FALSE(backend->supports(op, {dtype, {}, {}}).possible);
    }
  }
}

TEST_CASE("what is not supported is refused when it is run, by kind and type") {
  Kernels eighths(DType::fp8), doubles;
  CHECK_THROWS_WITH(eighths.run(BiasGrad{1, 1}, {real({1})}, {result(1)}),
                    Catch::Contains("bias_grad") && Catch::Contains("fp8"));
  CHECK_THROWS_AS(doubles.run(Send{1, DType::fp64, 1}, {real({1})}, {}), DeviceError);
  const auto can = [&](const Op& op, DType dtype) { return doubles.backend->supports(op, {dtype, {}, {}}).possible; };
  CHECK_FALSE(can(Accumulate{1, DType::fp8, DType::fp32}, DType::fp32));
  CHECK_FALSE(can(Accumulate{1, DType::int32, DType::int32}, DType::fp32));  // copied, never added
  CHECK_FALSE(can(MatMul{1, 1, 1, false, false, false, true, DType::fp8}, DType::fp32));
}

TEST_CASE("an operand in a type that no kernel reads is refused with its type") {
  const auto backend = make_cpu_backend();
  const std::array kept{DType::fp32, DType::int32}, half{DType::fp32, DType::bf16}, eighth{DType::fp32, DType::fp8};
  CHECK(backend->supports(BiasGrad{1, 1}, {DType::fp32, kept, kept}).possible);
  CHECK(backend->supports(BiasGrad{1, 1}, {DType::bf16, half, half}).possible);
  CHECK(backend->supports(BiasGrad{1, 1}, {DType::fp32, eighth, {}}).reason == "bias_grad in fp32 with an operand in fp8");
  CHECK(backend->supports(BiasGrad{1, 1}, {DType::fp64, {}, half}).reason == "bias_grad in fp64 with an operand in bf16");
  CHECK(backend->supports(Accumulate{1, DType::bf16, DType::fp64, true}, {DType::fp64, half, {}}).possible);
  const std::array remainders{DType::bf16, DType::fp32, DType::fp32, DType::bf16};
  CHECK(backend->supports(AdamW{1, 0.9, 0.9, 1e-8, 0, true}, {DType::bf16, {}, remainders}).reason ==
        "adamw with a master that holds what weights lack");
}

TEST_CASE("a missing operand is a broken promise, not a crash") {
  Kernels kernels;
  CHECK_THROWS_AS(kernels.run(BiasGrad{1, 1}, {}, {result(1)}), ContractError);
  CHECK_THROWS_AS(kernels.run(BiasGrad{1, 1}, {real({1})}, {}), ContractError);
  kernels.context.table = nullptr;
  CHECK_THROWS_AS(kernels.run(ClipCoefficient{1}, {one_word()}, {}), ContractError);
}

TEST_CASE("this file calls every computation") {
  std::vector<bool> called(kOpKinds);
  for (const Call& c : all_calls()) called[c.op.index()] = true;
  for (const Op& op : one_of_each(std::make_index_sequence<kOpKinds>{})) {
    INFO(kind_name(op));
    CHECK(called[op.index()] == is_computation(op));
  }
}

TEST_CASE("every operation writes every element of its outputs, and the same bits each time") {
  const DType dtype = GENERATE(DType::fp32, DType::fp64, DType::bf16, DType::fp16);
  for (const Call& c : all_calls()) {
    INFO(kind_name(c.op));
    const auto results = run(c, dtype);
    for (const Values& v : results)
      CHECK(std::none_of(v.begin(), v.end(), [](double x) { return std::isnan(x) || x == kUnwritten; }));
    CHECK(run(c, dtype) == results);
  }
}

TEST_CASE("every operation has the same bits whatever the number of threads", "[tsan][cpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::fp64, DType::bf16, DType::fp16);
  for (const Call& c : all_calls()) {
    INFO(kind_name(c.op));
    const auto one = run(c, dtype, 1);
    for (const std::int64_t threads : {2, 3, 4}) CHECK(run(c, dtype, threads) == one);
  }
}

TEST_CASE("every operation in floats agrees with doubles") {
  for (const Call& c : all_calls()) {
    INFO(kind_name(c.op));
    const auto in_float = with_sums_as_numbers(c, run(c, DType::fp32));
    const auto in_double = with_sums_as_numbers(c, run(c, DType::fp64));
    // Inputs are exact in floats.
    for (std::size_t i = 0; i < in_float.size(); ++i) check_close(in_float[i], in_double[i], c.in_floats);
  }
}

TEST_CASE("every operation in bf16 and fp16 agrees with doubles on the same operands, to the rounding of its results") {
  const DType type = GENERATE(DType::bf16, DType::fp16);
  const double epsilon = type == DType::bf16 ? 0x1p-7 : 0x1p-10;  // distance of 1 from the next number
  const auto rounded = [type](double v) {
    const auto x = static_cast<float>(v);
    return static_cast<double>(type == DType::bf16 ? from_bf16(to_bf16(x)) : from_fp16(to_fp16(x)));
  };
  for (Call c : all_calls()) {
    INFO(kind_name(c.op) << " in " << name(type));
    for (auto* operands : {&c.inputs, &c.outputs})
      for (Operand& o : *operands)
        if (o.kind == Operand::Kind::compute) std::transform(o.values.begin(), o.values.end(), o.values.begin(), rounded);
    const auto halves = with_sums_as_numbers(c, run(c, type));
    const auto doubles = with_sums_as_numbers(c, run(c, DType::fp64));
    // Half an epsilon is the result's own rounding; a norm behind a sum reads that rounded.
    for (std::size_t i = 0; i < halves.size(); ++i)
      if (!(std::holds_alternative<Muon>(c.op) && i == 2))  // its room holds no result
        check_close(halves[i], doubles[i], 1.5 * epsilon);
  }
}

TEST_CASE("an operand of 16 bits that a kernel writes in part keeps the rest bit for bit") {
  const std::int64_t rows = 3;
  const AttentionDims dims{1, 2, rows, 2};
  const Operand kv = in_type(Operand::Kind::bf16, random_values(rows * 8, 1));
  const Operand qkv = in_type(Operand::Kind::bf16, random_values(rows * 12, 2));
  Kernels kernels(DType::bf16);
  const Values merged = kernels.run(MergeKv{rows, dims}, {kv, qkv}, {qkv}).front(), before = qkv.values;
  for (std::size_t i = 0; i < merged.size(); ++i)
    if (i / 2 % 3 == 0) CHECK(merged[i] == static_cast<double>(from_bf16(to_bf16(static_cast<float>(before[i])))));
}

TEST_CASE("counted products equal the graph's matrix FLOPs, for every operation") {
  for (const Call& c : all_calls()) {
    Kernels kernels;
    kernels.context.seq_length = kSeq;
    kernels.pieces = std::holds_alternative<Muon>(c.op) ? whole_matrix() : whole();
    kernels.run(c.op, c.inputs, c.outputs);
    INFO(kind_name(c.op));
    CHECK(kernels.backend->counters().gemm_flops == matrix_flops(c.op).count());
  }
}

}  // namespace tandem::exec::test
