# All the set-up there is: a Rust toolchain and the system's netCDF library, which `setup` installs where it may.

CARGO ?= cargo
SYSTEM_PACKAGES = libnetcdf-dev libhdf5-dev pkg-config gcc
FEATURES ?=
DATA ?=
OUT ?= demo
# Runs tell which source made them.
COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null)

.PHONY: build test lint demo setup static clean

build: setup
	$(if $(COMMIT),WXSIM_COMMIT=$(COMMIT)) $(CARGO) build --release

# HDF5 keeps its lock of a file as long as any child process lives that another test started meanwhile.
test: setup
	HDF5_USE_FILE_LOCKING=FALSE $(CARGO) test $(if $(FEATURES),--features $(FEATURES))

lint: setup
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets -- --deny warnings

setup:
	@command -v $(CARGO) >/dev/null || { echo "wxsim needs a Rust toolchain: https://rustup.rs"; exit 1; }
	@pkg-config --exists netcdf hdf5 2>/dev/null || .ci/system-packages $(SYSTEM_PACKAGES)

# Make weather, train a small forecaster on it, forecast, score, and leave a report to open; with DATA, on the files there.
demo:
	@DATA='$(DATA)' OUT='$(OUT)' $(if $(DATA),.ci/demo-files,.ci/demo)

# One file for any Linux x86-64 with glibc 2.28 or newer: netCDF and HDF5 inside, linked through zig.
static:
	.ci/static

clean:
	$(CARGO) clean
