# C++ from the schemas of ExecuTorch's files (.pte, .ptd), which its Python package brings.
#
# Target executorch_ggml_schemas: its include directories hold program_generated.h and flat_tensor_generated.h. Their
# namespaces are ours: ExecuTorch has the same classes, made with another version of FlatBuffers.

set(EXECUTORCH_GGML_SCHEMAS "" CACHE PATH "ExecuTorch's source tree or package, for its *.fbs files")

set(_program_schema schema/program.fbs)
set(_data_schema extension/flat_tensor/serialize/flat_tensor.fbs)
executorch_ggml_locate(_schemas_root executorch "${_program_schema}")
foreach(_root IN ITEMS "${_schemas_root}" "${EXECUTORCH_DIR}" "${EXECUTORCH_GGML_SCHEMAS}")
  if(EXISTS "${_root}/${_program_schema}" AND EXISTS "${_root}/${_data_schema}")
    set(_schemas "${_root}")
  endif()
endforeach()
if(NOT _schemas)
  message(FATAL_ERROR "ExecuTorch's ${_program_schema} and ${_data_schema} are not found: install executorch for "
                      "${Python_EXECUTABLE}, or give -DEXECUTORCH_GGML_SCHEMAS=, a checkout of ExecuTorch.")
endif()

set(_schemas_out "${CMAKE_BINARY_DIR}/generated/schemas")
file(MAKE_DIRECTORY "${_schemas_out}")
set(_schema_headers "")
foreach(_schema IN ITEMS schema/scalar_type.fbs ${_program_schema} ${_data_schema})
  get_filename_component(_name "${_schema}" NAME_WE)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${_schemas}/${_schema}")
  file(READ "${_schemas}/${_schema}" _text)
  string(REPLACE "executorch_flatbuffer" "executorch_ggml.pte" _text "${_text}")
  string(REPLACE "flat_tensor_flatbuffer" "executorch_ggml.ptd" _text "${_text}")
  file(CONFIGURE OUTPUT "${_schemas_out}/${_name}.fbs" CONTENT "${_text}" @ONLY)
  add_custom_command(
    OUTPUT "${_schemas_out}/${_name}_generated.h"
    COMMAND "${EXECUTORCH_GGML_FLATC}" --cpp --scoped-enums -o "${_schemas_out}" "${_schemas_out}/${_name}.fbs"
    DEPENDS "${_schemas_out}/${_name}.fbs"
    COMMENT "Generating C++ from ${_name}.fbs"
    VERBATIM
  )
  list(APPEND _schema_headers "${_schemas_out}/${_name}_generated.h")
endforeach()
add_custom_target(executorch_ggml_generate_schemas DEPENDS ${_schema_headers})

add_library(executorch_ggml_schemas INTERFACE)
add_dependencies(executorch_ggml_schemas executorch_ggml_generate_schemas)
target_include_directories(executorch_ggml_schemas SYSTEM INTERFACE "${_schemas_out}")
target_include_directories(executorch_ggml_schemas SYSTEM INTERFACE "${EXECUTORCH_GGML_FLATBUFFERS_INCLUDE}")
