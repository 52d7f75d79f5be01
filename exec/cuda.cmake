# exec/cuda, or its twins: sources in cuda_sources, what to link in cuda_libraries. cudart is linked statically and opens the
# driver by itself; cuBLASLt, cuDNN, NCCL and the management library are opened when they are needed (cuda/library.hpp), so that
# a program built here starts where none of them is.
if(NOT TANDEM_CUDA_FOUND)
  set(cuda_sources measure/cuda_absent.cpp device/cuda_absent.cpp)
  set(cuda_libraries)
  return()
endif()
file(GLOB cuda_sources CONFIGURE_DEPENDS cuda/*.cpp cuda/measure/*.cpp)
if(CUDNN_FRONTEND_INCLUDE_DIR AND CUDNN_INCLUDE_DIR)
  list(FILTER cuda_sources EXCLUDE REGEX "/attention_absent\\.cpp$")
  set_source_files_properties(cuda/attention.cpp PROPERTIES
                              COMPILE_OPTIONS "-isystem${CUDNN_FRONTEND_INCLUDE_DIR};-isystem${CUDNN_INCLUDE_DIR}"
                              COMPILE_DEFINITIONS "NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING;CUDNN_FRONTEND_SKIP_JSON_LIB")
else()
  list(FILTER cuda_sources EXCLUDE REGEX "/attention\\.cpp$")
endif()
# Kernels for measuring are C++17. Those for training include headers of the project, so they are C++20.
add_library(tandem_cuda_kernels OBJECT cuda/kernels.cu)
file(GLOB training_kernels CONFIGURE_DEPENDS cuda/works_*.cu)
add_library(tandem_cuda_works OBJECT ${training_kernels})
set_target_properties(tandem_cuda_works PROPERTIES CUDA_STANDARD 20)
# A function of the host that a kernel calls is an error: nvcc warns, and compiles a kernel that does nothing.
target_compile_options(tandem_cuda_works PRIVATE --expt-relaxed-constexpr --Werror=cross-execution-space-call)
foreach(kernels tandem_cuda_kernels tandem_cuda_works)
  target_include_directories(${kernels} PRIVATE ${PROJECT_SOURCE_DIR})
  set_target_properties(${kernels} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  list(APPEND cuda_sources $<TARGET_OBJECTS:${kernels}>)
endforeach()
set_source_files_properties(cuda/library.cpp PROPERTIES
                            COMPILE_DEFINITIONS TANDEM_CUDA_LIBRARIES="${CUDAToolkit_LIBRARY_DIR}")
set(cuda_libraries CUDA::cudart_static ${CMAKE_DL_LIBS})
