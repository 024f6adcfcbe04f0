# Everything a developer does, each in one command on a fresh machine. `make help` lists it.
#
# Variables:  GGML=variants|native|wheel  how ggml is built (tools/install_ggml.py)
#             PYTHON=python3.11           the interpreter to make .venv with
#             PYTEST_ARGS, BENCH          passed to pytest; the benchmarks to run (all)
#             BENCH_LLM_ARGS=--resume     passed to benchmarks.llm
#             FUZZ_SECONDS=3600           how long to fuzz
#             WHEELS_ARGS="--machine x86_64 --python 3.11"  a part of the wheels
#             ARM64_ARGS=--quick          the part of test-arm64 that CI runs
#             X86_ARGS=--quick            the part of test-x86 that takes minutes
#             CROSS=--quick               the part of cross that CI runs; or a system, CROSS=aarch64-macos

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= $(shell command -v python3.11 || command -v python3)

# Images set it. Each process that imports torch would compile its sources anew, which takes ten seconds.
unexport PYTHONDONTWRITEBYTECODE
# With `make --jobs` ninja would look for a job server that make opens to makes alone.
unexport MAKEFLAGS
GGML ?= variants
PYTEST_ARGS ?= -n 2 --dist loadfile --no-loadscope-reorder
FUZZ_SECONDS ?= 3600

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
STAMPS := $(VENV)/stamps
BUILD := build/dev
EXAMPLES := build/examples
CORPUS := build/corpus

comma := ,

PIP := $(PY) -m pip --disable-pip-version-check
EXTRAS := demo,dev,bench,webnn,docs,examples

# Folders are in the list for the sake of files that are removed.
NATIVE_SOURCES := CMakeLists.txt $(shell find native cmake tests/native -name '*.pyc' -prune -o -print 2>/dev/null) \
  $(shell find python/executorch_ggml/ir -name '*.py' 2>/dev/null)
