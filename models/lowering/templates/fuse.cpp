// Fuses tasks that one kernel of the fusion set performs together, found by what they
// read and write. Memory is planned afterwards, so tensors between fused tasks need none.

#include <algorithm>
#include <optional>

#include "models/lowering/shapes/fusion.hpp"
#include "models/lowering/templates/draft.hpp"

namespace tandem::lowering {
namespace {

bool same(const Value& a, const Value& b) {
  return a.slot == b.slot && a.scratch == b.scratch && a.offset == b.offset && a.elements == b.elements &&
         a.dtype == b.dtype;
}

/// Returns task `at` if it is of kind A, else null.
template <class A>
const A* kind_at(const DraftTemplate& t, std::size_t at) {
  return at < t.drafts.size() ? std::get_if<A>(&t.drafts[at].op) : nullptr;
}

/// Replaces the `gone` tasks behind task `at` by it.
void close_up(DraftTemplate& t, std::size_t at, std::size_t gone) {
  const std::int32_t stays = t.drafts[at].id;
  for (std::size_t i = at + 1; i <= at + gone; ++i) {
    const std::int32_t left = t.drafts[i].id;
    for (Draft& d : t.drafts) std::replace(d.after.begin(), d.after.end(), left, stays);
  }
  t.drafts.erase(t.drafts.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                 t.drafts.begin() + static_cast<std::ptrdiff_t>(at + gone) + 1);
}

// ---- a sum and its norm ----

void join_norm(DraftTemplate& t, std::size_t at) {
  const auto* add = kind_at<BiasDropoutAdd>(t, at);
  const auto* norm = kind_at<LayerNorm>(t, at + 1);
  if (add == nullptr || norm == nullptr) return;
  Draft &sum = t.drafts[at], &after = t.drafts[at + 1];
  if (!same(sum.out[0], after.in[0]) || add->rows != norm->rows || add->cols != norm->cols) return;
  const BiasDropoutAddNorm both{add->rows, add->cols,  add->dropout,  add->bias,
                                add->site, add->shard, norm->epsilon, norm->rms, norm->plain};
  sum.name += "_" + after.name;
  sum.op = both;
  sum.in.insert(sum.in.end(), after.in.begin() + 1, after.in.end());
  sum.out.insert(sum.out.end(), after.out.begin(), after.out.end());
  close_up(t, at, 1);
}

// ---- a matrix and its bias ----

void join_bias_gradient(DraftTemplate& t, std::size_t at) {
  const auto* product = kind_at<MatMul>(t, at);
  const auto* sums = kind_at<BiasGrad>(t, at + 1);
  if (product == nullptr || sums == nullptr || !product->trans_a) return;
  const bool same_gradient =
      same(t.drafts[at].in[0], t.drafts[at + 1].in[0]) && sums->rows == product->k && sums->cols == product->m;
  if (!same_gradient) return;
  std::get<MatMul>(t.drafts[at].op).sums = true;
  t.drafts[at].out.push_back(t.drafts[at + 1].out[0]);
  close_up(t, at, 1);
}

// ---- a product and the activation behind it ----

bool is_gelu(PointwiseKind kind, std::int64_t bias_cols) { return kind == PointwiseKind::gelu_tanh && bias_cols == 0; }

/// Whether the product's kernel can also apply an activation.
bool is_plain(const MatMul& o) { return !o.accumulate && !o.sums && o.activation == ProductActivation::none; }

void join_activation(DraftTemplate& t, std::size_t at) {
  const auto* product = kind_at<MatMul>(t, at);
  const auto* gelu = kind_at<Pointwise>(t, at + 1);
  if (product == nullptr || gelu == nullptr || !is_plain(*product) || !is_gelu(gelu->kind, gelu->bias_cols)) return;
  Draft &first = t.drafts[at], &then = t.drafts[at + 1];
  if (!same(first.out[0], then.in[0]) || first.dtype != then.dtype) return;
  std::get<MatMul>(first.op).activation = ProductActivation::gelu;
  first.name += "_" + then.name;
  first.out.push_back(then.out[0]);
  close_up(t, at, 1);
}

/// The one task that writes the scratch tensor of `v`, if it is a product before task `reader` and nobody else reads it.
std::optional<std::size_t> product_of(const DraftTemplate& t, const Value& v, std::size_t reader) {
  std::optional<std::size_t> product;
  for (std::size_t i = 0; i < t.drafts.size(); ++i) {
    const Draft& d = t.drafts[i];
    const auto in_scratch = [&](const Value& o) { return o.scratch == v.scratch; };
    const bool reads = std::any_of(d.in.begin(), d.in.end(), in_scratch);
    const bool writes = std::any_of(d.out.begin(), d.out.end(), in_scratch);
    if (i == reader ? writes : reads) return std::nullopt;
    if (!writes) continue;
    const auto* o = std::get_if<MatMul>(&d.op);
    if (product || i > reader || o == nullptr || !is_plain(*o) || !same(d.out[0], v)) return std::nullopt;
    product = i;
  }
  return product;
}

/// Whether task `at` may move to the place of task `to`: no task between them waits for it or writes its inputs.
bool may_move(const DraftTemplate& t, std::size_t at, std::size_t to) {
  const Draft& moved = t.drafts[at];
  for (std::size_t i = at + 1; i < to; ++i) {
    const Draft& d = t.drafts[i];
    if (std::find(d.after.begin(), d.after.end(), moved.id) != d.after.end()) return false;
    for (const Value& written : d.out)
      if (std::any_of(moved.in.begin(), moved.in.end(), [&](const Value& read) { return written.overlaps(read); })) return false;
  }
  return true;
}

/// Moves the product to the activation's place, where the activation's inputs exist.
void join_activation_gradient(DraftTemplate& t, std::size_t at) {
  const auto* gelu = kind_at<PointwiseBackward>(t, at);
  if (gelu == nullptr || !is_gelu(gelu->kind, gelu->bias_cols) || t.drafts[at].in[0].scratch < 0) return;
  const auto from = product_of(t, t.drafts[at].in[0], at);
  if (!from || t.drafts[*from].dtype != t.drafts[at].dtype || !may_move(t, *from, at)) return;
  Draft product = t.drafts[*from];
  const Draft last = t.drafts[at];
  t.scratch[static_cast<std::size_t>(last.in[0].scratch)] = Bytes(0);
  std::get<MatMul>(product.op).activation = ProductActivation::gelu_gradient;
  product.name += "_" + last.name;
  product.in.push_back(last.in[1]);
  product.out = last.out;
  product.after.insert(product.after.end(), last.after.begin(), last.after.end());
  for (Draft& d : t.drafts) std::replace(d.after.begin(), d.after.end(), last.id, product.id);
  t.drafts[at] = std::move(product);
  t.drafts.erase(t.drafts.begin() + static_cast<std::ptrdiff_t>(*from));
}

// ---- the loss ----

void join_loss(DraftTemplate& t, std::size_t at) {
  if (!kind_at<VocabMax>(t, at) || !kind_at<VocabExpSum>(t, at + 1) || !kind_at<CrossEntropy>(t, at + 2)) return;
  const Draft last = t.drafts[at + 2];
  CrossEntropy op = std::get<CrossEntropy>(last.op);
  op.one_kernel = true;
  for (const Value& v : {t.drafts[at].out[0], t.drafts[at + 1].out[0]})
    t.scratch[static_cast<std::size_t>(v.scratch)] = Bytes(0);
  Draft& loss = t.drafts[at];
  loss.name = last.name;
  loss.op = op;
  loss.in = {last.in[0], last.in[3]};
  loss.in.insert(loss.in.end(), last.in.begin() + 4, last.in.end());
  loss.out = last.out;
  loss.held = last.held;
  close_up(t, at, 2);
}

// ---- gradients that products add ----

/// One micro-batch's gradient before it is accumulated: a scratch
/// tensor that some tasks write and `add` adds to the total.
class Addition {
 public:
  Addition(DraftTemplate& t, const Draft& add) : t_(t), add_(add), from_(add.in[0]), to_(add.in[1]) {}

