#include "models/lowering/parameters.hpp"

namespace tandem::lowering {
namespace {

/// Tensors of a block: two norms and four matrices always, their shifts and biases where the model has them.
std::int32_t block_tensors(const Shapes& s) {
  return 6 + (s.rms ? 0 : 2) + (s.qkv_bias ? 1 : 0) + (s.linear_bias ? 3 : 0);
}

/// Takes consecutive places.
class Cursor {
 public:
  std::int64_t take(std::int64_t elements) {
    const std::int64_t at = next_;
    next_ += elements;
    return at;
  }
  std::int64_t end() const { return next_; }

 private:
  std::int64_t next_ = 0;
};

std::int32_t embedding_tensors(const Shapes& s) {
  return 1 + (s.learned_positions ? 1 : 0) + (s.embedding_norm ? (s.rms ? 1 : 2) : 0);
}

/// Collects the Param entries of one stage.
class ParamList {
 public:
  explicit ParamList(const Shapes& s) : s_(s) {}

  void vector(std::string name, std::int64_t offset, std::int64_t n, Param::Init init) {
    add({std::move(name), 0, offset, n, 1, n, 1, -1, false, true, init, 0});
  }
  /// A vector cut over tensor ranks.
  void sharded_vector(std::string name, std::int64_t offset, std::int64_t n) {
    add({std::move(name), 0, offset, n, 1, n * s_.tensor, 1, shard(0), false, true, Param::Init::zeros, 0});
  }
  /// [rows, cols] local; `dim` is the one that is cut.
  void matrix(std::string name, std::int64_t offset, std::int64_t rows, std::int64_t cols, int dim,
              Param::Init init = Param::Init::normal) {
    const std::int64_t t = s_.tensor;
    add({std::move(name), 0, offset, rows, cols, dim == 0 ? rows * t : rows, dim == 1 ? cols * t : cols, shard(dim),
         true, true, init, 0});
  }
  /// Following entries get consecutive indices from here, and lie `base` elements into the flat buffers.
  void at(std::int32_t global_index, std::int64_t base) { next_ = global_index; base_ = base; }
  Param& back() { return params_.back(); }
  std::vector<Param> take() { return std::move(params_); }

 private:
  int shard(int dim) const { return s_.tensor > 1 ? dim : -1; }
  void add(Param p) {
    p.offset += base_;
    p.global_index = p.init_id = next_++;
    params_.push_back(std::move(p));
  }

