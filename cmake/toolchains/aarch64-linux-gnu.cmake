# Cross-compiles for Linux on ARM64 with Debian's g++-aarch64-linux-gnu, and runs what was built, as tests do, in QEMU
# (qemu-user-static) on the CPU that EXECUTORCH_GGML_QEMU_CPU names.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)

set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L /usr/aarch64-linux-gnu)
