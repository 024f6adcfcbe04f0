# One executable per file of tests/native, linked with the core; each is a test that passes by returning 0.
# EXECUTORCH_GGML_TEST_CORPUS is handed to the tests in their environment: a folder of programs to read.

set(EXECUTORCH_GGML_TEST_CORPUS "${CMAKE_BINARY_DIR}/corpus" CACHE PATH "Folder of programs for the native tests")
set(EXECUTORCH_GGML_TEST_TIMEOUT 900 CACHE STRING "Seconds after which a native test is stopped")

file(GLOB _tests CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/native/*.cpp")
foreach(_source IN LISTS _tests)
  get_filename_component(_name "${_source}" NAME_WE)
  add_executable(${_name} "${_source}")
  executorch_ggml_setup_target(${_name})
  target_link_libraries(${_name} PRIVATE executorch_ggml_core)
  add_test(NAME ${_name} COMMAND ${_name})
  set_tests_properties(
    ${_name} PROPERTIES ENVIRONMENT "EXECUTORCH_GGML_TEST_CORPUS=${EXECUTORCH_GGML_TEST_CORPUS}" SKIP_RETURN_CODE 77
                        TIMEOUT "${EXECUTORCH_GGML_TEST_TIMEOUT}"
  )
endforeach()

# They ask how threads share the cores.
set_tests_properties(cpu_test thread_pool_test threads_test PROPERTIES RUN_SERIAL ON)

# With -O3 its emulated tiles take a minute to compile, and run no faster.
target_compile_options(kernels_bfloat_tiles_test PRIVATE "$<$<CONFIG:Release>:-O1>")

# It counts allocations as the example does.
target_sources(static_memory_test PRIVATE "${PROJECT_SOURCE_DIR}/examples/cpp/allocation_counter.cpp")
target_include_directories(static_memory_test PRIVATE "${PROJECT_SOURCE_DIR}/examples/cpp")

add_subdirectory("${PROJECT_SOURCE_DIR}/tests/devices/standin" "${CMAKE_BINARY_DIR}/standin")