CPP_FILES = $(shell find native examples tests/native tests/devices -name '*.cpp' -o -name '*.h' 2>/dev/null)
# The modules of benchmarks/ that can be run.
BENCH ?= $(filter-out llm llm_profile device_program,$(patsubst benchmarks/%.py,%,$(sort $(shell grep -l '^if __name__ == "__main__"' benchmarks/*.py 2>/dev/null))))

.PHONY: help
help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)$$/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name what; do \
	  printf '  make %-12s %s\n' "$$name" "$$what"; done

# --------------------------------------------------------------------------------------------------------- set-up

.PHONY: setup
setup: $(STAMPS)/proved $(STAMPS)/torchvision $(if $(filter wheel,$(GGML)),,$(STAMPS)/backend-rpc)  ## make .venv, install what is needed, build the native code

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=...")'
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	mkdir -p $(@D) && touch $@

# One stamp for each way to build ggml, so that another choice installs again.
$(STAMPS)/ggml-$(GGML): $(STAMPS)/venv constraints.txt tools/install_ggml.py tools/ggml_variants.py cmake/probe_amx.py
	rm -f $(STAMPS)/ggml-*
	$(PY) -m tools.install_ggml $(GGML)
	touch $@

# The devices of other machines. The prebuilt ggml comes without, and GGML=wheel is to compile nothing.
$(STAMPS)/backend-rpc: $(STAMPS)/ggml-$(GGML)
	$(PY) -m tools.install_ggml --backend rpc
	touch $@

# In a folder of its own: ggml opens every GPU at start with what lies beside it.
$(VENV)/ggml-vulkan/libggml-vulkan.so: $(STAMPS)/ggml-$(GGML)
	CMAKE_BUILD_PARALLEL_LEVEL=2 nice $(PY) -m tools.install_ggml --backend vulkan --target $(@D)

.PHONY: vulkan
vulkan: $(VENV)/ggml-vulkan/libggml-vulkan.so  ## compile ggml-vulkan, for tests on Mesa's software driver; ten minutes

# torch is in the same command as all that depends on it, so that pip keeps one choice of it. Without bytecode, which
# takes most of a minute for 24,000 files: an import writes what it needs.
$(STAMPS)/packages: $(STAMPS)/ggml-$(GGML) constraints.txt pyproject.toml tools/requirements.py
	$(PY) tools/requirements.py --extras $(EXTRAS) --build > $(STAMPS)/requirements.txt
	$(PIP) install --no-compile -c constraints.txt -r $(STAMPS)/requirements.txt
	touch $@

# In a folder of its own: with a CPU build of torch it can be imported only with the help of tests/torchvision_cpu.py,
# and transformers would try to. timm imports torchvision.
$(STAMPS)/torchvision: $(STAMPS)/venv constraints.txt
	$(PIP) install --no-compile --no-deps --upgrade --target $(VENV)/torchvision -c constraints.txt torchvision torchaudio pillow timm
	rm -f $(VENV)/torchvision/torchaudio/lib/*.so  # for CUDA; without them torchaudio does what Python can
	touch $@

$(STAMPS)/project: $(STAMPS)/packages pyproject.toml $(NATIVE_SOURCES)
	$(PIP) install --no-build-isolation --no-deps --config-settings build-dir=$(BUILD) \
	  --config-settings cmake.define.EXECUTORCH_GGML_WERROR=ON --config-settings cmake.define.EXECUTORCH_GGML_BUILD_TESTS=ON \
	  --config-settings cmake.define.EXECUTORCH_GGML_TEST_CORPUS=$(CURDIR)/$(CORPUS) -e .
	touch $@

# Variants of ggml that this CPU runs and that die or compute something else are removed.
$(STAMPS)/proved: $(STAMPS)/ggml-$(GGML) $(STAMPS)/project tools/prove_ggml.py
	$(PY) -m tools.prove_ggml
	touch $@

# ------------------------------------------------------------------------------------------------------------ use

.PHONY: demo
demo: setup  ## train a small CNN, run it on ggml, compare with eager and XNNPACK
	$(PY) examples/demo.py

.PHONY: llm-demo
llm-demo: setup  ## train a small language model on Python's documentation, export it in three types, generate
	$(PY) examples/llm_demo.py

.PHONY: bench
bench: setup runner  ## measure against XNNPACK, eager, ONNX Runtime and OpenVINO; writes benchmarks/RESULTS.md
	for name in $(BENCH); do echo "== benchmarks.$$name"; $(PY) -m benchmarks.$$name; done

# llama.cpp compiled for this machine, as its users do: some ten minutes on two cores.
$(STAMPS)/llama_cpp: $(STAMPS)/packages constraints.txt tools/install_llama_cpp.py
	$(PY) -m tools.install_llama_cpp
	touch $@

# The newest ggml, whose device interface is one version on. There is no package with its source; this one's libraries
# were built on glibc 2.38, and tests/devices/older_glibc.py lets a program use them on an older one.
$(STAMPS)/ggml_newest: $(STAMPS)/packages constraints.txt
	$(PIP) install --no-deps -c constraints.txt llama-cpp-py-sync
	touch $@

.PHONY: bench-llm
bench-llm: setup $(STAMPS)/llama_cpp  ## language models beside llama.cpp, XNNPACK and transformers, from the same GGUF files
	$(PY) -m benchmarks.llm $(BENCH_LLM_ARGS)

.PHONY: devices
devices: setup  ## real models on every device, as programs of ours and of ggml's; a part of bench
	$(PY) -m benchmarks.devices

.PHONY: runner
runner: setup  ## build the C++ example against the installed package
	$(BIN)/cmake -S examples/cpp -B $(EXAMPLES) --log-level=WARNING \
	  -DCMAKE_PREFIX_PATH="$$($(PY) -c 'import executorch_ggml; print(executorch_ggml.cmake_prefix_path)')"
	$(BIN)/cmake --build $(EXAMPLES)

# --------------------------------------------------------------------------------------------------------- checks

# Where it cannot be had the tests of pages are skipped, and say so.
$(STAMPS)/chromium: tools/install_chromium.py | $(STAMPS)/venv
	$(PY) -m tools.install_chromium .cache/chromium && touch $@ || true

.PHONY: chromium
chromium: $(STAMPS)/chromium  ## fetch Debian's Chromium for the tests of pages, without root; ten seconds

.PHONY: test
test: native-test runner-test chromium  ## run the tests, C++ and Python
	$(PY) -m pytest $(PYTEST_ARGS)

.PHONY: test-all
test-all: native-test runner-test chromium $(STAMPS)/llama_cpp $(STAMPS)/ggml_newest  ## run the tests, the slow ones and those against llama.cpp too
	$(PY) -m pytest $(PYTEST_ARGS) -m "slow or not slow" --hypothesis-profile=thorough

# The kernels' tests go through all instruction sets themselves.
.PHONY: test-isa
test-isa: corpus isa-models  ## run the kernels and a dozen models on every instruction set that this machine has
	$(BIN)/ctest --test-dir $(BUILD) --output-on-failure -R '^kernels_'

# What of it `make test` does not run.
.PHONY: isa-models
isa-models: setup
	$(PY) -m pytest -p no:xdist tests/test_isa.py -m slow

.PHONY: test-arm64
test-arm64: corpus  ## cross-compile for ARM64; run native tests and a dozen models in QEMU
	$(PY) -m tests.emulators.arm64 $(ARM64_ARGS)

.PHONY: test-x86
test-x86: runner  ## run native tests and a dozen models on emulated x86 CPUs, with AVX-512 and AMX too
	$(PY) -m tests.emulators.x86 $(X86_ARGS)

$(STAMPS)/zig: $(STAMPS)/packages constraints.txt
	-$(PIP) install -c constraints.txt ziglang
	touch $@

.PHONY: cross
cross: corpus $(STAMPS)/zig  ## compile and link for macOS, Windows and musl, and run what QEMU and Wine can
	$(PY) -m tools.cross $(CROSS)

.PHONY: native-test
native-test: setup corpus
	$(BIN)/ctest --test-dir $(BUILD) --output-on-failure --parallel 2

# A program made in Python gives the same numbers in a plain C++ process.
.PHONY: runner-test
runner-test: runner
	$(PY) examples/cpp/export_model.py $(EXAMPLES)/model
	$(EXAMPLES)/run_pte $(EXAMPLES)/model.pte --input $(EXAMPLES)/model.input.bin --expect $(EXAMPLES)/model.output.bin

.PHONY: package-test
package-test: setup  ## build the sdist and the wheel, install that in a new environment and use it there
	$(PY) -m tools.check_packaging

.PHONY: wheels
wheels: $(STAMPS)/packages $(STAMPS)/zig  ## build the manylinux wheels that are published, into dist; half an hour
	$(PY) -m tools.wheels $(WHEELS_ARGS)

# Programs that the native tests read, and damage.
.PHONY: corpus
corpus: setup
ifneq ($(wildcard tests/native/make_corpus.py),)
	$(PY) -m tests.native.make_corpus $(CORPUS)
endif

.PHONY: conformance
conformance: setup  ## run ExecuTorch's backend test suite; writes docs/conformance.md
	$(PY) -m tests.conformance

.PHONY: architectures
architectures: setup  ## run architectures of timm and transformers; writes docs/architectures.md
	$(PY) -m tests.architectures

.PHONY: devices-support
devices-support: setup  ## run ggml's operator cases on every device; writes docs/devices_support.md
	$(PY) -m tests.devices.support

.PHONY: wpt
wpt: setup  ## run WebNN's conformance cases on every executor; writes docs/webnn_conformance.md and webnn_support.md
	$(PY) -m tests.webnn.wpt
	$(PY) -m tests.webnn.support

.PHONY: fuzz
fuzz: setup  ## run random programs against eager PyTorch for FUZZ_SECONDS; failures go to build/fuzz
	$(PY) -m tests.fuzz --seconds $(FUZZ_SECONDS) --out build/fuzz

# $(call sanitized-test,SANITIZERS,TESTS,VARIABLE=VALUE): native tests in a build of their own; all, or TEST|TEST.
define sanitized-test
	$(3) $(BIN)/cmake -S . -B build/$@ -G Ninja --log-level=WARNING -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
	  -DPython_EXECUTABLE=$(abspath $(PY)) -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	  -DEXECUTORCH_GGML_SANITIZE=$(1) -DEXECUTORCH_GGML_BUILD_TESTS=ON -DEXECUTORCH_GGML_BUILD_DELEGATE=OFF \
	  -DEXECUTORCH_GGML_WERROR=ON \
	  -DEXECUTORCH_GGML_TEST_CORPUS=$(CURDIR)/$(CORPUS)
	$(BIN)/cmake --build build/$@ --target $(or $(subst |, ,$(2)),all)
	$(BIN)/ctest --test-dir build/$@ --output-on-failure $(and $(2),-R '^($(2))$$')
endef

.PHONY: asan
asan: setup corpus  ## run the native tests under AddressSanitizer and UBSan
	$(call sanitized-test,address$(comma)undefined)

# ThreadSanitizer sees what orders the threads of a pool only in a ggml that is instrumented too.
$(STAMPS)/tsan: $(STAMPS)/venv constraints.txt tools/install_ggml.py
	$(PY) -m tools.install_ggml tsan --target $(VENV)/ggml-tsan
	touch $@

.PHONY: tsan
tsan: setup corpus $(STAMPS)/tsan  ## run the native tests of threads under ThreadSanitizer
	$(call sanitized-test,thread,cpu_test|thread_pool_test|threads_test,PYTHONPATH=$(CURDIR)/$(VENV)/ggml-tsan)

.PHONY: lint
lint: setup  ## check style, types, and that generated files are up to date
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(CPP_FILES)
	$(PY) -m executorch_ggml.ir.codegen --check
	$(PY) -m tools.lowering_docs --check
	$(PY) -m tools.command_docs --check
	$(PY) -m executorch_ggml.webnn.generate --check
	$(PY) -m executorch_ggml.devices.compiled.docs --check
	$(PY) -m tests.devices.support --check
	$(PY) tools/operator_arguments.py --check
	$(PY) -m tests.architectures --check
	$(PY) -m tools.report_assets --check
	$(PY) -m tools.peers_table --check
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

.PHONY: docs
docs: setup  ## build the docs site into build/site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

.PHONY: format
format: setup  ## put the style right where that can be done without thought
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP_FILES)

.PHONY: generate
generate: setup  ## write the tracked files that follow from the op table and the lowerings
	$(PY) -P python/executorch_ggml/ir/codegen.py --schema-out schema/ggml_ir.fbs --docs-out docs/ops.md
	$(PY) -m tools.lowering_docs
	$(PY) -m tools.command_docs
	$(PY) -m executorch_ggml.webnn.generate
	$(PY) -m executorch_ggml.devices.compiled.docs
	$(PY) -m executorch_ggml.devices.mlx.docs
	$(PY) tools/operator_arguments.py
	$(PY) -m tools.peers_table

.PHONY: clean
clean:  ## remove what was built; .venv and the compiled ggml stay
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis $(STAMPS)/project
	find python tests benchmarks examples tools cmake -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

.PHONY: distclean
distclean: clean  ## remove .venv and the compiled ggml too
	rm -rf $(VENV) .cache