  /// Products add their outputs to the total directly. The other writers get a scratch tensor and an addition each.
  std::vector<Draft> replaced() {
    std::vector<Draft> rest;
    for (Draft& d : t_.drafts)
      if (d.id != add_.id)
        for (Value& v : d.out)
          if (v.scratch == from_.scratch) add_in(d, v, rest);
    if (rest.size() == 1) rest.front().name = add_.name;
    t_.scratch[static_cast<std::size_t>(from_.scratch)] = Bytes(0);
    return rest;
  }

  /// Whether `add` alone reads the scratch tensor, and a product writes some part of it.
  bool possible() const {
    bool product = false;
    for (const Draft& d : t_.drafts) {
      if (d.id == add_.id) continue;
      const auto in_scratch = [&](const Value& v) { return v.scratch == from_.scratch; };
      if (std::any_of(d.in.begin(), d.in.end(), in_scratch)) return false;
      const auto writes = std::count_if(d.out.begin(), d.out.end(), in_scratch);
      product = product || (writes > 0 && is_product(d.op));
    }
    return product;
  }

 private:
  static bool is_product(const Op& op) {
    return std::holds_alternative<MatMul>(op) || std::holds_alternative<GroupedWeightGrad>(op);
  }
  Value destination(const Value& v) const {
    const std::int64_t first = (v.offset - from_.offset) * 8 / bits(from_.dtype);
    return to_.part(first, v.elements);
  }
  void add_in(Draft& d, Value& v, std::vector<Draft>& rest) {
    const Value to = destination(v);
    if (is_product(d.op) && &v == &d.out[0]) {
      const auto adds = [&](auto& op) {
        op.accumulate = true;
        op.total = to.dtype;
      };
      if (auto* o = std::get_if<MatMul>(&d.op)) adds(*o);
      if (auto* o = std::get_if<GroupedWeightGrad>(&d.op)) adds(*o);
      d.in.push_back(to);
      v = to;
      return;
    }
    v = t_.new_scratch(v.dtype, v.elements);
    const Accumulate add{v.elements, v.dtype, to.dtype};
    rest.push_back({add_.name + "_" + d.name, add, add_.dtype, add_.stream, {v, to}, {to}, -1, {}});
  }

