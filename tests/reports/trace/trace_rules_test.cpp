#include "reports/trace/trace_rules.hpp"

#include <map>
#include <utility>

#include "models/ops/collective.hpp"
#include "models/ops/op.hpp"
#include "tests/catch.hpp"
#include "tests/reports/trace/trace_files.hpp"

using namespace tandem;

namespace {

/// The class of a kernel that an operation launched.
std::string class_of(const std::string& kernel, const std::string& under) {
  const DeviceTrace trace = traces::of_text(traces::file_of(traces::event("cpu_op", "outermost", 0, 90) + "," + traces::event("cpu_op", under, 1, 50) + "," +
                                                            traces::kernel(kernel, 2, 60, 3, 1)));
  static const TraceRules rules = TraceRules::load();
  const LaunchStacks stacks(trace);
  return KernelClasses(rules, trace, stacks).of(0);
}

template <std::size_t... I>
std::vector<Op> one_of_each(std::index_sequence<I...>) {
  return {Op(std::variant_alternative_t<I, Op>{})...};
}

}  // namespace

TEST_CASE("patterns take any text for a star and one letter for a question mark") {
  CHECK(is_like("void nccl_Kernel", "*NCCL*"));
  CHECK(is_like("ln1", "ln?*"));
  CHECK_FALSE(is_like("ln", "ln?*"));
  CHECK(is_like("aXbXc", "a*b*c"));
  CHECK_FALSE(is_like("aXbXcd", "a*b*c"));
  CHECK(is_like("", "*"));
  CHECK_FALSE(is_like("x", ""));
}

