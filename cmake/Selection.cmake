# A runtime that is as small as its programs need. EXECUTORCH_GGML_SELECTION is a JSON file that
# `executorch-ggml build-runtime --for model.pte` writes:
#
#     {"ops": ["linear", "unary"], "types": ["f32", "i8"], "kinds": {"UnaryKind": ["erf"]}, "families": ["winograd"],
#      "states": false, "ggml": false}
#
# Such a build is a static library without exceptions and run-time type information. It runs on the CPU, and leaves out
# other devices, GGUF files, the check of whole .pte files, profiles of nodes and every op and type that is not named.
# The other keys may be missing: members of an attribute's enum, kernels by their column in the op table, states, and
# ggml's kernels are then all there. Constants of selection_generated.h say it to the code.
# EXECUTORCH_GGML_LEVELS limits the instruction sets of any build (cmake/IsaKernels.cmake).

set(EXECUTORCH_GGML_SELECTION "" CACHE FILEPATH "JSON file with the ops and types to build; empty: all")
set(EXECUTORCH_GGML_LEVELS "" CACHE STRING "Instruction sets to build kernels for besides generic; empty: all")

if(EXECUTORCH_GGML_SELECTION)
  if(NOT EXISTS "${EXECUTORCH_GGML_SELECTION}")
    message(FATAL_ERROR "EXECUTORCH_GGML_SELECTION is '${EXECUTORCH_GGML_SELECTION}', which is no file: let "
                        "`executorch-ggml build-runtime --for model.pte` write it.")
  endif()
  if(EXECUTORCH_GGML_BUILD_PYTHON OR EXECUTORCH_GGML_BUILD_TESTS)
    message(FATAL_ERROR "EXECUTORCH_GGML_SELECTION builds a static library for C++: without "
                        "EXECUTORCH_GGML_BUILD_PYTHON and EXECUTORCH_GGML_BUILD_TESTS.")
  endif()
  set(EXECUTORCH_GGML_STATIC_DELEGATE ON)
  file(READ "${EXECUTORCH_GGML_SELECTION}" _selected)
  string(JSON _ggml_kernels ERROR_VARIABLE _missing GET "${_selected}" ggml)
  if(_missing)
    set(_ggml_kernels ON)
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${EXECUTORCH_GGML_SELECTION}")
endif()
