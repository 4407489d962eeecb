# Each target sets up what it needs; running one twice changes nothing that is already right.
SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := .venv/bin
CARGO ?= cargo
export UV_PROJECT_ENVIRONMENT := $(CURDIR)/.venv
# the Rust tests that take seconds wait
export RUST_TEST_THREADS ?= 6
NAMES := pgdrive pgprobe pgnull
PROGRAMS := $(NAMES:%=target/release/%)
CHECKED := $(NAMES:%=target/debug/%)
INSTALLED := $(NAMES:%=.venv/bin/%)
# tests run programs of cargo's profile for development: compiled in half the time, and overflows panic in them.
# They have an environment of their own, so that nobody measures with such programs. PROFILE=release: those of releases
PROFILE ?= debug
TESTS := target/$(PROFILE)/tests
PYTHON := python tests benchmarks tools
CATALOGUES := $(wildcard python/pgdyno/report/languages/*/LC_MESSAGES/*.po)
AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo)
SOURCES := $(shell find crates -name '*.rs' -o -name '*.lua' -o -name Cargo.toml) Cargo.toml Cargo.lock

.PHONY: help demo build docs messages check check-rust check-units test test-environment test-packages test-long test-tap test-rust test-python lint lint-source lint-rust lint-python advisories format bench bench-probe bench-packages simulations fuzz fuzz-python fuzz-rust static-programs engines dist wheels dist-check image-check lint-workflows pins kills clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

demo: build ## measure a PostgreSQL 18 here: a sweep of clients, a table, an HTML report
	$(BIN)/pgdyno run quick || [ $$? = 12 ] # other load may make a demonstration invalid, which its headline says

build: $(INSTALLED) .venv/.complete ## .venv/bin/pgdyno, pgdrive, pgprobe and pgnull

# Rust's tests are compiled and run while Python's run: compilers link with one thread, and tests wait for servers
test: ## every test but the long ones (installs missing Debian packages with apt); CI runs it, and lint-source
	$(MAKE) --no-print-directory --jobs=3 test-packages test-environment
	$(MAKE) --no-print-directory --jobs=2 test-rust test-python

test-environment: $(TESTS)/.ready ## then target/debug/tests/bin/pytest tests/unit and the like work

# without root, Debian packages or a server: what to run before each commit
check: test-environment ## lint, types, quick unit tests and the Rust tests that need no server
	$(MAKE) --no-print-directory --jobs=3 lint-source check-rust check-units

check-rust:
	MAKEFLAGS= $(CARGO) test --workspace --locked --quiet

check-units: test-environment
	$(TESTS)/bin/pytest --quiet --numprocesses=auto --dist=loadfile -m 'not long and not slow' tests/unit

lint: lint-source target/tools/bin/cargo-deny ## rustfmt, clippy, ruff, mypy --strict; cargo deny
	target/tools/bin/cargo-deny --locked check licenses bans sources

# what CI runs: it does not build cargo-deny, which takes five minutes in each fresh clone. Each night runs all of lint
lint-source:
	$(MAKE) --no-print-directory --jobs=2 lint-rust lint-python

lint-rust:
	$(CARGO) fmt --check
	MAKEFLAGS= $(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# mypy uses one core
lint-python: .venv/.complete
	$(BIN)/ruff format --check $(PYTHON)
	$(BIN)/ruff check $(PYTHON)
	$(BIN)/mypy

lint-workflows: ## GitHub's workflows and actions, by actionlint (needs Go)
	go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

# RustSec's database is a repository on GitHub. The checks of `make lint` need no network once the crates are there
advisories: target/tools/bin/cargo-deny ## known vulnerabilities of the crates (fetches RustSec's database)
	@target/tools/bin/cargo-deny --locked fetch db || { \
	  echo "make advisories: NOT CHECKED: https://github.com/RustSec/advisory-db could not be fetched (see above)" >&2; \
	  exit 1; }
	target/tools/bin/cargo-deny --locked check advisories

# once: five minutes of one core
target/tools/bin/cargo-deny:
	$(CARGO) install cargo-deny --version 0.20.2 --locked --quiet --root target/tools

format: .venv/.installed ## put the source in shape
	$(CARGO) fmt
	$(BIN)/ruff format $(PYTHON)
	$(BIN)/ruff check --fix $(PYTHON)

bench: build ## compare pgdrive with pgbench, sysbench and a bare loop on one server, interleaved; loading; the probe
	$(CC) -O2 -Wall -Wextra -o target/release/bare_loop benchmarks/bare_loop.c
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/throughput.py
	$(BIN)/python benchmarks/load.py
	$(BIN)/python benchmarks/probe.py

bench-probe: build ## throughput with and without pgprobe, A B B A; its CPU and its bytes on disk
	$(BIN)/python benchmarks/probe.py

simulations: build ## how far the analysis can be trusted: tables by simulation, minutes of one core (RUNS="folder...")
	PYTHONPATH=benchmarks $(BIN)/python -m simulations $(RUNS)

# one after the other, nicely; a finding ends it. Naming targets of one language leaves out those of the other.
# FUZZ_SEED=0: libFuzzer chooses its seed and prints it; the Python targets count theirs up from 0
FUZZ_SECONDS ?= 600
FUZZ_SEED ?= 0
ifdef FUZZ_TARGETS
FUZZ_PYTHON ?=
else ifdef FUZZ_PYTHON
FUZZ_TARGETS ?=
endif
FUZZ_TARGETS ?= exchange startup client script conninfo pollers
FUZZ_PYTHON ?= plans records tables bytes_of_a_run imports events journals requests
fuzz: fuzz-python fuzz-rust ## each fuzz target for ten minutes (FUZZ_SECONDS=600 FUZZ_TARGETS=script FUZZ_PYTHON=plans FUZZ_SEED=0)

fuzz-python: test-environment
	for target in $(FUZZ_PYTHON); do \
	  FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_SEED=$(FUZZ_SEED) nice -n 19 \
	    $(TESTS)/bin/pytest -q -s "tests/fuzz/test_fuzz.py::test_$$target[long]" || exit; done

fuzz-rust: $(if $(strip $(FUZZ_TARGETS)),target/tools/bin/cargo-fuzz)
	cd fuzz && for target in $(FUZZ_TARGETS); do found=../target/fuzz/$$target; mkdir -p $$found; \
	  PATH="$(CURDIR)/target/tools/bin:$$PATH" nice -n 19 \
	    $(CARGO) +nightly fuzz run $$target $$found corpus/$$target -- \
	    -max_total_time=$(FUZZ_SECONDS) -seed=$(FUZZ_SEED) -timeout=60 -rss_limit_mb=1024 \
	    $$(test -f $$target.dict && echo -dict=$$target.dict) || exit; done

target/tools/bin/cargo-fuzz:
	$(CARGO) install cargo-fuzz --locked --quiet --root target/tools

# programs for any Linux: zig brings a C compiler for each machine, and the C library is linked in. LuaJIT's build
# also links a helper program for that host, which needs the unwinder by name and is not stripped
MACHINES := x86_64 aarch64
static-programs: target/tools/zig/.installed
	for machine in $(MACHINES); do target=$$machine-unknown-linux-musl; \
	  if command -v rustup >/dev/null; then rustup --quiet target add $$target || exit; fi; \
	  PATH="$(CURDIR)/target/tools/zig/bin:$$PATH" TARGET_LIBS=-lunwind TARGET_STRIP=true CARGO_PROFILE_RELEASE_STRIP=debuginfo \
	    $(CARGO) zigbuild --release --locked --target $$target \
	      --package pgdrive --package pgdyno-probe --package pgdyno-nullserver || exit; done

ENGINES := .venv/share/pgdyno/engines
engines: .venv/.installed static-programs ## pgdrive and pgprobe for hosts of x86_64 and of aarch64
	for machine in $(MACHINES); do release=target/$$machine-unknown-linux-musl/release; \
	  install -D -t $(ENGINES)/$$machine $$release/pgdrive $$release/pgprobe || exit; done

# a wheel for each machine, the source, and the programs alone for hosts without Python
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
dist: wheels ## wheels, source distribution and archives of pgdrive, for release, in dist/ (10 minutes)
	$(BIN)/uv build --quiet --sdist --out-dir dist
	for machine in $(MACHINES); do release=target/$$machine-unknown-linux-musl/release; \
	  tar --create --gzip --file=dist/pgdrive-$(VERSION)-$$machine-linux.tar.gz --owner=0 --group=0 --numeric-owner \
	    --mtime=@$(SOURCE_DATE_EPOCH) --transform='s,^.*/,,' --transform='s,^,pgdrive-$(VERSION)/,' \
	    $$release/pgdrive $$release/pgprobe $$release/pgnull $$release/THIRD-PARTY-NOTICES.txt LICENSE || exit; done
	cd dist && rm -f .gitignore && sha256sum -- * > SHA256SUMS

wheels: .venv/.complete static-programs ## wheels alone (MACHINES="x86_64 aarch64")
	rm -rf dist
	PGDYNO_PGPROBE=target/$$(uname -m)-unknown-linux-musl/release/pgprobe $(BIN)/python tools/pages.py target/pages
	for machine in $(MACHINES); do \
	  PGDYNO_WHEEL_TARGET=$$machine-unknown-linux-musl $(BIN)/uv build --quiet --wheel --out-dir dist || exit; done

# the wheel of this machine is installed where nothing else is; no Rust, no compiler and no PostgreSQL on the path.
# MACHINES="x86_64 aarch64" requires both; otherwise it checks those that `make dist` made
dist-check: .venv/.installed ## what dist/ holds: metadata, static programs, and a minute's run from the wheel
	$(BIN)/uv sync --locked --quiet --inexact --group release
	$(BIN)/twine check --strict dist/*.whl dist/pgdyno-*.tar.gz
	for wheel in dist/*.whl; do $(BIN)/auditwheel show $$wheel | grep -q "requires no external shared libraries" || exit; done
	$(BIN)/python -m tests.release dist $(if $(filter command line environment,$(origin MACHINES)),$(MACHINES))

# no daemon and no registry: its last stage, run by chroot in a Debian of mmdebstrap
image-check: .venv/.installed ## the steps of the Dockerfile, with the wheel in dist/ (as root)
	$(BIN)/python -m tests.image

target/tools/zig/.installed:
	python3 -m venv target/tools/zig
	target/tools/zig/bin/pip install --quiet --disable-pip-version-check cargo-zigbuild==0.24.0 ziglang==0.17.1
	@touch $@

KILLS ?= 200
kills: build ## ends runs and resumes at random moments, and counts what was lost (KILLS=200, minutes)
	$(BIN)/python -m tests.kills $(KILLS)

pins: .venv/.installed ## digests of embedded servers: adds the newest releases to python/pgdyno/targets/embedded/pins.txt
	$(BIN)/python -m tests.pin_archives

clean: ## what was built here; not the cache of servers
	rm -rf target .venv

# Debian packages that tests compare with or make certificates by. Asks for nothing where they are there.
# $(call need,CHECK,PACKAGES,WHY): PACKAGES are missing unless the command CHECK succeeds
define need
{ $(1); } >/dev/null 2>&1 || { echo "installing $(2): $(3)"; missing="$$missing $(2)"; };
endef

install_missing = test -z "$$missing" || { $(AS_ROOT) apt-get update -qq && \
	  $(AS_ROOT) apt-get install -y -qq --no-install-recommends $$missing; }

test-packages:
	@missing=; \
	$(call need,command -v pgbench,postgresql,its pgbench is compared with) \
	$(call need,test -f "$$(pg_config --includedir-server)/postgres.h",postgresql-server-dev-all,extensions are built for its server) \
	$(call need,command -v valgrind,valgrind,it counts instructions) \
	$(call need,command -v openssl,openssl,for the tests' certificates) \
	$(call need,command -v pgbouncer,pgbouncer,tests connect through it) \
	$(call need,command -v sysbench,sysbench,pgdrive runs its scripts) \
	$(call need,command -v meson,meson,source trees are built with it) \
	$(call need,test -x /sbin/mkfs.btrfs -a -x /sbin/mkfs.xfs,btrfs-progs xfsprogs,snapshots are tested on their file systems) \
	$(call need,test -x /usr/sbin/sshd,openssh-server,tests run one of their own) \
	$(call need,ls /usr/lib/*/faketime/libfaketime.so.1,libfaketime,gives a host another clock) \
	$(call need,command -v ip,iproute2,makes hosts of network namespaces) \
	$(call need,command -v mmdebstrap && command -v gpg,mmdebstrap gpg,makes hosts that boot) \
	$(call need,command -v chromium,chromium,tests look at pages in it) \
	$(install_missing)

