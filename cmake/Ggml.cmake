# Provides the target ggml::ggml, EXECUTORCH_GGML_GGML_ROOT where ggml is installed and whether it is the Python package
# (EXECUTORCH_GGML_GGML_IS_PACKAGE), and EXECUTORCH_GGML_BUNDLED_GGML where ggml is built here from a checkout.

set(EXECUTORCH_GGML_BUNDLED_GGML "")
set(EXECUTORCH_GGML_GGML_ROOT "")
set(EXECUTORCH_GGML_GGML_IS_PACKAGE OFF)

# Build ggml from a llama.cpp or ggml checkout, as shared libraries: the runtime, the Python module and plug-ins that
# are loaded later must all share one registry of devices.
function(_executorch_ggml_add_checkout checkout)
  foreach(candidate IN ITEMS "${checkout}/ggml" "${checkout}")
    if(EXISTS "${candidate}/include/ggml-backend.h" AND EXISTS "${candidate}/CMakeLists.txt")
      set(source "${candidate}")
      break()
    endif()
  endforeach()
  if(NOT source)
    message(FATAL_ERROR "LLAMA_CPP_DIR is '${checkout}', where neither ggml/ nor include/ggml-backend.h is found: "
                        "give the root of a llama.cpp or ggml checkout.")
  endif()

  set(BUILD_SHARED_LIBS ON)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  # ggml's OpenMP builds can stick for milliseconds in a barrier; its own thread pool does not.
  option(GGML_OPENMP "ggml: use OpenMP" OFF)
  option(GGML_LLAMAFILE "ggml: use llamafile's matrix kernels" ON)
  set(GGML_BUILD_TESTS OFF)
  set(GGML_BUILD_EXAMPLES OFF)
  add_subdirectory("${source}" "${CMAKE_BINARY_DIR}/ggml" EXCLUDE_FROM_ALL SYSTEM)

  # Variants of the CPU's library that this compiler gets wrong are not installed.
  if(TARGET ggml-cpu-sapphirerapids)
    execute_process(
      COMMAND "${Python_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/cmake/probe_amx.py" "${CMAKE_CXX_COMPILER}"
      RESULT_VARIABLE amx_is_wrong
    )
    if(amx_is_wrong)
      message(STATUS "ggml: ggml-cpu-sapphirerapids is left out, since this compiler gets AMX wrong (gcc bug 114098)")
      list(REMOVE_ITEM GGML_AVAILABLE_BACKENDS ggml-cpu-sapphirerapids)
    endif()
  endif()

  set(targets ggml ggml-base)
  foreach(backend IN LISTS GGML_AVAILABLE_BACKENDS)
    if(TARGET ${backend})
      list(APPEND targets ${backend})
    endif()
  endforeach()
  if(NOT TARGET ggml::ggml)
    add_library(ggml::ggml ALIAS ggml)
  endif()
  # ggml names its headers relative to its own folder, but they are installed from this one.
  get_target_property(headers ggml PUBLIC_HEADER)
  list(TRANSFORM headers PREPEND "${source}/")
  set_target_properties(ggml PROPERTIES PUBLIC_HEADER "${headers}")
  set_target_properties(
    ${targets} PROPERTIES INSTALL_RPATH "$<IF:$<PLATFORM_ID:Darwin>,@loader_path,$ORIGIN>"
                          LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/ggml/lib"
  )
  # Backends that ggml loads by itself are no link dependency of anything, so ask for them.
  add_custom_target(executorch_ggml_ggml ALL DEPENDS ${targets})
  set(EXECUTORCH_GGML_BUNDLED_GGML "${targets}" PARENT_SCOPE)
endfunction()

if(LLAMA_CPP_DIR)
  _executorch_ggml_add_checkout("${LLAMA_CPP_DIR}")
  message(STATUS "ggml: built from ${LLAMA_CPP_DIR}")
else()
  executorch_ggml_locate(EXECUTORCH_GGML_GGML_ROOT libggml include/ggml-backend.h)
  if(EXECUTORCH_GGML_GGML_ROOT)
    # ggml's own configuration file. The other that the package has, ggmlConfig.cmake, fails where the library of one
    # processor variant is missing.
    find_package(
      ggml CONFIG QUIET NO_DEFAULT_PATH CONFIGS ggml-config.cmake
      PATHS "${EXECUTORCH_GGML_GGML_ROOT}/lib/cmake/ggml" "${EXECUTORCH_GGML_GGML_ROOT}/lib64/cmake/ggml"
    )
  endif()
  if(ggml_FOUND)
    set(EXECUTORCH_GGML_GGML_IS_PACKAGE ON)
  else()
    find_package(ggml CONFIG QUIET)
  endif()
  if(NOT ggml_FOUND)
    message(FATAL_ERROR "ggml is not found: install libggml-python for ${Python_EXECUTABLE}, "
                        "or give a llama.cpp or ggml checkout with -DLLAMA_CPP_DIR=.")
  endif()
  # The package's link options name where it expects our libraries to lie, which CMake before 3.28 garbles besides.
  # Install.cmake sets the search path instead.
  set_property(TARGET ggml::ggml PROPERTY INTERFACE_LINK_OPTIONS "")
  file(REAL_PATH "${ggml_DIR}/../../.." EXECUTORCH_GGML_GGML_ROOT)
  message(STATUS "ggml: ${ggml_DIR}")
endif()
