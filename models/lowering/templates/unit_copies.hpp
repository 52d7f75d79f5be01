#pragma once
// Copies that frameworks make around the gathers of ZeRO 3's units, and the type in which a rank stores its shards.
//
//   none            shares have the products' type, a copy of the optimizer's; units are gathered to where they are used
//   flat            shares are the optimizer's, made narrow before each gather; units are gathered to where they are used. Gradients are
//                   concatenated in the reduction's type before they leave (PyTorch: torch/distributed/fsdp/_flat_param.py,
//                   _runtime_utils.py: parameters are views of one tensor, whose gradient autograd concatenates)
//   per_parameter   the same, but a unit arrives in a tensor of its own, of which its parameters are copied before they are used
//                   (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py: all_gather_copy_in, split_with_sizes_copy, chunk_cat); so does
//                   a loop over layers in XLA, which hands what it gathered to its next iteration (openxla/xla: gpu_compiler.cc,
//                   AddDoubleBufferingPasses, is there to get rid of that)
//
// Copies before a gather run on a stream of their own there, on the compute stream here: they touch a share only. Left out is what
// FSDP1 does to gradients on the reduction's stream, beside computation: a cast where types differ, and a division.

#include "models/lowering/templates/blocks.hpp"

namespace tandem::lowering {

/// Gathers a unit's weights from the ranks' shards, of type `stored`, into `buffer` in the type
/// of `spec`. `from_host`: ranks first copy their shards from host memory. Slots: buffer shard.
Template gather_unit(const ReduceSpec& spec, DType stored, UnitCopies copies, bool from_host);

/// Copies a unit from where it was gathered to where its parameters are used. Slots: arrived buffer.
Template copy_out(const ReduceSpec& spec);

}  // namespace tandem::lowering