# Debian packages that benchmarks compare with.
bench-packages: test-packages

# the crates' own tests, among them those that need a server: its path is passed to them. Cargo gets no MAKEFLAGS, as
# it would miss the jobserver that they name
test-rust: test-environment
	MAKEFLAGS= $(TESTS)/bin/python -m tests.server_for_rust $(CARGO) test --workspace --locked --quiet -- --include-ignored

# workers that start with nothing compiled would each compile all tests and libraries: 14 s of CPU each
$(TESTS)/.collected: $(TESTS)/.ready $(shell find tests -name '*.py')
	@$(TESTS)/bin/pytest --collect-only --quiet >$@ || { cat $@; rm $@; exit 1; }

# run files in parallel, in their order: many tests wait for servers
# (PYTEST_WORKERS=4: four at a time, in less memory: each has up to 0.8 GB); pytest then lists the slowest tests
PYTEST_WORKERS ?= 6
# (SHUFFLE=seed: in a random order)
SIDE_BY_SIDE := --numprocesses=$(PYTEST_WORKERS) --dist=loadfile --no-loadscope-reorder --durations=20 \
  $(if $(SHUFFLE),--shuffle-files=$(SHUFFLE))
test-python: $(TESTS)/.collected
	$(TESTS)/bin/pytest $(SIDE_BY_SIDE) -m 'not long' --ignore=tests/cli/test_latency_honesty.py
	$(TESTS)/bin/pytest tests/cli/test_latency_honesty.py

