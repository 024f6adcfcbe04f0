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

# CMake takes one word as a tool. zig names ARM64's extensions by -mcpu alone, where gcc and clang know -march.
set(_zig_arm64 [=[
for argument; do
  shift
  case "$argument" in
    -march=armv8-a*) argument="-mcpu=generic${argument#-march=armv8-a}" ;;
    -march=armv8.2-a*) argument="-mcpu=generic+v8_2a${argument#-march=armv8.2-a}" ;;
  esac
  set -- "$@" "$argument"
done
]=])
foreach(_tool IN ITEMS cc c++ ar ranlib)
  set(_script "${CMAKE_BINARY_DIR}/zig-${_tool}")
  file(CONFIGURE OUTPUT "${_script}" CONTENT "#!/bin/sh\n${_zig_arm64}exec '${EXECUTORCH_GGML_ZIG}' ${_tool} \"$@\"\n" @ONLY)
  file(CHMOD "${_script}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endforeach()

set(CMAKE_C_COMPILER "${CMAKE_BINARY_DIR}/zig-cc")
set(CMAKE_CXX_COMPILER "${CMAKE_BINARY_DIR}/zig-c++")
set(CMAKE_AR "${CMAKE_BINARY_DIR}/zig-ar")
set(CMAKE_RANLIB "${CMAKE_BINARY_DIR}/zig-ranlib")
set(CMAKE_C_COMPILER_TARGET "${_zig_target}")
set(CMAKE_CXX_COMPILER_TARGET "${_zig_target}")

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
