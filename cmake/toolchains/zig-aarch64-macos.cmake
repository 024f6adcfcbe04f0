# Compiles for macOS on Apple Silicon with PyPI's `ziglang`.
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR arm64)
set(CMAKE_OSX_SYSROOT "")
set(CMAKE_OSX_DEPLOYMENT_TARGET "")
set(_zig_target aarch64-macos)
include("${CMAKE_CURRENT_LIST_DIR}/zig.cmake")
