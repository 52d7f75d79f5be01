// The defaults that frameworks make depend on other fields.

#include "models/stack/dependent_defaults.hpp"

#include "tests/catch.hpp"
#include "tests/odd_stack.hpp"

using namespace tandem;

using Fields = std::set<std::string>;

TEST_CASE("Defaults that depend on ZeRO are those of Megatron-LM's and DeepSpeed's rules") {
  CHECK(dependent_defaults("megatron-core", "parallel.zero_stage") ==
        Fields{"parallel.bucket_bytes", "parallel.overlap_grad_reduce", "parallel.overlap_param_gather", "parallel.overlap_tensor_sum"});
  CHECK(dependent_defaults("megatron-deepspeed", "parallel.zero_stage") ==
        Fields{"parallel.overlap_grad_reduce", "parallel.reuse_distance", "training.dtypes.gradients"});
  CHECK(dependent_defaults("megatron-core", "training.seed").empty());
}

TEST_CASE("A default that depends on a dependent default depends on its field, too") {
  const tests::OddStack odd("defaults", R"([
    {"field": "parallel.scatter_gather_tensors_in_pipeline", "value": true, "when": {"parallel.overlap_p2p": {"allowed": [true]}}, "source": "s", "verified": true},
    {"field": "parallel.overlap_p2p", "value": true, "when": {"parallel.zero_stage": {"min": 1}}, "source": "s", "verified": true},
    {"field": "parallel.overlap_grad_reduce", "value": true, "source": "s", "verified": true}])");
  CHECK(dependent_defaults("odd", "parallel.zero_stage") == Fields{"parallel.overlap_p2p", "parallel.scatter_gather_tensors_in_pipeline"});
}
