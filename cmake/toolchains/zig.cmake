# What the zig-*.cmake files share: PyPI's `ziglang` as the compiler for the system that `_zig_target` names. Give
# -DEXECUTORCH_GGML_ZIG= with the path of zig's program, or let `python3 -m ziglang` find it.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES EXECUTORCH_GGML_ZIG)
if(NOT EXECUTORCH_GGML_ZIG)
  execute_process(
    COMMAND python3 -c "import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), 'zig'))"
    OUTPUT_VARIABLE EXECUTORCH_GGML_ZIG
    OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY
  )
endif()

set(CMAKE_C_COMPILER "${EXECUTORCH_GGML_ZIG}" cc)
set(CMAKE_CXX_COMPILER "${EXECUTORCH_GGML_ZIG}" c++)
set(CMAKE_C_COMPILER_TARGET "${_zig_target}")
set(CMAKE_CXX_COMPILER_TARGET "${_zig_target}")

# CMake takes one word as the archiver.
foreach(_tool IN ITEMS ar ranlib)
  string(TOUPPER "${_tool}" _upper)
  set(_script "${CMAKE_BINARY_DIR}/zig-${_tool}")
  file(WRITE "${_script}" "#!/bin/sh\nexec '${EXECUTORCH_GGML_ZIG}' ${_tool} \"$@\"\n")
  file(CHMOD "${_script}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  set(CMAKE_${_upper} "${_script}")
endforeach()

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
