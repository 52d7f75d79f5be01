#pragma once
// Copies that frameworks make around the gathers of ZeRO 3's units, and the type in which a rank stores its shards.
//
//   none            shards have the products' type, copied from the optimizer's; units are gathered to their place of use
//   flat            shards are the optimizer's, cast before each gather; units are gathered to their place of use. Gradients are
//                   concatenated in the reduction's type before it (PyTorch: torch/distributed/fsdp/_flat_param.py,
//                   _runtime_utils.py: parameters are views of one tensor, whose gradient autograd concatenates)
//   per_parameter   likewise, but a unit is gathered into its own tensor, from which its parameters are copied before use
//                   (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py: all_gather_copy_in, split_with_sizes_copy,
//                   chunk_cat). So does a loop over layers in XLA, which passes gathered weights to its next iteration
//                   (openxla/xla: gpu_compiler.cc; AddDoubleBufferingPasses is there to avoid the copy)
//
// There, copies before a gather run on their own stream; here on the compute stream, as they touch only a shard.
// Omitted: FSDP1's cast (if types differ) and division of gradients on the reduction stream, beside computation.

#include "models/lowering/templates/blocks.hpp"

namespace tandem::lowering {

/// Gathers a unit's weights from the ranks' shards, of type `stored`, into `buffer` in the type
/// of `spec`. `from_host`: ranks first copy their shards from host memory. Slots: buffer shard.
Template gather_unit(const ReduceSpec& spec, DType stored, UnitCopies copies, bool from_host);

/// Copies a unit from where it was gathered to where its parameters are used. Slots: arrived buffer.
Template copy_out(const ReduceSpec& spec);

}  // namespace tandem::lowering
