# Generated code. The op table in python/executorch_ggml/ir gives ops_generated.h, build_generated.inc and the schema;
# flatc turns the schema into C++ and Python. (schema/ggml_ir.fbs is a copy for readers, which `make lint` compares.)
#
# Target executorch_ggml_generated: its include directories hold the generated headers and FlatBuffers' own.

executorch_ggml_locate(_flatc_root flatc include/flatbuffers/flatbuffers.h)
if(_flatc_root)
  set(_flatc_hints HINTS "${_flatc_root}/bin" NO_DEFAULT_PATH)
  set(_include_hints HINTS "${_flatc_root}/include" NO_DEFAULT_PATH)
endif()
find_program(EXECUTORCH_GGML_FLATC flatc ${_flatc_hints} REQUIRED)
find_path(EXECUTORCH_GGML_FLATBUFFERS_INCLUDE flatbuffers/flatbuffers.h ${_include_hints} REQUIRED)

set(_generated "${CMAKE_BINARY_DIR}/generated")
set(EXECUTORCH_GGML_GENERATED_PYTHON "${_generated}/python")
set(_ir "${PROJECT_SOURCE_DIR}/python/executorch_ggml/ir")
set(_schema "${_generated}/ggml_ir.fbs")
file(GLOB_RECURSE _table CONFIGURE_DEPENDS "${_ir}/*.py")
file(MAKE_DIRECTORY "${_generated}/cpp" "${EXECUTORCH_GGML_GENERATED_PYTHON}")

# What `executorch-ggml build-runtime` found in the programs that the runtime is for; see Selection.cmake.
set(_selection "")
if(EXECUTORCH_GGML_SELECTION)
  set(_selection --selection "${EXECUTORCH_GGML_SELECTION}")
endif()

# The script leaves files whose text stays the same untouched, so a stamp stands for having run it.
add_custom_command(
  OUTPUT "${_generated}/ops.stamp"
  BYPRODUCTS "${_generated}/cpp/ops_generated.h" "${_generated}/cpp/selection_generated.h"
             "${_generated}/cpp/build_generated.inc" "${_schema}"
  COMMAND "${Python_EXECUTABLE}" -I "${_ir}/codegen.py" --cpp-out "${_generated}/cpp" --schema-out "${_schema}"
          ${_selection}
  COMMAND "${CMAKE_COMMAND}" -E touch "${_generated}/ops.stamp"
  DEPENDS ${_table} ${EXECUTORCH_GGML_SELECTION}
  COMMENT "Generating C++ and the schema from the op table"
  VERBATIM
)
add_custom_command(
  OUTPUT "${_generated}/cpp/ggml_ir_generated.h"
  COMMAND "${EXECUTORCH_GGML_FLATC}" --cpp --scoped-enums -o "${_generated}/cpp" "${_schema}"
  DEPENDS "${_schema}"
  COMMENT "Generating C++ from the schema"
  VERBATIM
)
# One module with everything, installed as executorch_ggml.ir._generated.ggml_ir_generated.
file(CONFIGURE OUTPUT "${EXECUTORCH_GGML_GENERATED_PYTHON}/__init__.py"
     CONTENT "\"\"\"Written by flatc from schema/ggml_ir.fbs.\"\"\"\n"
)
add_custom_command(
  OUTPUT "${EXECUTORCH_GGML_GENERATED_PYTHON}/ggml_ir_generated.py"
  COMMAND "${EXECUTORCH_GGML_FLATC}" --python --gen-onefile --gen-object-api
          -o "${EXECUTORCH_GGML_GENERATED_PYTHON}" "${_schema}"
  DEPENDS "${_schema}"
  COMMENT "Generating Python from the schema"
  VERBATIM
)

set(_outputs "${_generated}/ops.stamp" "${_generated}/cpp/ggml_ir_generated.h")
if(EXECUTORCH_GGML_BUILD_PYTHON)
  list(APPEND _outputs "${EXECUTORCH_GGML_GENERATED_PYTHON}/ggml_ir_generated.py")
endif()
add_custom_target(executorch_ggml_codegen ALL DEPENDS ${_outputs})

add_library(executorch_ggml_generated INTERFACE)
add_dependencies(executorch_ggml_generated executorch_ggml_codegen)
target_include_directories(executorch_ggml_generated INTERFACE "${_generated}/cpp")
target_include_directories(executorch_ggml_generated SYSTEM INTERFACE "${EXECUTORCH_GGML_FLATBUFFERS_INCLUDE}")
