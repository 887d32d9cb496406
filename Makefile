# Tidegate: every target does its own set-up. `make` alone prints the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := targets
.NOTPARALLEL:
export PATH := $(HOME)/.cargo/bin:$(PATH)
# Ports of DPDK are built in where the system has it. Set to nothing, they are not.
dpdk = $(shell pkg-config --exists 'libdpdk >= 21.11' 2>/dev/null && echo --features dpdk)

.PHONY: targets
targets:
	@echo 'make demo      the main job: real traffic through the switch, in namespaces of its own'
	@echo 'make lab       three hypervisors with VXLAN and web traffic, in namespaces of their own'
	@echo 'make test      every check and test, and what was skipped'
	@echo 'make build     the programs, target/release/tidegate and target/release/ovs-vswitchd'
	@echo 'make install   programs, manual pages and completion below PREFIX (/usr/local)'
	@echo 'make lint      format, clippy, architecture and sizes, licences'
	@echo 'make deb       a Debian package, target/deb/tidegate_VERSION_ARCHITECTURE.deb'
	@echo 'make suite     Open vSwitch'"'"'s own test suites with this switch, as root (docs/suites.md)'
	@echo 'make cost      instructions of the hot path, against the accepted numbers'
	@echo 'make peers     this switch and Open vSwitch with DPDK on the same traffic, as root'
	@echo 'make mutants   how many small faults the tests notice, in a sample of each crate'
	@echo 'make fuzz      how to run the fuzz targets'
	@echo 'make sanitize  ThreadSanitizer and Miri on what threads share and on unsafe code'
	@echo 'make setup     packages and toolchain (the others do this themselves)'
	@echo 'make clean     remove what was built'

.PHONY: setup
setup:
	@scripts/setup

.PHONY: build
build: setup
	cargo build --release --locked --package tidegate --package ovs-vswitchd $(dpdk)

# DESTDIR=DIR puts them below a folder, for packages. Into the system itself, ovs-vswitchd becomes an
# alternative to Debian's; `update-alternatives --config ovs-vswitchd` chooses.
PREFIX ?= /usr/local
prefix := $(DESTDIR)$(PREFIX)
programs = target/release
.PHONY: install
install: build
	install -D -m 755 $(programs)/tidegate $(prefix)/bin/tidegate
	install -D -m 755 $(programs)/ovs-vswitchd $(prefix)/lib/tidegate/ovs-vswitchd
	install -d $(prefix)/share/man/man1
	$(programs)/tidegate man $(prefix)/share/man/man1
	install -d $(prefix)/share/bash-completion/completions $(prefix)/share/zsh/site-functions
	$(programs)/tidegate completion bash >$(prefix)/share/bash-completion/completions/tidegate
	$(programs)/tidegate completion zsh >$(prefix)/share/zsh/site-functions/_tidegate
	if [ -z "$(DESTDIR)" ] && command -v update-alternatives >/dev/null; then \
	    update-alternatives --install /usr/sbin/ovs-vswitchd ovs-vswitchd $(prefix)/lib/tidegate/ovs-vswitchd 10; \
	fi

