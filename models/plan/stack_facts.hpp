#pragma once
// What a framework at a date does with a plan: the values that the rules of its file come to for that plan.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "models/plan/mesh.hpp"
#include "models/plan/month.hpp"

namespace tandem {

/// Host operations of a task before its kernel is launched, by kind of task (`kind_name`). A task stands for one kernel, but the host
/// runs a module's Python, views, allocations, autograd's functions and hooks first. A device's `launch_s` is its host's time for one.
struct HostOperations {
  std::int64_t otherwise = 1;  ///< of kinds that are not listed
  std::map<std::string, std::int64_t, std::less<>> tasks;
  std::map<std::string, std::int64_t, std::less<>> per_parameter;  ///< more, for each parameter tensor of the stage
  bool update_recorded = false;  ///< nothing behind the last pass begins before the host has all of it (a lazily traced graph)

  /// Host operations of a task of this kind on a stage with that many parameter tensors.
  std::int64_t of(std::string_view kind, std::int64_t parameters) const;
};

/// A number of communicators of one group.
struct Communicators {
  Group group = Group::world;
  std::int64_t count = 1;
};

/// Attention without a score matrix keeps its output in 16 bits; the product behind it reads it.
enum class AttentionOutput : std::uint8_t {
  wide,  ///< one 16-bit output for both
  both,  ///< a narrow copy for the product besides
};

/// What products in 8 or 4 bits keep. Other products keep their input in the compute type.
struct NarrowProducts {
  bool inputs = false;             ///< inputs are kept narrow, in one copy, in place of those of the activations' type
  AttentionOutput attention_output = AttentionOutput::wide;
  std::int64_t weight_copies = 0;  ///< narrow copies of every matrix of linear layers, for the whole step; a narrow stored one counts
  std::int64_t scale_block = 0;    ///< elements of an input for each byte of scales; 0: a scale for each tensor, which is not counted
  std::int64_t weight_scale_block = 0;  ///< the same of a weight's copy
  bool states() const { return inputs || weight_copies > 0; }
};

/// Host operations of the launch of one CUDA graph.
struct GraphLaunches {
  std::int64_t layers = 0;     ///< of a layer's graph; 0: the stack's file does not mention graphs
  std::int64_t iteration = 0;  ///< of a step's graph
  bool said() const { return layers > 0; }
  /// Host operations that launch a step's graph or a layer's; 1 if the file does not say.
  std::int64_t of(bool step) const { return !said() ? 1 : step ? iteration : layers; }
};

/// Classes of tensors that a framework keeps in fp32 where activations are narrower.
struct WideTensors {
  bool statistics = false;          ///< of norms (mean, 1/std) and of attention without a score matrix (log of the sums)
  bool loss_sums = false;           ///< of a vocabulary: maxima, sums of exponentials, and what ranks exchange of them
  bool router = false;              ///< logits, probabilities and weights of a router, and their gradients
  bool chunk_gradients = false;     ///< of a loss in chunks: where the gradients of the chunks' states are collected
  bool parameter_gradient = false;  ///< of one micro-batch, before it is added: in the type of the accumulated gradient
};

/// A default that a rule of the stack gave a plan.
struct StackDefault {
  std::string field;   ///< dotted path
  std::string source;  ///< where the framework says so
  Month since, until;  ///< when it holds
};

/// All of them, for one plan.
struct StackFacts {
  Month read_until;                ///< the month of the newest code that the file was written from
  std::string read_commit;         ///< commit of that code
  HostOperations host_operations;
  std::vector<Communicators> communicators;  ///< made besides those of tasks; sends and receives count separately
  NarrowProducts narrow_products;
  GraphLaunches graph_launches;
  WideTensors wide_tensors;
  bool whole_between_micro_batches = false;  ///< pipelines under ZeRO 2 and 3 gather and reduce once a step
  bool buckets_in_first_chunk = false;       ///< other chunks' gradients are one bucket each; none holds those of two chunks
  bool caching_allocator = false;            ///< tensors on CUDA devices have to fit PyTorch's segments
  std::int64_t kept_outputs = 0;             ///< micro-batches whose logits the engine refers to on the last stage, until as many more have passed
  double exposed_pieces = 0;                 ///< share of a collective that stays under parallel.tensor_overlap, at least
  bool arena = false;                        ///< one allocation holds all tensors of a step, also what lies free between them
  std::vector<StackDefault> defaults;
  std::vector<std::string> notes;            ///< what people should know: rules that a default stack does not enforce, dates beyond what was read
};

}  // namespace tandem
