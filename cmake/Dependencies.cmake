# Debian's libraries, and LibTorch from the PyPI wheel as imported targets of our own:
# find_package(Torch) refuses to configure without a CUDA toolkit.
find_package(Threads REQUIRED)
find_package(MPI REQUIRED COMPONENTS C CXX)
find_package(Boost 1.74 REQUIRED COMPONENTS program_options)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(ICU REQUIRED COMPONENTS uc i18n)
find_package(ZLIB REQUIRED)
find_package(HDF5 REQUIRED COMPONENTS C)
add_library(gpuhpc::hdf5 INTERFACE IMPORTED)
target_include_directories(gpuhpc::hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
target_link_libraries(gpuhpc::hdf5 INTERFACE ${HDF5_C_LIBRARIES})
if(GPUHPC_TESTS)
  find_package(GTest REQUIRED)
  enable_testing()
endif()
if(GPUHPC_BENCH)
  find_package(benchmark REQUIRED)
endif()

set(GPUHPC_WITH_CUDA OFF)
if(NOT GPUHPC_CUDA STREQUAL "OFF")
  find_package(CUDAToolkit 13 QUIET)
  # LibTorch 2.11 is built for CUDA 13; setup.sh fetches its CUDA side libraries when it sees such a toolkit.
  if(CUDAToolkit_FOUND AND CUDAToolkit_VERSION_MAJOR EQUAL 13 AND EXISTS "${GPUHPC_DEPS}/nvidia/cusparselt/lib")
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
    set(CMAKE_CUDA_ARCHITECTURES 86 90)
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 17)
    set(GPUHPC_WITH_CUDA ON)
  elseif(GPUHPC_CUDA STREQUAL "ON")
    message(FATAL_ERROR "GPUHPC_CUDA is ON but no CUDA 13 toolkit was found; put its nvcc on PATH and run bash scripts/setup.sh")
  endif()
endif()
message(STATUS "CUDA and NCCL parts: ${GPUHPC_WITH_CUDA}")

set(torch "${GPUHPC_DEPS}/torch")
if(NOT EXISTS "${torch}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "LibTorch is not in ${torch}: run bash scripts/setup.sh")
endif()
set(GPUHPC_RUNTIME_DIRS ${torch}/lib ${GPUHPC_DEPS}/nvidia/cu13/lib)
add_library(gpuhpc::torch INTERFACE IMPORTED)
target_include_directories(gpuhpc::torch SYSTEM INTERFACE
  ${torch}/include ${torch}/include/torch/csrc/api/include)
target_link_libraries(gpuhpc::torch INTERFACE
  ${torch}/lib/libtorch_cpu.so ${torch}/lib/libc10.so Threads::Threads)
# at::parallel_for is compiled into its callers: without OpenMP it would run on one thread. The runtime is LibTorch's own,
# two in one process would fight for the cores. clang, which compiles for sanitizers and fuzzers, knows another one, to which LibTorch's
# calls go too: it has libgomp's symbols and is loaded before it.
target_compile_options(gpuhpc::torch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  file(GLOB libgomp ${torch}/lib/libgomp*.so*)
  target_link_libraries(gpuhpc::torch INTERFACE ${libgomp})
else()
  target_link_options(gpuhpc::torch INTERFACE -fopenmp)
endif()
if(GPUHPC_WITH_CUDA)
  list(APPEND GPUHPC_RUNTIME_DIRS ${GPUHPC_DEPS}/nvidia/cusparselt/lib
    ${GPUHPC_DEPS}/nvidia/nvshmem/lib ${GPUHPC_DEPS}/nvidia/cudnn/lib ${GPUHPC_DEPS}/nvidia/nccl/lib ${CUDAToolkit_LIBRARY_DIR})
  target_compile_definitions(gpuhpc::torch INTERFACE GPUHPC_WITH_CUDA)
  target_include_directories(gpuhpc::torch SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
  # Nothing of ours names a symbol of libtorch_cuda: its operators register when it loads.
  target_link_libraries(gpuhpc::torch INTERFACE
    "-Wl,--push-state,--no-as-needed" ${torch}/lib/libtorch_cuda.so ${torch}/lib/libc10_cuda.so "-Wl,--pop-state"
    CUDA::cudart)
  # NCCL of the toolkit or the system, or the one that setup.sh fetched: the library LibTorch loads anyway.
  find_path(NCCL_INCLUDE nccl.h PATHS ${CUDAToolkit_INCLUDE_DIRS} ${GPUHPC_DEPS}/nvidia/nccl/include)
  find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 PATHS ${CUDAToolkit_LIBRARY_DIR} ${GPUHPC_DEPS}/nvidia/nccl/lib)
  if(NOT NCCL_INCLUDE OR NOT NCCL_LIBRARY)
    message(FATAL_ERROR "NCCL's header or library is missing: run bash scripts/setup.sh, or set GPUHPC_CUDA to OFF")
  endif()
  add_library(gpuhpc::nccl INTERFACE IMPORTED)
  target_include_directories(gpuhpc::nccl SYSTEM INTERFACE ${NCCL_INCLUDE})
  target_link_libraries(gpuhpc::nccl INTERFACE ${NCCL_LIBRARY})
endif()
target_link_options(gpuhpc::torch INTERFACE -Wl,--disable-new-dtags -Wl,--allow-shlib-undefined)
set(CMAKE_BUILD_RPATH ${GPUHPC_RUNTIME_DIRS})
