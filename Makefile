# make demo and make test need git, make and either the Debian packages or a way to install them; nothing else.
# What `make demo` runs: train the study's medium model on handwritten digits with 1, 2, ... GPUs, or 1 and 2 virtual devices.
# On one GPU: what it does at each batch, eager and as a graph, in fp32, tf32 and bf16, and what a second could add at most.
DEMO_OUTPUT := results/local/demo
DEMO_COMMAND = build/$(PRESET)/bin/amdahl study --model medium --data data/digits.csv --target label \
               --batch-sizes 16,64,256,1024 --output-dir $(DEMO_OUTPUT)
DEMO_REPORT := $(DEMO_OUTPUT)/report.md

NVCC   := $(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc))
GPU    := $(if $(NVCC),$(shell nvidia-smi -L 2>/dev/null | grep -m1 '^GPU'))
PRESET ?= $(if $(GPU),cuda,release)
JOBS   ?= $(shell nproc)
TEST_JOBS ?= 4  # tests at a time, also on two cores: many wait for processes and deadlines
CMAKE_FLAGS ?=
FUZZ_SECONDS ?= 15
PREFIX  ?= /usr/local
DEB_DIR ?= build
PYTHON  ?= python3
WHEEL_DIR  ?= build/wheels
WHEEL_CUDA ?= $(if $(GPU),ON,OFF)
CLANG_FORMAT ?= clang-format-14
CLANG_TIDY   ?= clang-tidy-14
# Configures preset $(1) with tests $(2): silent unless it fails.
CONFIGURE = mkdir -p build && { cmake --preset $(1) -DAMDAHL_TESTS=$(2) $(CMAKE_FLAGS) >build/configure-$(1).log 2>&1 || \
            { cat build/configure-$(1).log; exit 1; }; }
CXX_FILES = $(shell git ls-files '*.h' '*.cpp' '*.cu' '*.cuh')

.DEFAULT_GOAL := help
.PHONY: help demo test build install deb wheel clean format format-check lint lint-all asan tsan fuzz

help:  ## this list
	@grep -hE '^[a-z-]+: .*##|^[a-z-]+:  *##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | \
	  awk -F'\t' '{printf "  make %-13s %s\n", $$1, $$2}'
	@echo "Preset: $(PRESET) (override: make PRESET=release|cuda|dev ...), jobs: $(JOBS)"

demo:  ## install what is missing, build, run a short study on handwritten digits, name the report
	@$(MAKE) --no-print-directory program
	@rm -rf $(DEMO_OUTPUT)  # of an earlier demo: a study does not write over a run
	$(DEMO_COMMAND)
	@echo
	@echo "Report: $(DEMO_REPORT)"

test:  ## install what is missing, build, run every test
	@scripts/install_deps.sh build test
	@$(call CONFIGURE,$(PRESET),ON)
	@cmake --build build/$(PRESET) --parallel $(JOBS)
	@ctest --preset $(PRESET) --parallel $(TEST_JOBS)
	@scripts/test_summary.sh build/$(PRESET)

build:  ## install what is missing and build everything, tests included
	@scripts/install_deps.sh build test
	@$(call CONFIGURE,$(PRESET),ON)
	@cmake --build build/$(PRESET) --parallel $(JOBS)

install:  ## build, and install under PREFIX (default: /usr/local), manual pages and completion too; DESTDIR as usual
	@$(MAKE) --no-print-directory program
	@cmake --install build/$(PRESET) --prefix $(PREFIX)

deb:  ## a Debian package in DEB_DIR (default: build)
	@scripts/install_deps.sh build deb
	@$(MAKE) --no-print-directory program
	@cpack --config build/$(PRESET)/CPackConfig.cmake -B $(DEB_DIR) >build/package-$(PRESET).log 2>&1 || \
	  { cat build/package-$(PRESET).log; exit 1; }
	@ls $(DEB_DIR)/amdahl_*.deb

wheel:  ## a wheel of the Python package amdahl-lab for PYTHON (default: python3) in WHEEL_DIR (default: build/wheels)
	@PYTHON=$(PYTHON) scripts/install_deps.sh build wheel
	@mkdir -p build && cmake -G Ninja -B build/wheel -DCMAKE_BUILD_TYPE=Release -DAMDAHL_TESTS=OFF -DAMDAHL_WITH_MPI=OFF \
	  -DAMDAHL_CUDA=$(WHEEL_CUDA) -DAMDAHL_OPEN_CUBLAS=ON -DCMAKE_INSTALL_LIBDIR=lib $(CMAKE_FLAGS) >build/configure-wheel.log 2>&1 || \
	  { cat build/configure-wheel.log; exit 1; }
	@cmake --build build/wheel --parallel $(JOBS) --target amdahl_cli
	@rm -rf build/wheel/prefix && cmake --install build/wheel --prefix build/wheel/prefix >/dev/null
	@PYTHON=$(PYTHON) JOBS=$(JOBS) scripts/build_wheel.sh $(WHEEL_DIR) build/wheel/prefix

.PHONY: program
program:
	@scripts/install_deps.sh build
	@$(call CONFIGURE,$(PRESET),OFF)
	@cmake --build build/$(PRESET) --parallel $(JOBS) --target amdahl_cli

asan:  ## what computes and reads, and the fuzz tests, under AddressSanitizer and UndefinedBehaviorSanitizer
tsan:  ## what has threads (unit/run and equivalence tests) under ThreadSanitizer
asan tsan:
	@scripts/install_deps.sh build test
	@$(call CONFIGURE,$@,ON)
	@cmake --build --preset $@ --parallel $(JOBS)
	@ctest --preset $@ --parallel 2

fuzz:  ## every parser on damaged files, FUZZ_SECONDS each (default: 15), with FUZZ_SEED or seeds of the moment
	@scripts/install_deps.sh build test
	@$(call CONFIGURE,$(PRESET),ON)
	@cmake --build build/$(PRESET) --parallel $(JOBS) --target fuzz_tests
	@FUZZ_SECONDS=$(FUZZ_SECONDS) ctest --preset $(PRESET) -L '^fuzz$$' --parallel 2

format:  ## rewrite every tracked C++ file in the project's style
	@scripts/install_deps.sh ci
	@$(CLANG_FORMAT) -i $(CXX_FILES)

format-check:  ## fail when a tracked C++ file is not in the project's style
	@scripts/install_deps.sh ci
	@$(CLANG_FORMAT) --dry-run --Werror $(CXX_FILES)

lint:  ## clang-tidy over what a change touches and what includes it; findings are errors (LINT_SECONDS caps the time)
lint-all:  ## clang-tidy over every source, without a limit of time
lint lint-all:
	@scripts/install_deps.sh build test ci
	@mkdir -p build && cmake --preset release -B build/lint -DAMDAHL_TESTS=OFF -DAMDAHL_UNITY=OFF $(CMAKE_FLAGS) >build/configure-lint.log 2>&1 || \
	  { cat build/configure-lint.log; exit 1; }
	@cmake --build build/lint --target amdahl_commit
	@CLANG_TIDY=$(CLANG_TIDY) JOBS=$(JOBS) scripts/lint.sh build/lint $(if $(filter lint-all,$@),--all)

clean:  ## remove every build folder and what the scripts remembered
	@rm -rf build .deps/unavailable
