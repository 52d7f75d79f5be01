// Tensors that PyTorch fills before anybody writes them: torch.utils.deterministic.fill_uninitialized_memory, on with
// torch.use_deterministic_algorithms. empty, empty_like, empty_strided and resize_ then end with a kernel that fills what they
// gave with NaN, in integers with their largest value (pytorch/pytorch: aten/src/ATen/native/TensorFactories.h,
// fill_empty_deterministic_, called in native/cuda/TensorFactories.cu). Extensions allocate by the same calls; element-wise and
// reducing kernels of PyTorch itself do not (their outputs come from at::detail::empty_cuda, not read again), and what is written
// in place is nothing new. What a pipeline receives is not filled here: its tensor's place is another template's.

#include <algorithm>

#include "models/lowering/templates/draft.hpp"

namespace tandem::lowering {
namespace {

/// Whether PyTorch's own kernel allocates the output, without the calls that fill.
bool makes_own_output(const Op& op) { return std::holds_alternative<Elementwise>(op) || std::holds_alternative<RowReduce>(op); }

class Filler {
 public:
  explicit Filler(DraftTemplate& t) : t_(t) {}

  void run() {
    const std::vector<Draft> all = std::move(t_.drafts);
    for (const Draft& d : all) {
      fill_outputs(d);
      filled_.push_back(d);
    }
    t_.drafts = std::move(filled_);
  }

 private:
  /// Whether it is scratch or a slot of activations. Gradients, weights and states are persistent.
  bool is_tensor(const Value& v) const { return v.scratch >= 0 || t_.slots[v.slot].kind == MemoryKind::activations; }

  /// Excludes outputs that the task also reads: it adds to these or writes only a part.
  void fill_outputs(const Draft& d) {
    if (makes_own_output(d.op) || std::holds_alternative<Fill>(d.op)) return;
    std::vector<Value> done = d.in;
    for (const Value& v : d.out) {
      const bool there = std::any_of(done.begin(), done.end(), [&](const Value& other) { return other.overlaps(v); });
      if (there || v.elements == 0 || !is_tensor(v)) continue;
      const std::string which = d.out.size() == 1 ? "" : std::to_string(done.size() - d.in.size());
      filled_.push_back({d.name + "_fill" + which, Fill{v.elements, v.dtype, true}, t_.compute, Stream::compute, {}, {v}, -1, {}});
      done.push_back(v);
    }
  }

  DraftTemplate& t_;
  std::vector<Draft> filled_;
};

}  // namespace

void fill_tensors(DraftTemplate& t) { Filler(t).run(); }

}  // namespace tandem::lowering
