#include "models/lowering/templates/unit_copies.hpp"

#include "models/lowering/templates/template_builder.hpp"

namespace tandem::lowering {
namespace {

void copy(TemplateBuilder& b, const std::string& name, const Value& from, const Value& to) {
  b.add(name, Accumulate{to.elements, from.dtype, to.dtype, true}, {from}, {to});
}

}  // namespace

Template gather_unit(const ReduceSpec& spec, DType stored, UnitCopies copies, bool from_host) {
  TemplateBuilder b(spec.name, spec.dtype);
  const MemoryKind kind = copies == UnitCopies::per_parameter ? MemoryKind::communication : MemoryKind::weights;
  const Value buffer = b.whole(b.slot("buffer", kind), spec.dtype, spec.elements);
  const Value shard = b.whole(b.slot("shard", MemoryKind::weights), stored, spec.elements / spec.shards);
  if (from_host) b.add("weights_from_host", HostCopy{shard.elements, stored, false}, {}, {shard}, Stream::host);
  if (spec.shards == 1) {
    copy(b, "copy", shard, buffer);
    return b.finish();
  }
  Value share = shard;
  if (copies == UnitCopies::per_parameter || stored != spec.dtype) {
    share = buffer.share(spec.group, spec.shards);
    copy(b, "copy_in", shard, share);
  }
  b.add("all_gather", Collective{CollectiveKind::all_gather, spec.group, spec.elements, spec.dtype, Reduce::sum}, {share}, {buffer},
        Stream::data);
  return b.finish();
}

Template copy_out(const ReduceSpec& spec) {
  TemplateBuilder b(spec.name, spec.dtype);
  const Value arrived = b.whole(b.slot("arrived", MemoryKind::communication), spec.dtype, spec.elements);
  copy(b, "copy_out", arrived, b.whole(b.slot("buffer", MemoryKind::weights), spec.dtype, spec.elements));
  return b.finish();
}

}  // namespace tandem::lowering
