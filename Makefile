# Tidegate: every target does its own set-up. `make` alone prints the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := targets
.NOTPARALLEL:
export PATH := $(HOME)/.cargo/bin:$(PATH)

.PHONY: targets
targets:
	@echo 'make demo    the main job: real traffic through the switch, in namespaces of its own'
	@echo 'make test    every check and test, and what was skipped'
	@echo 'make build   the program, in target/release/tidegate'
	@echo 'make lint    format, clippy, architecture and sizes, licences'
	@echo 'make fuzz    how to run the fuzz targets'
	@echo 'make setup   packages and toolchain (the others do this themselves)'
	@echo 'make clean   remove what was built'

.PHONY: setup
setup:
	@scripts/setup

.PHONY: build
build: setup
	cargo build --release --locked --package tidegate

.PHONY: demo
demo: build
	target/release/tidegate demo

.PHONY: test
test: setup
	@cargo xtask test

.PHONY: lint
lint: setup
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo xtask tidy
	cargo fetch --locked --quiet --target "$$(rustc -vV | sed -n 's/^host: //p')"
	cargo xtask licences

.PHONY: fuzz
fuzz:
	@echo 'The fuzz targets need a nightly toolchain and cargo-fuzz:'
	@echo '  rustup toolchain install nightly && cargo install cargo-fuzz'
	@echo '  fuzz/run SECONDS [TARGET]...     all targets, or these'
	@echo 'The targets: '$$(basename --suffix=.rs fuzz/fuzz_targets/*.rs)
	@echo 'fuzz/README.md says what each checks.'

.PHONY: clean
clean:
	cargo clean
