# Cross-compiles for Linux on ARM64 with Debian's g++-aarch64-linux-gnu, and runs what was built, as tests do, in QEMU
# (qemu-user-static) on the CPU that QEMU's own variable QEMU_CPU names. EXECUTORCH_GGML_CROSS_PREFIX in the environment
# is a folder that Debian's packages were unpacked into, instead of being installed.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

set(_prefix "$ENV{EXECUTORCH_GGML_CROSS_PREFIX}")
if(_prefix)
  set(CMAKE_SYSROOT "${_prefix}")
  set(CMAKE_C_COMPILER "${_prefix}/usr/bin/aarch64-linux-gnu-gcc")
  set(CMAKE_CXX_COMPILER "${_prefix}/usr/bin/aarch64-linux-gnu-g++")
else()
  set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
  set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
endif()

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)

set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L "${_prefix}/usr/aarch64-linux-gnu")
