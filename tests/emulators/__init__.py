"""Runs native tests and programs on emulated CPUs: ARM64 in QEMU, and x86 with AVX-512 and AMX in Bochs."""
