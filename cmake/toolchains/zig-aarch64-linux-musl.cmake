# Compiles for Linux on ARM64 without glibc, as Android is, with PyPI's `ziglang`.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(_zig_target aarch64-linux-musl)
include("${CMAKE_CURRENT_LIST_DIR}/zig.cmake")
# ExecuTorch's headers declare glibc's `__assert_fail` where NDEBUG is defined, and musl's is another function.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-UNDEBUG>)
