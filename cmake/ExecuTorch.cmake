# Provides executorch_ggml_executorch, an interface target with ExecuTorch's headers, definitions and library, and
# EXECUTORCH_GGML_RUNTIME_TYPE: SHARED beside ExecuTorch's shared runtime, STATIC beside a static one. (A shared library
# that links a static ExecuTorch would register its backend in a private copy of the registry.)

set(EXECUTORCH_GGML_EXECUTORCH_ROOT "")
set(EXECUTORCH_GGML_RUNTIME_TYPE SHARED)
add_library(executorch_ggml_executorch INTERFACE)
# Its recorder of runs, beside the shared runtime.
add_library(executorch_ggml_etdump INTERFACE)

function(_executorch_ggml_find_executorch root)
  find_package(
    executorch CONFIG QUIET NO_DEFAULT_PATH
    PATHS "${root}/share/cmake" "${root}/lib/cmake/executorch" "${root}/lib/cmake/ExecuTorch" "${root}"
  )
  set(executorch_FOUND ${executorch_FOUND} PARENT_SCOPE)
  set(executorch_DIR "${executorch_DIR}" PARENT_SCOPE)
  foreach(name IN ITEMS INCLUDE_DIRS COMPILE_DEFINITIONS RUNTIME_LIBRARY_DIR)
    set(EXECUTORCH_${name} "${EXECUTORCH_${name}}" PARENT_SCOPE)
  endforeach()
endfunction()

if(EXECUTORCH_DIR AND EXISTS "${EXECUTORCH_DIR}/runtime/backend/interface.h")
  if(EXISTS "${EXECUTORCH_DIR}/CMakeLists.txt")
    add_subdirectory("${EXECUTORCH_DIR}" "${CMAKE_BINARY_DIR}/executorch" EXCLUDE_FROM_ALL SYSTEM)
  endif()
elseif(EXECUTORCH_DIR)
  _executorch_ggml_find_executorch("${EXECUTORCH_DIR}")
else()
  executorch_ggml_locate(EXECUTORCH_GGML_EXECUTORCH_ROOT executorch include/executorch/runtime/backend/interface.h)
  if(EXECUTORCH_GGML_EXECUTORCH_ROOT)
    _executorch_ggml_find_executorch("${EXECUTORCH_GGML_EXECUTORCH_ROOT}")
  else()
    find_package(executorch CONFIG QUIET)
  endif()
endif()

# The shared runtime of the Python package. Its file is linked rather than its target, whose link options would write
# this machine's absolute paths into the library; the headers and definitions come along. CMake before 3.28 gets no
# target from the package at all, but the same variables.
if(EXECUTORCH_GGML_STATIC_DELEGATE AND EXECUTORCH_INCLUDE_DIRS)
  set(EXECUTORCH_GGML_RUNTIME_TYPE STATIC)
  target_include_directories(executorch_ggml_executorch SYSTEM INTERFACE ${EXECUTORCH_INCLUDE_DIRS})
  target_compile_definitions(executorch_ggml_executorch INTERFACE C10_USING_CUSTOM_GENERATED_MACROS)
  message(STATUS "ExecuTorch: headers in ${EXECUTORCH_INCLUDE_DIRS}")
elseif(EXECUTORCH_RUNTIME_LIBRARY_DIR)
  if(TARGET executorch::runtime)
    get_target_property(_library executorch::runtime IMPORTED_LOCATION)
    get_target_property(EXECUTORCH_COMPILE_DEFINITIONS executorch::runtime INTERFACE_COMPILE_DEFINITIONS)
  else()
    file(GLOB _library "${EXECUTORCH_RUNTIME_LIBRARY_DIR}/libexecutorch${CMAKE_SHARED_LIBRARY_SUFFIX}*")
    list(GET _library 0 _library)
  endif()
  target_include_directories(executorch_ggml_executorch SYSTEM INTERFACE ${EXECUTORCH_INCLUDE_DIRS})
  target_compile_definitions(executorch_ggml_executorch INTERFACE ${EXECUTORCH_COMPILE_DEFINITIONS})
  target_link_libraries(executorch_ggml_executorch INTERFACE "${_library}")
  file(GLOB _etdump "${EXECUTORCH_RUNTIME_LIBRARY_DIR}/libexecutorch_etdump${CMAKE_SHARED_LIBRARY_SUFFIX}*")
  list(GET _etdump 0 _etdump)
  target_link_libraries(executorch_ggml_etdump INTERFACE "${_etdump}")
  message(STATUS "ExecuTorch: ${_library}")
elseif(TARGET executorch_core)
  set(EXECUTORCH_GGML_RUNTIME_TYPE STATIC)
  target_link_libraries(executorch_ggml_executorch INTERFACE executorch_core)
  message(STATUS "ExecuTorch: static libraries of ${EXECUTORCH_DIR}${executorch_DIR}")
elseif(EXECUTORCH_DIR)
  message(FATAL_ERROR "EXECUTORCH_DIR is '${EXECUTORCH_DIR}', which is neither an ExecuTorch checkout nor an "
                      "installation: give a folder with CMakeLists.txt or with lib/cmake in it.")
else()
  message(FATAL_ERROR "ExecuTorch is not found: install executorch for ${Python_EXECUTABLE}, or give -DEXECUTORCH_DIR=.")
endif()