  DraftTemplate& t_;
  const Draft& add_;
  const Value from_, to_;
};

/// Places the remaining additions where the original one was.
void accumulate_in_products(DraftTemplate& t) {
  std::size_t at = 0;
  while (at < t.drafts.size()) {
    const Draft add = t.drafts[at];
    if (!adds_gradient(t, add) || !Addition(t, add).possible()) {
      ++at;
      continue;
    }
    std::vector<Draft> rest = Addition(t, add).replaced();
    if (!rest.empty()) rest.back().id = add.id;
    t.drafts.erase(t.drafts.begin() + static_cast<std::ptrdiff_t>(at));
    t.drafts.insert(t.drafts.begin() + static_cast<std::ptrdiff_t>(at), rest.begin(), rest.end());
    at += rest.size();
  }
}

}  // namespace

bool adds_gradient(const DraftTemplate& t, const Draft& d) {
  const auto* add = std::get_if<Accumulate>(&d.op);
  if (add == nullptr || add->overwrite || d.in[0].scratch < 0 || d.in[1].scratch >= 0) return false;
  return t.slots[d.in[1].slot].kind == MemoryKind::gradients;
}

void join_tasks(DraftTemplate& t, const Fusion& f) {
  for (std::size_t at = 0; at < t.drafts.size(); ++at) {
    if (f.residual_norm) join_norm(t, at);
    if (f.one_kernel_loss) join_loss(t, at);
    if (f.bias_gradient_in_product) join_bias_gradient(t, at);
    if (f.activation_in_product) join_activation(t, at);
  }
  for (std::size_t at = t.drafts.size(); f.activation_in_product && at-- > 0;) join_activation_gradient(t, at);
  if (f.accumulating_products) accumulate_in_products(t);
}

}  // namespace tandem::lowering
