#pragma once
// What a transformer block keeps for its backward pass, laid out alike in forward, recompute and backward.

#include "models/lowering/shapes.hpp"
#include "models/lowering/template_builder.hpp"

namespace tandem::lowering {

struct BlockSaved {
  Value ln1_stats, n1, qkv, probs, dropped, context, x2, ln2_stats, n2, fc1, activated;

  BlockSaved(const Shapes& s, std::uint16_t slot) {
    const DType d = s.dtypes.compute;
    const std::int64_t scores = s.batch * s.heads * s.seq * s.seq;
    SlotLayout at(slot);
    ln1_stats = at.add(d, 2 * s.tokens);
    n1 = at.add(d, s.tokens * s.hidden);
    qkv = at.add(d, s.tokens * s.qkv());
    probs = at.add(d, scores);
    dropped = s.attention_dropout > 0 ? at.add(d, scores) : probs;
    context = at.add(d, s.tokens * s.attention);
    x2 = at.add(d, s.tokens * s.hidden);
    ln2_stats = at.add(d, 2 * s.tokens);
    n2 = at.add(d, s.tokens * s.hidden);
    fc1 = at.add(d, s.tokens * s.fc1);
    activated = at.add(d, s.tokens * s.ffn);
  }
};

}  // namespace tandem::lowering