// Names as libraries give them: PyTorch 1.11 to 2.9 on V100 to B200 and MI300X, Apex, Transformer Engine, DeepEP, Inductor.
TEST_CASE("kernels of the usual libraries have the classes that their authors mean") {
  const std::map<std::string, std::string> classes = {
      {"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", "communication"},
      {"void deep_ep::internode::dispatch<false, 8, false, 16, 8192>(int4*)", "communication"},
      {"void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)", "communication"},
      {"volta_sgemm_128x32_nt", "products"},
      {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas", "products"},
      {"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(Params)", "products"},
      {"Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1", "products"},
      {"void cublasLt::splitKreduce_kernel<32, 16, int, float>(cublasSplitKParams<float>)", "products"},
      {"triton_tem_fused_mm_3", "products"},
      {"fmha_cutlassF_bf16_aligned_64x64_rf_sm80(Params)", "attention"},
      {"void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128> >(Params)", "attention"},
      {"triton_tem_fused_flex_attention_0", "attention"},
      {"void scaled_upper_triang_masked_softmax_warp_forward<c10::Half, c10::Half, float, 11>(c10::Half*)", "attention"},
      {"void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int)", "norms"},
      {"triton_per_fused_add_native_layer_norm_backward_5", "norms"},
      {"void multi_tensor_apply_kernel<TensorListMetadata<1>, L2NormFunctor<float> >(int)", "optimizer"},
      {"void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float>(float*)", "loss"},
      {"triton_red_fused__log_softmax__to_copy_4", "loss"},
      {"triton_poi_fused__scaled_dot_product_flash_attention_bmm_cat_2", "pointwise"},
      {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >(int)", "pointwise"},
      {"void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long>(int)", "pointwise"},
      {"void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>(float*)", "pointwise"},
      {"void transformer_engine::permutation::moe_permute_kernel<float>(float*)", "routing"},
      {"void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90> > >(Params)", "attention"},
      {"_chunk_scan_fwd_kernel", "attention"},
      {"liger_cross_entropy_kernel", "loss"},
      {"void at::native::(anonymous namespace)::chunk_cat_cuda_kernel<float, c10::BFloat16>(float**)", "pointwise"},
      {"void transformer_engine::ptx::cast_mxfp8_gated_kernel<true, false>(float)", "pointwise"},
      {"void kOptimizer32bitStateBlockwise<float, 3, 256, 1>(float*)", "optimizer"},
      {"Memcpy DtoH (Device -> Pageable)", "transfers"},
      {"Memcpy DtoD (Device -> Device)", "pointwise"},
      {"someone_elses_kernel", "unknown"},
  };
  for (const auto& [kernel, wanted] : classes) {
    CAPTURE(kernel);
    CHECK(class_of(kernel, "aten::op") == wanted);
  }
}

TEST_CASE("what launched a kernel decides where its name says little") {
  const std::string add = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)";
  CHECK(class_of(add, "aten::add") == "pointwise");
  CHECK(class_of(add, "Optimizer.step#AdamW.step") == "optimizer");
  CHECK(class_of(add, "torch::autograd::AccumulateGrad") == "gradient sums");
  CHECK(class_of(add, "NativeLayerNormBackward0") == "norms");
  const std::string foreach = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<2>, Copy<float> >(int)";
  CHECK(class_of(foreach, "aten::_foreach_add_") == "optimizer");
  CHECK(class_of(foreach, "aten::_foreach_copy_") == "pointwise");
  CHECK(class_of(foreach, "Optimizer.step#AdamW.step") == "optimizer");
  CHECK(class_of("ampere_sgemm_64x64_nn", "Optimizer.step#Muon.step") == "optimizer");
  CHECK(class_of("ncclDevKernel_AllReduce_Sum_f32_TREE_LL(ncclDevKernelArgsStorage<4096ul>)", "Optimizer.step#AdamW.step") == "communication");
  CHECK(class_of("void (anonymous namespace)::softmax_warp_forward<float, float, float, 11>(float*)", "aten::_log_softmax") == "loss");
  CHECK(class_of("void (anonymous namespace)::softmax_warp_forward<float, float, float, 11>(float*)", "aten::softmax") == "attention");
}

TEST_CASE("every kind of simulated task that computes has a class") {
  const TraceRules rules = TraceRules::load();
  for (const Op& op : one_of_each(std::make_index_sequence<std::variant_size_v<Op>>())) {
    if (is_communication(op)) continue;
    CAPTURE(kind_name(op));
    CHECK(rules.task_class({"block_forward", "task", std::string(kind_name(op)), "compute", "", Bytes(0), Flops(0)}) != kUnknownClass);
  }
  CHECK(rules.task_class({"block_forward", "qkv", "matmul", "compute", "", Bytes(0), Flops(0)}) == "products");
  CHECK(rules.task_class({"optimizer", "qkv", "matmul", "compute", "", Bytes(0), Flops(0)}) == "optimizer");
  CHECK(rules.task_class({"block_forward", "ln1", "elementwise", "compute", "", Bytes(0), Flops(0)}) == "norms");
  CHECK(rules.task_class({"block_forward", "ln1_residual", "elementwise", "compute", "", Bytes(0), Flops(0)}) == "pointwise");
  CHECK(rules.task_class({"block_forward", "x", "a kind of tomorrow", "compute", "", Bytes(0), Flops(0)}) == "unknown");
}

TEST_CASE("collectives and process groups are known by their frameworks' names") {
  const TraceRules rules = TraceRules::load();
  const std::map<std::string, std::string> kinds = {{"_allgather_base", "all_gather"},
                                                    {"reduce_scatter_tensor_coalesced", "reduce_scatter"},
                                                    {"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(args)", "reduce_scatter"},
                                                    {"nccl:all_reduce", "all_reduce"},
                                                    {"all_to_allv", "all_to_all"},
                                                    {"send", "send"},
                                                    {"nccl:recv 0<-1", "recv"},
                                                    {"ncclDevKernel_SendRecv(args)", "send_recv"}};
  for (const auto& [name, kind] : kinds) {
    CAPTURE(name);
    REQUIRE(rules.collective(name) != nullptr);
    CHECK(rules.collective(name)->result == kind);
  }
  CHECK(rules.collective("ncclDevKernel_Generic(args)") == nullptr);
  CHECK(rules.group("TENSOR_MODEL_PARALLEL_GROUP") == "tensor");
  CHECK(rules.group("DATA_PARALLEL_GROUP_WITH_CP") == "data");
  CHECK(rules.group("EXPERT_DATA_PARALLEL_GROUP") == "expert_data");
  CHECK(rules.group("mesh_dp_shard_cp") == "data");
  CHECK(rules.group("CONTEXT_PARALLEL_GROUP") == "context");
  CHECK(rules.group("HIERARCHICAL_CONTEXT_PARALLEL_GROUP_L0") == "context_heads");
  CHECK(rules.group("HIERARCHICAL_CONTEXT_PARALLEL_GROUP_L1") == "context_keys");
  CHECK(rules.group("undefined").empty());
  CHECK(rules.bytes_of("BFloat16") == 2);
}
