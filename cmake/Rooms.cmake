# One static library per room: include/gpuhpc/<room>/, src/<room>/, tests/<room>/, bench/<room>/.

add_library(gpuhpc_flags INTERFACE)
target_include_directories(gpuhpc_flags INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>)
target_compile_options(gpuhpc_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Werror>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-restrict>)  # GCC 12 warns of overlaps that cannot be (PR 105651)
if(CMAKE_UNITY_BUILD)  # names of one file seen in another; the presets that compile file by file keep these warnings
  target_compile_options(gpuhpc_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-subobject-linkage>)
endif()

add_custom_target(unit_tests)  # what `ctest -L unit` runs
add_custom_target(gpu_tests)   # what `ctest -L gpu` runs
add_custom_target(benches)     # those of GPUHPC_BENCH

function(gpuhpc_room room)
  cmake_parse_arguments(ARG "TENSOR_TESTS" "" "USES;TESTS_USE;LIBRARIES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS
    ${CMAKE_SOURCE_DIR}/src/${room}/*.cpp ${CMAKE_SOURCE_DIR}/include/gpuhpc/${room}/*.hpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  if(GPUHPC_WITH_CUDA)
    file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${room}/*.cu)
    list(APPEND sources ${cuda_sources})
  endif()
  add_library(gpuhpc_${room} STATIC ${sources})
  set_target_properties(gpuhpc_${room} PROPERTIES LINKER_LANGUAGE CXX)
  if(room STREQUAL "kernels")  # each file sets an instruction set of its own
    set_target_properties(gpuhpc_${room} PROPERTIES UNITY_BUILD OFF)
  endif()
  if(room MATCHES "^(nn|train|plan|report|pipelines|app)$")  # the sanitizers (clang): compiles in half the time, runs no longer
    target_compile_options(gpuhpc_${room} PRIVATE $<$<CXX_COMPILER_ID:Clang>:-O0>)
  endif()
  target_link_libraries(gpuhpc_${room} PUBLIC gpuhpc_flags ${ARG_LIBRARIES})
  foreach(used ${ARG_USES} ${ARG_TESTS_USE})
    if(NOT TARGET gpuhpc_${used})
      message(FATAL_ERROR "room ${room} uses ${used}, which is not declared before it")
    endif()
  endforeach()
  list(TRANSFORM ARG_USES PREPEND gpuhpc_)
  target_link_libraries(gpuhpc_${room} PUBLIC ${ARG_USES})
  set(GPUHPC_TEST_ROOMS gpuhpc_${room})
  foreach(used ${ARG_TESTS_USE})
    list(APPEND GPUHPC_TEST_ROOMS gpuhpc_${used})
  endforeach()
  if(GPUHPC_TESTS)
    gpuhpc_room_tests(${room})
  endif()
  if(GPUHPC_BENCH)
    file(GLOB benches CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/${room}/*_bench.cpp)
    foreach(bench ${benches})
      get_filename_component(name ${bench} NAME_WE)
      add_executable(${name} ${bench})
      target_link_libraries(${name} PRIVATE ${GPUHPC_TEST_ROOMS} benchmark::benchmark)
      add_dependencies(benches ${name})
    endforeach()
  endif()
  if(GPUHPC_FUZZ)
    file(GLOB fuzzers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${room}/*_fuzz.cpp)
    if(fuzzers)  # these rooms alone: where comparisons are counted, arithmetic takes twice as long
      target_compile_options(gpuhpc_${room} PRIVATE -fsanitize=fuzzer-no-link)
    endif()
    foreach(fuzzer ${fuzzers})
      get_filename_component(name ${fuzzer} NAME_WE)
      add_executable(${name} ${fuzzer})
      target_link_libraries(${name} PRIVATE gpuhpc_${room})
      target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
      target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    endforeach()
  endif()
endfunction()

# Files of src/<room>/ that the program carries: a.html -> extern const std::string_view a_html.
function(gpuhpc_embed room)
  foreach(file ${ARGN})
    string(REPLACE "." "_" name ${file})
    set(source ${CMAKE_BINARY_DIR}/embedded/${name}.cpp)
    set(input ${CMAKE_SOURCE_DIR}/src/${room}/${file})
    set(script ${CMAKE_SOURCE_DIR}/cmake/Embed.cmake)
    add_custom_command(OUTPUT ${source} DEPENDS ${input} ${script} VERBATIM
      COMMAND ${CMAKE_COMMAND} -DINPUT=${input} -DNAME=${name} -DOUTPUT=${source} -P ${script})
    target_sources(gpuhpc_${room} PRIVATE ${source})
  endforeach()
endfunction()

# Optimising a test further takes longer than it saves; with clang, whose build is the sanitizers', any of it does. A test's
# own arithmetic is not looked at there.
function(gpuhpc_quick_compile)
  foreach(target ${ARGN})
    if(TARGET ${target})
      target_compile_options(${target} PRIVATE $<IF:$<CXX_COMPILER_ID:Clang>,-O0,-O1> $<$<CONFIG:RelWithDebInfo>:-fno-sanitize=undefined>)
    endif()
  endforeach()
endfunction()

# Tests run in the repository's root. Paths in them are relative to it, or no other copy of the tree could use what ccache has of
# this one.
function(gpuhpc_test_paths target room)
  target_compile_definitions(${target} PRIVATE GPUHPC_FIXTURES="tests/${room}/fixtures"
    GPUHPC_MODELS="$<PATH:RELATIVE_PATH,${GPUHPC_DEPS}/models,${CMAKE_SOURCE_DIR}>")
endfunction()

# Reading LibTorch and GoogleTest is half of what a test of tensors takes to compile: they are read once for all of these.
# ccache needs the sloppiness that scripts/build.sh sets. GCC 12 warns of bounds within the standard library's headers, which as
# a precompiled header are no longer exempt.
function(gpuhpc_test_headers)
  set(options "$<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess;-Wno-array-bounds;-Wno-stringop-overflow>")
  if(NOT TARGET test_headers)
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/test_headers.cpp CONTENT "int main() {}\n")
    add_executable(test_headers ${CMAKE_BINARY_DIR}/test_headers.cpp)  # compiled as the tests are, or GCC refuses to reuse it
    target_link_libraries(test_headers PRIVATE gpuhpc_flags gpuhpc::torch GTest::gtest GTest::gmock nlohmann_json::nlohmann_json)
    target_precompile_headers(test_headers PRIVATE <algorithm> <filesystem> <fstream> <map> <string> <vector>
      <ATen/TensorOperators.h> <ATen/core/Tensor.h> <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp>)
    gpuhpc_quick_compile(test_headers)
    target_compile_options(test_headers PRIVATE "${options}")
  endif()
  foreach(target ${ARGN})
    if(TARGET ${target})
      target_compile_options(${target} PRIVATE "${options}")
      target_precompile_headers(${target} REUSE_FROM test_headers)
    endif()
  endforeach()
endfunction()

# tests/<room>/*_test.cpp -> test_<room> (label unit); *_mpi_test.cpp -> test_<room>_mpi,
# run on 1, 2 and 4 ranks, comm's on 3 as well (label mpi); *_gpu_test.cpp -> test_<room>_gpu (label gpu), only where they are
# asked for: without a GPU they fail.
function(gpuhpc_room_tests room)
  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${room}/*_test.cpp)
  set(mpi_tests ${tests})
  list(FILTER mpi_tests INCLUDE REGEX "_mpi_test\\.cpp$")
  set(gpu_tests ${tests})
  list(FILTER gpu_tests INCLUDE REGEX "_gpu_test\\.cpp$")
  list(FILTER tests EXCLUDE REGEX "_(mpi|gpu)_test\\.cpp$")
  if(tests)
    add_executable(test_${room} ${tests})
    target_link_libraries(test_${room} PRIVATE ${GPUHPC_TEST_ROOMS} GTest::gtest GTest::gmock)
    if(TARGET gpuhpc_kernels)  # GPUHPC_TEST_ISA holds them to an instruction set
      target_sources(test_${room} PRIVATE ${CMAKE_SOURCE_DIR}/tests/unit_main.cpp)
      target_link_libraries(test_${room} PRIVATE gpuhpc_kernels)
    else()
      target_link_libraries(test_${room} PRIVATE GTest::gtest_main)
    endif()
    gpuhpc_test_paths(test_${room} ${room})
    add_test(NAME ${room} COMMAND test_${room} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    add_dependencies(unit_tests test_${room})
    set_tests_properties(${room} PROPERTIES LABELS unit TIMEOUT 1800)
  endif()
  if(mpi_tests)
    add_executable(test_${room}_mpi ${mpi_tests} ${CMAKE_SOURCE_DIR}/tests/mpi_main.cpp)
    target_link_libraries(test_${room}_mpi PRIVATE ${GPUHPC_TEST_ROOMS} GTest::gtest MPI::MPI_CXX)
    gpuhpc_test_paths(test_${room}_mpi ${room})
    set(rank_counts 1 2 4)
    if(room STREQUAL "comm")
      list(APPEND rank_counts 3)
    endif()
    foreach(ranks ${rank_counts})
      add_test(NAME ${room}.mpi${ranks}
        COMMAND ${CMAKE_SOURCE_DIR}/scripts/mpirun.sh ${ranks} $<TARGET_FILE:test_${room}_mpi>
        WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
      set_tests_properties(${room}.mpi${ranks} PROPERTIES LABELS mpi PROCESSORS 2 TIMEOUT 600)
    endforeach()
  endif()
  if(gpu_tests AND GPUHPC_GPU_TESTS)
    add_executable(test_${room}_gpu ${gpu_tests} ${CMAKE_SOURCE_DIR}/tests/gpu_main.cpp)
    target_link_libraries(test_${room}_gpu PRIVATE ${GPUHPC_TEST_ROOMS} GTest::gtest GTest::gmock)
    gpuhpc_test_paths(test_${room}_gpu ${room})
    add_test(NAME ${room}.gpu COMMAND test_${room}_gpu WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${room}.gpu PROPERTIES LABELS gpu TIMEOUT 300 RUN_SERIAL TRUE)
    add_dependencies(gpu_tests test_${room}_gpu)
  endif()
  gpuhpc_quick_compile(test_${room} test_${room}_mpi)
  if(room MATCHES "^(kernels|retrieval)$" AND TARGET test_${room})  # they compute what they compare with: thrice as long at -O0
    target_compile_options(test_${room} PRIVATE -O1)
  endif()
  if(ARG_TENSOR_TESTS)
    gpuhpc_test_headers(test_${room} test_${room}_mpi)
  endif()
endfunction()

function(gpuhpc_program)
  if(EXISTS ${CMAKE_SOURCE_DIR}/src/app/main.cpp)
    add_executable(gpuhpc ${CMAKE_SOURCE_DIR}/src/app/main.cpp)
    target_link_libraries(gpuhpc PRIVATE gpuhpc_app)
    gpuhpc_install()
  endif()
  if(GPUHPC_TESTS)
    add_subdirectory(tests)
  endif()
endfunction()
