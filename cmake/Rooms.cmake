# One static library a room: include/gpuhpc/<room>/, src/<room>/, tests/<room>/.
# Rooms link in the order in which they are declared; each sees only the earlier ones.
set(GPUHPC_ROOMS "" CACHE INTERNAL "rooms declared so far, lowest first")

add_library(gpuhpc_flags INTERFACE)
target_include_directories(gpuhpc_flags INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>)
target_compile_options(gpuhpc_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Werror>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-restrict>)  # GCC 12 warns of overlaps that cannot be (PR 105651)
find_program(MOLD mold)
if(MOLD)
  target_link_options(gpuhpc_flags INTERFACE -fuse-ld=mold)
endif()

add_custom_target(unit_tests)  # what `ctest -L unit` runs

function(gpuhpc_room room)
  cmake_parse_arguments(ARG "" "" "LIBRARIES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS
    ${CMAKE_SOURCE_DIR}/src/${room}/*.cpp ${CMAKE_SOURCE_DIR}/include/gpuhpc/${room}/*.hpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  if(GPUHPC_WITH_CUDA)
    file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${room}/*.cu)
    list(APPEND sources ${cuda_sources})
  endif()
  add_library(gpuhpc_${room} STATIC ${sources})
  set_target_properties(gpuhpc_${room} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(gpuhpc_${room} PUBLIC gpuhpc_flags ${ARG_LIBRARIES})
  foreach(lower ${GPUHPC_ROOMS})
    target_link_libraries(gpuhpc_${room} PUBLIC gpuhpc_${lower})
  endforeach()
  set(GPUHPC_ROOMS ${GPUHPC_ROOMS} ${room} CACHE INTERNAL "")
  if(GPUHPC_TESTS)
    gpuhpc_room_tests(${room})
  endif()
  if(GPUHPC_BENCH)
    file(GLOB benches CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/${room}/*_bench.cpp)
    foreach(bench ${benches})
      get_filename_component(name ${bench} NAME_WE)
      add_executable(${name} ${bench})
      target_link_libraries(${name} PRIVATE gpuhpc_${room} benchmark::benchmark)
    endforeach()
  endif()
  if(GPUHPC_FUZZ)
    file(GLOB fuzzers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${room}/*_fuzz.cpp)
    foreach(fuzzer ${fuzzers})
      get_filename_component(name ${fuzzer} NAME_WE)
      add_executable(${name} ${fuzzer})
      target_link_libraries(${name} PRIVATE gpuhpc_${room})
      target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    endforeach()
  endif()
endfunction()

# tests/<room>/*_test.cpp -> test_<room> (label unit); *_mpi_test.cpp -> test_<room>_mpi,
# run on 1, 2 and 4 ranks (label mpi).
function(gpuhpc_room_tests room)
  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${room}/*_test.cpp)
  set(mpi_tests ${tests})
  list(FILTER mpi_tests INCLUDE REGEX "_mpi_test\\.cpp$")
  list(FILTER tests EXCLUDE REGEX "_mpi_test\\.cpp$")
  if(tests)
    add_executable(test_${room} ${tests})
    target_link_libraries(test_${room} PRIVATE gpuhpc_${room} GTest::gtest_main GTest::gmock)
    target_compile_definitions(test_${room} PRIVATE
      GPUHPC_FIXTURES="${CMAKE_SOURCE_DIR}/tests/${room}/fixtures"
      GPUHPC_SOURCE_DIR="${CMAKE_SOURCE_DIR}" GPUHPC_MODELS="${GPUHPC_DEPS}/models")
    add_test(NAME ${room} COMMAND test_${room})
    add_dependencies(unit_tests test_${room})
    set_tests_properties(${room} PROPERTIES LABELS unit TIMEOUT 600)
  endif()
  if(mpi_tests)
    add_executable(test_${room}_mpi ${mpi_tests} ${CMAKE_SOURCE_DIR}/tests/mpi_main.cpp)
    target_link_libraries(test_${room}_mpi PRIVATE gpuhpc_${room} GTest::gtest MPI::MPI_CXX)
    target_compile_definitions(test_${room}_mpi PRIVATE
      GPUHPC_FIXTURES="${CMAKE_SOURCE_DIR}/tests/${room}/fixtures"
      GPUHPC_SOURCE_DIR="${CMAKE_SOURCE_DIR}" GPUHPC_MODELS="${GPUHPC_DEPS}/models")
    foreach(ranks 1 2 4)
      add_test(NAME ${room}.mpi${ranks}
        COMMAND ${CMAKE_SOURCE_DIR}/scripts/mpirun.sh ${ranks} $<TARGET_FILE:test_${room}_mpi>)
      set_tests_properties(${room}.mpi${ranks} PROPERTIES LABELS mpi PROCESSORS 2 TIMEOUT 600)
    endforeach()
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