test-long: test-environment test-packages ## what `make test` leaves out for its length (`@pytest.mark.long`)
	$(TESTS)/bin/pytest $(SIDE_BY_SIDE) -m long

# a source tree of PostgreSQL is too much to fetch for every `make test`
test-tap: build ## PostgreSQL's own tests of pgbench, run with pgdrive (SOURCE=/path/to/postgresql-18)
	@test -n "$(SOURCE)" || { echo "name PostgreSQL's source tree: make test-tap SOURCE=/path/to/postgresql-18"; exit 1; }
	@missing=; \
	$(call need,perl -MIPC::Run -e 1,libipc-run-perl,PostgreSQL's tests are written with it) \
	$(call need,command -v psql,postgresql-client,PostgreSQL's tests call it) \
	$(install_missing)
	$(BIN)/python -m tests.pgbench_tap $(SOURCE)

COMPILE := $(CARGO) build --locked --package pgdrive --package pgdyno-probe --package pgdyno-nullserver

$(PROGRAMS) &: $(SOURCES)
	$(COMPILE) --release
	@touch $(PROGRAMS)

$(CHECKED) &: $(SOURCES)
	$(COMPILE)
	@touch $(CHECKED)

# pgdyno takes the programs that are beside its Python
$(INSTALLED) &: $(PROGRAMS) .venv/.installed
	install -t .venv/bin $(PROGRAMS)

