"""Builds for Linux on ARM64 here and runs that in QEMU; `make test-arm64`."""
