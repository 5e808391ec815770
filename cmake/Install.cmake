# cmake --install BUILD --prefix DIR: a tree that runs from any folder. bin/gpuhpc finds lib/ beside it; lib/ holds LibTorch and the NVIDIA
# libraries that setup.sh fetched. Debian's libraries, and for a CUDA build the toolkit's own, stay the machine's (docs/third-party.md).
function(gpuhpc_install)
  set(torch_libraries libc10.so libtorch_cpu.so libgomp.so.1)
  set(nvidia_libraries cu13/lib/libcudart.so.13 cu13/lib/libcupti.so.13)
  set(rpath "$ORIGIN/../lib")
  if(GPUHPC_WITH_CUDA)
    list(APPEND torch_libraries libc10_cuda.so libtorch_cuda.so libtorch_cuda_linalg.so libcaffe2_nvrtc.so libtorch_nvshmem.so)
    list(APPEND nvidia_libraries cu13/lib/libcufile.so.0 cusparselt/lib/libcusparseLt.so.0)
    # nvshmem, and cuDNN and NCCL where the toolkit lacked them, open further libraries of theirs by name.
    file(GLOB opened RELATIVE ${GPUHPC_DEPS}/nvidia
      ${GPUHPC_DEPS}/nvidia/nvshmem/lib/*.so* ${GPUHPC_DEPS}/nvidia/cudnn/lib/*.so* ${GPUHPC_DEPS}/nvidia/nccl/lib/*.so*)
    list(APPEND nvidia_libraries ${opened})
    list(APPEND rpath /usr/local/cuda/lib64 /usr/local/cuda/lib)
  endif()
  list(TRANSFORM torch_libraries PREPEND ${GPUHPC_DEPS}/torch/lib/)
  list(TRANSFORM nvidia_libraries PREPEND ${GPUHPC_DEPS}/nvidia/)
  install(FILES ${torch_libraries} ${nvidia_libraries} DESTINATION lib)
  set_target_properties(gpuhpc PROPERTIES INSTALL_RPATH "${rpath}")
  install(TARGETS gpuhpc RUNTIME DESTINATION bin)
  install(FILES gpuhpc.ini LICENSE docs/third-party.md DESTINATION share/gpuhpc)
endfunction()