  const Shapes& s_;
  std::int32_t next_ = 0;
  std::int64_t base_ = 0;
  std::vector<Param> params_;
};

void add_block(ParamList& list, const Shapes& s, std::int64_t layer) {
  const BlockParams p = block_params(s);
  const std::string n = "layer" + std::to_string(layer) + ".";
  list.vector(n + "ln1.weight", p.ln1_weight, s.hidden, Param::Init::ones);
  if (!s.rms) list.vector(n + "ln1.bias", p.ln1_bias, s.hidden, Param::Init::zeros);
  list.matrix(n + "qkv.weight", p.qkv_weight, s.qkv(), s.hidden, 0);
  if (s.qkv_bias) list.sharded_vector(n + "qkv.bias", p.qkv_bias, s.qkv());
  list.matrix(n + "proj.weight", p.proj_weight, s.hidden, s.attention, 1, Param::Init::normal_scaled);
  if (s.linear_bias) list.vector(n + "proj.bias", p.proj_bias, s.hidden, Param::Init::zeros);
  list.vector(n + "ln2.weight", p.ln2_weight, s.hidden, Param::Init::ones);
  if (!s.rms) list.vector(n + "ln2.bias", p.ln2_bias, s.hidden, Param::Init::zeros);
  list.matrix(n + "fc1.weight", p.fc1_weight, s.fc1, s.hidden, 0);
  if (s.linear_bias) list.sharded_vector(n + "fc1.bias", p.fc1_bias, s.fc1);
  list.matrix(n + "fc2.weight", p.fc2_weight, s.hidden, s.ffn, 1, Param::Init::normal_scaled);
  if (s.linear_bias) list.vector(n + "fc2.bias", p.fc2_bias, s.hidden, Param::Init::zeros);
}

void add_embedding(ParamList& list, const Shapes& s) {
  const EmbeddingParams p = embedding_params(s);
  list.matrix("embedding.word.weight", p.word, s.vocab_rows, s.hidden, 0);
  if (s.learned_positions) list.matrix("embedding.position.weight", p.position, s.max_positions, s.hidden, -1);
  if (!s.embedding_norm) return;
  list.vector("embedding.norm.weight", p.norm_weight, s.hidden, Param::Init::ones);
  if (!s.rms) list.vector("embedding.norm.bias", p.norm_bias, s.hidden, Param::Init::zeros);
}

void add_head(ParamList& list, const Shapes& s, const StagePart& part) {
  const HeadParams p = head_params(s, part.own_output());
  list.vector("final_norm.weight", p.ln_weight, s.hidden, Param::Init::ones);
  if (!s.rms) list.vector("final_norm.bias", p.ln_bias, s.hidden, Param::Init::zeros);
  if (p.output < 0) return;
  // The copy of a tied matrix is parameter 0 once more: the same name, start and norm slot, counted once.
  list.matrix(s.tied ? "embedding.word.weight" : "output.weight", p.output, s.vocab_rows, s.hidden, 0);
  if (!s.tied) return;
  list.back().global_index = list.back().init_id = 0;
  list.back().in_norm = false;
}

Region append(std::int64_t& end, std::int64_t elements) {
  const Region r{end, elements};
  end += elements;
  return r;
}

}  // namespace

BlockParams block_params(const Shapes& s) {
  Cursor c;
  BlockParams p{};
  const std::int64_t shift = s.rms ? 0 : s.hidden, bias = s.linear_bias ? s.hidden : 0;
  p.ln1_weight = c.take(s.hidden);
  p.ln1_bias = c.take(shift);
  p.qkv_weight = c.take(s.qkv() * s.hidden);
  p.qkv_bias = c.take(s.qkv_bias ? s.qkv() : 0);
  p.proj_weight = c.take(s.hidden * s.attention);
  p.proj_bias = c.take(bias);
  p.ln2_weight = c.take(s.hidden);
  p.ln2_bias = c.take(shift);
  p.fc1_weight = c.take(s.fc1 * s.hidden);
  p.fc1_bias = c.take(s.linear_bias ? s.fc1 : 0);
  p.fc2_weight = c.take(s.hidden * s.ffn);
  p.fc2_bias = c.take(bias);
  p.elements = c.end();
  return p;
}

EmbeddingParams embedding_params(const Shapes& s) {
  Cursor c;
  EmbeddingParams p{};
  p.word = c.take(s.vocab_rows * s.hidden);
  p.position = s.learned_positions ? c.take(s.max_positions * s.hidden) : -1;
  p.norm_weight = s.embedding_norm ? c.take(s.hidden) : -1;
  p.norm_bias = s.embedding_norm ? c.take(s.rms ? 0 : s.hidden) : -1;
  p.elements = c.end();
  return p;
}

HeadParams head_params(const Shapes& s, bool own_output) {
  Cursor c;
  HeadParams p{};
  p.ln_weight = c.take(s.hidden);
  p.ln_bias = c.take(s.rms ? 0 : s.hidden);
  p.output = own_output ? c.take(s.vocab_rows * s.hidden) : -1;
  p.elements = c.end();
  return p;
}

StageParams stage_params(const Shapes& s, const StagePart& part) {
  StageParams out;
  ParamList list(s);
  const std::int32_t first_block = embedding_tensors(s);
  if (part.last) {
    out.head = append(out.flat_elements, head_params(s, part.own_output()).elements);
    list.at(first_block + block_tensors(s) * static_cast<std::int32_t>(part.total_layers), out.head.offset);
    add_head(list, s, part);
  }
  out.layers.resize(static_cast<std::size_t>(part.layers));
  for (std::int64_t l = part.layers; l-- > 0;) {
    Region& r = out.layers[static_cast<std::size_t>(l)];
    r = append(out.flat_elements, block_params(s).elements);
    list.at(first_block + block_tensors(s) * static_cast<std::int32_t>(part.first_layer + l), r.offset);
    add_block(list, s, part.first_layer + l);
  }
  if (part.first) {
    out.embedding = append(out.flat_elements, embedding_params(s).elements);
    list.at(0, out.embedding.offset);
    add_embedding(list, s);
  }
  out.params = list.take();
  return out;
}

std::int64_t global_parameter_count(const Shapes& s, std::int64_t total_layers) {
  return embedding_tensors(s) + block_tensors(s) * total_layers + (s.rms ? 1 : 2) + (s.tied ? 0 : 1);
}

}  // namespace tandem::lowering