# .venv with other programs: its libraries, and commands that run under a Python of their own
$(TESTS)/.ready: .venv/.complete $(NAMES:%=target/$(PROFILE)/%)
	$(BIN)/python -m venv --without-pip $(TESTS)
	for libraries in .venv/lib/python*/site-packages; do \
	  echo "import site; site.addsitedir(sitedir + '/../../../../../../$$libraries')" > $(TESTS)/$${libraries#.venv/}/project.pth; done
	for command in pgdyno pytest; do \
	  sed '1s,.*,#!$(CURDIR)/$(TESTS)/bin/python,' $(BIN)/$$command > $(TESTS)/bin/$$command; \
	  chmod +x $(TESTS)/bin/$$command; done
	install -t $(TESTS)/bin $(filter target/%,$^)
	@touch $@

# one run compiles all of them
$(CATALOGUES:.po=.mo) &: $(CATALOGUES) tools/translations.py .venv/.installed
	$(BIN)/python tools/translations.py compile

docs: test-environment ## the documentation as a site, in site/ (to read it: python3 -m http.server --directory site)
	$(BIN)/uv sync --locked --quiet --inexact --group docs
	NO_MKDOCS_2_WARNING=1 $(TESTS)/bin/python -m mkdocs build --strict

messages: build ## bring the reports' texts in other languages up to date with the source (.po), and compile them
	$(BIN)/python tools/translations.py

# the one file that pip fetches, by version and digest; uv.lock holds the digests of all others
.venv/bin/uv: tools/bootstrap.txt
	python3 -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --only-binary=:all: -r tools/bootstrap.txt
	@touch $@

.venv/.libraries: .venv/bin/uv pyproject.toml uv.lock
	$(BIN)/uv sync --locked --quiet --inexact --no-install-project
	@touch $@

# Python reads a .pth file in the encoding of the locale, so these name no folder that may have other letters
.venv/.installed: .venv/.libraries tools/hatch_build.py
	$(BIN)/uv sync --locked --quiet --inexact
	@for file in .venv/lib/python*/site-packages/_editable_impl_pgdyno.pth; do echo ../../../../python > $$file; done
	@touch $@

.venv/.complete: .venv/.installed $(CATALOGUES:.po=.mo)
	@touch $@