# Built from a copy of the files that git knows, so that the folder `debian` stays clean. `make deb-test` installs the
# package in a root of its own, carries traffic, upgrades, swaps back and purges it.
.PHONY: deb deb-test
deb:
	@scripts/setup deb
	rm -rf target/deb/source target/deb/*.deb && mkdir -p target/deb/source
	git ls-files -z | tar --create --null --files-from=- | tar --extract --directory target/deb/source
	cd target/deb/source && CARGO_TARGET_DIR='$(CURDIR)/target/deb/build' \
	    TIDEGATE_COMMIT="$$(git -C '$(CURDIR)' rev-parse --short HEAD)" \
	    dpkg-buildpackage --build=binary --no-sign --no-pre-clean
	lintian --fail-on error target/deb/*.changes

deb-test: deb
	tests/package target/deb/tidegate_*.deb

.PHONY: demo
demo: build
	target/release/tidegate demo

# LAB=... for its options, such as LAB='--peer ovs --rounds 3'.
.PHONY: lab
lab: build
	target/release/tidegate lab akraino $(LAB)

.PHONY: test
test:
	@scripts/setup test
	@cargo xtask test

# All of cargo's tests in one build, with DPDK itself where the system has it. Without --show-output, what
# a passed test has skipped would stay hidden.
.PHONY: test-cargo
test-cargo:
	cargo test --workspace $(if $(dpdk),--features port-dpdk/dpdk) --locked --no-fail-fast -- --show-output
	@if [ -z "$(dpdk)" ]; then echo 'SKIPPED: DPDK: libdpdk-dev is not installed'; fi

# The fuzz targets compile: checked without libFuzzer, which cargo-fuzz links, and so with the stable toolchain.
# Their lock file knows what the workspace depends on: where it does not, that is a failure.
.PHONY: test-fuzz
test-fuzz:
	@if said=$$(cargo fetch --quiet --locked --manifest-path fuzz/Cargo.toml \
	    --target "$$(rustc -vV | sed -n 's/^host: //p')" 2>&1); then \
	    CUSTOM_LIBFUZZER_PATH=/unused/libFuzzer.a cargo check --locked --manifest-path fuzz/Cargo.toml --all-targets; \
	elif grep -q 'lock file' <<<"$$said"; then \
	    printf '%s\n' "$$said" 'run: cargo metadata --manifest-path fuzz/Cargo.toml >/dev/null' >&2; exit 1; \
	else \
	    echo 'SKIPPED: fuzz targets: what they depend on cannot be fetched'; \
	fi

# The ports of DPDK with DPDK itself, alone.
.PHONY: test-dpdk
test-dpdk:
	@if [ -n "$(dpdk)" ]; then \
	    cargo test --package port-dpdk $(dpdk) --no-fail-fast -- --show-output; \
	else \
	    echo 'SKIPPED: DPDK: libdpdk-dev is not installed'; \
	fi

# SUITE=system|unit|all|quick of Debian's sources, or of the built tree OVS_TREE=DIR; SUITE=ovn|ovn-system of the built
# tree OVN_TREE=DIR; TESTS='-k learn' or TESTS=100-120, PEER=1 for Open vSwitch's own daemon, JOBS=N, AGAIN=1 to begin
# anew, UPDATE=1 to write tests/suites/expected.toml.
.PHONY: suite
suite: build
	@scripts/setup suite
	@cargo xtask suite --suite '$(or $(SUITE),system)' $(if $(OVS_TREE)$(OVN_TREE),--tree '$(or $(OVS_TREE),$(OVN_TREE))') \
	    $(if $(TESTS),--tests '$(TESTS)') $(if $(PEER),--peer) \
	    $(if $(JOBS),--jobs '$(JOBS)') $(if $(AGAIN),--again) $(if $(UPDATE),--update)

# Random pipelines beside Open vSwitch: SEEDS='1..1001' (the night's), REFERENCE=PROGRAM for another than Debian's.
.PHONY: pipelines
pipelines: build
	@tests/pipelines/run $(or $(SEEDS),1..1001)

.PHONY: peers
peers: build
	bench/peers/run

# Instructions of the hot path against the accepted ones (xtask/cost.toml); needs valgrind.
.PHONY: cost
cost: setup
	@cargo xtask cost

# How many small faults in the code the tests notice: CRATES='conntrack table', SAMPLE=N, SEED=N.
.PHONY: mutants
mutants: setup
	@cargo xtask mutants $(if $(SAMPLE),--sample '$(SAMPLE)') $(if $(SEED),--seed '$(SEED)') $(CRATES)

.PHONY: lint
lint: setup
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	if [ -n "$(dpdk)" ]; then \
	    cargo clippy --package port-dpdk --all-targets --locked $(dpdk) -- -D warnings; \
	fi
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

# Takes a nightly toolchain and many minutes, so it is no part of `make test`.
.PHONY: sanitize
sanitize:
	@scripts/sanitize

.PHONY: clean
clean:
	cargo clean
