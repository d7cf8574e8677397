# pagelab. `make demo` and `make test` are all a newcomer needs; both install what they need and may be run again.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
CARGO ?= cargo
PAGELAB := target/release/pagelab

# Debian packages: clang and the two headers to build; the rest are what the tests compare with.
BUILD_PACKAGES := clang libelf-dev zlib1g-dev pkg-config gcc make
TEST_PACKAGES := fio fio-examples linux-perf sqlite3 libsqlite3-dev git postgresql strace python3-venv python3-six lvm2 fdisk xfsprogs btrfs-progs e2fsprogs squashfs-tools libhugetlbfs-bin qemu-system-x86 cpio sparse patch xz-utils dwz perl sudo gcc-multilib musl-tools

# Runtimes whose stacks the long form looks at.
RUNTIME_PACKAGES := nodejs default-jdk-headless golang-go

# Programs that cases of the zoo run, beside those that the tests do.
ZOO_PACKAGES := apache2-utils bc brotli busybox bzip2 chezscheme clisp cpio erlang-base fpc g++ gawk gforth gfortran guile-3.0 ioping jq libleveldb-dev liblmdb-dev libseccomp-dev libtdb-dev lua5.4 luajit lz4 lzop mawk memcached mono-mcs mono-runtime newlisp nginx-light nodejs ocaml-nox openssl p7zip-full php-cli pigz pypy3 r-base-core redis-server rhash rocksdb-tools rsync ruby sbcl stress-ng swi-prolog-nox sysbench tcl xz-utils zstd

.PHONY: help setup setup-test setup-runtimes setup-zoo web build install uninstall pagelab-fleet cluster fleet fleet-stop test-fleet test-cluster test-agent demo test test-pages test-exports mutated-recordings mutants ready-to-test test-programs fleet-test-programs test-all experiments experiments-check zoo zoo-trial zoo-sized zoo-frozen zoo-alike zoo-claims zoo-fixes world-odd world-names world-programs world-fio world-variants world-hostile fio-conformance check bench fmt lint docs clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort

setup: ## install what building needs
	@tools/install-packages $(BUILD_PACKAGES)

setup-test: setup ## install what the tests compare with
	@tools/install-packages $(TEST_PACKAGES)
	@tools/install-venv fio-plot
	@tools/install-venv dataframes
	@tools/fio-conformance --fetch

setup-zoo: setup-test ## install what the zoo's cases run
	@tools/install-packages $(ZOO_PACKAGES)

setup-runtimes: setup-test ## install the runtimes whose stacks the long form looks at
	@tools/install-packages $(RUNTIME_PACKAGES)

# The script and the style sheet of HTML pages, which the program embeds.
WEB_SOURCES := $(filter-out web/src/schema.d.ts,$(wildcard web/src/*.ts)) $(wildcard web/src/*.css) $(addprefix web/,schema.json package.json package-lock.json vite.config.ts tsconfig.json)

web: web/dist/page.js ## the script of HTML pages; the program that is built next embeds it

web/dist/page.js: $(WEB_SOURCES)
	@command -v npm >/dev/null || tools/install-packages nodejs npm
	cd web && npm ci --silent --no-audit --no-fund && npm run --silent build

build: setup web ## build pagelab into target/release
	$(CARGO) build --release --locked -p pagelab-cli

# Where sudo looks (secure_path has /usr/local/bin on Debian, Ubuntu, Fedora and Arch).
PREFIX ?= /usr/local

install: ## install what `make build` built, with manual pages and completions, where sudo finds it: PREFIX=/usr/local, DESTDIR= (root)
	@test -x $(PAGELAB) || { echo "make install: found no $(PAGELAB); type: make build" >&2; exit 2; }
	install -D -m 755 $(PAGELAB) $(DESTDIR)$(PREFIX)/bin/pagelab
	@if [ -x $(PAGELAB)-fleet ]; then install -m 755 $(PAGELAB)-fleet $(DESTDIR)$(PREFIX)/bin/pagelab-fleet; fi
	mkdir -p $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(PAGELAB) help-files --man $(DESTDIR)$(PREFIX)/share/man/man1
	$(PAGELAB) help-files --shell bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/pagelab

uninstall: ## remove what `make install` installed (root)
	rm -f $(DESTDIR)$(PREFIX)/bin/pagelab $(DESTDIR)$(PREFIX)/bin/pagelab-fleet $(DESTDIR)$(PREFIX)/share/man/man1/pagelab{,-*}.1
	rm -f $(DESTDIR)$(PREFIX)/share/bash-completion/completions/pagelab

pagelab-fleet: target/release/pagelab-fleet ## build pagelab-fleet, which speaks to object stores, beside pagelab

FLEET_SOURCES := $(wildcard fleet/*/src/*.rs) fleet/Cargo.toml fleet/Cargo.lock $(wildcard fleet/*/Cargo.toml)
FLEET_BUILD := $(CARGO) build --release --locked --manifest-path fleet/Cargo.toml --target-dir target/fleet
FLEET_TEST := $(subst build,test,$(FLEET_BUILD))
# What needs neither a server nor a cluster; `make test` tests it, too.
FLEET_PACKAGES := -p pagelab-store -p pagelab-fleet-cli

target/release/pagelab-fleet: $(FLEET_SOURCES)
	$(FLEET_BUILD) -p pagelab-fleet-cli
	@mkdir -p target/release
	install -m 755 target/fleet/release/pagelab-fleet $@

# Stock scheduler and executor, of the version that pagelab-fleet speaks (fleet/Cargo.toml), and pagelab-fleet that speaks to them.
CLUSTER := target/cluster/bin/pagelab-fleet
# Always together: each alone has fewer features of DataFusion, which would be compiled once more.
CLUSTER_PACKAGES := -p pagelab-fleet-cli --features pagelab-fleet-cli/cluster -p pagelab-cluster -p pagelab-ballista

$(CLUSTER): $(FLEET_SOURCES) $(wildcard crates/sql/src/*.rs)
	@tools/install-packages protobuf-compiler
	$(FLEET_BUILD) $(CLUSTER_PACKAGES) -p ballista-scheduler -p ballista-executor --bins
	@mkdir -p target/cluster/bin target/release
	install -m 755 target/fleet/release/{ballista-scheduler,ballista-executor,pagelab-fleet} target/cluster/bin
	install -m 755 $(CLUSTER) target/release/pagelab-fleet

cluster: $(CLUSTER) ## build pagelab-fleet so that it speaks to clusters, and Ballista's stock scheduler and executor, into target/cluster/bin

# An S3 server to test with.
S3_SERVER := target/fleet-tools/bin/s3s-fs

$(S3_SERVER):
	$(CARGO) install --quiet --locked s3s-fs --version 0.14.1 --features binary --root target/fleet-tools --target-dir target/fleet-tools/build

fleet: build cluster $(S3_SERVER) ## start an S3 server and a cluster of Ballista on loopback, to try things on; says how
	@tests/fleet/start.py $(S3_SERVER) $(dir $(CLUSTER)) out/fleet

fleet-stop: ## end them; what is in the store stays in out/fleet
	@tests/fleet/start.py --stop out/fleet

test-cluster: build cluster $(S3_SERVER) ## the same questions to fleets and recordings, answered here and by a real cluster (root)
	@tools/install-venv dataframes
	$(CARGO) build --release --locked -p pagelab-benches --bin simulate_fleet
	$(FLEET_TEST) $(CLUSTER_PACKAGES)
	target/dataframes/bin/python tests/fleet/cluster.py $(PAGELAB) $(CLUSTER) $(S3_SERVER) target/release/simulate_fleet target/cluster/bin

test-fleet: build pagelab-fleet $(S3_SERVER) ## recordings in a real S3 server, through a proxy that fails (root)
	$(FLEET_TEST) $(FLEET_PACKAGES)
	tests/fleet/stores.py $(PAGELAB) target/release/pagelab-fleet $(S3_SERVER) $(if $(FULL),full)

test-agent: build pagelab-fleet setup-test ## the agent on this kernel; FULL=1: two hours beside pgbench, too (root)
	@tools/install-venv agent
	target/agent/bin/python tests/agent/agent.py $(PAGELAB) target/release/pagelab-fleet
	$(if $(FULL),target/agent/bin/python tests/agent/pgbench.py $(PAGELAB))
	$(if $(FULL),target/agent/bin/python tests/agent/steady.py $(PAGELAB))

demo: build ## a regression goes in, its cause comes out (needs root)
	tools/demo

test: ready-to-test ## everything that must pass (root)
	tools/test short

ready-to-test: setup web
	@$(MAKE) --no-print-directory -j3 test-programs fleet-test-programs setup-test

# Beside what is fetched for the tests: compiling needs the processors, fetching the network. Without MAKEFLAGS, or cargo would
# share make's two jobs with the fetching. Tests first: they keep both processors busy while one crate waits for another.
test-programs: setup web
	env -u MAKEFLAGS -u MFLAGS $(CARGO) test --release --locked --workspace --no-run
	env -u MAKEFLAGS -u MFLAGS $(CARGO) build --release --locked --workspace --bins

# Beside the others and behind them: it has the processors while one of their crates waits for another.
fleet-test-programs: setup
	env -u MAKEFLAGS -u MFLAGS nice -n 19 $(FLEET_TEST) --no-run $(FLEET_PACKAGES)

test-pages: build ## HTML pages of real recordings in a real browser; screenshots in out/pages (needs root)
	@tools/install-packages chromium default-jre-headless
	tools/pages

test-exports: build ## exported profiles and traces, read by Firefox Profiler's own code and Perfetto's schema (root)
	@command -v npm >/dev/null || tools/install-packages nodejs npm
	npm ci --silent --no-audit --no-fund --prefix web/exports
	@tools/install-venv exports
	target/exports/bin/python tests/exports/exports.py $(PAGELAB)

test-all: ready-to-test setup-runtimes ## the same with the long forms: 20 repetitions of each verdict, 50 kills, 60 A/A runs split 400 times
	tools/test full
	$(MAKE) test-pages
	$(MAKE) test-exports
	$(MAKE) test-fleet FULL=1
	$(MAKE) test-cluster

# Where to go on, and how many: make mutated-recordings COUNT=20000 FROM=0 SEED=1
mutated-recordings: setup ## 20,000 changed recordings through opening, checking and every view, in one process; COUNT, FROM, SEED
	PAGELAB_MUTATED=$(or $(COUNT),20000) PAGELAB_MUTATED_FROM=$(or $(FROM),0) PAGELAB_MUTATED_SEED=$(or $(SEED),1) $(CARGO) test --release --locked -p pagelab-report --test mutated -- --nocapture

# Folders of the experiments that can be carried out again.
EXPERIMENTS := $(patsubst %/reproduce.toml,%,$(wildcard experiments/*/reproduce.toml))

experiments: build setup-test ## the published experiments carried out again (needs root); what is kept in out/experiments is not made again, AGAIN=1 does
	$(PAGELAB) reproduce $(EXPERIMENTS) $(if $(AGAIN),--again) --index experiments/README.md

experiments-check: build ## every figure of the experiments computed once more from the recordings in out/experiments
	$(PAGELAB) reproduce $(EXPERIMENTS) --check

mutants: setup web ## changes in one place that tests are to notice: COUNT=120 SEED=1 MINUTES=90 by chance, CHANGE=REV of changed lines; before them tests/mutants.toml
	tools/mutants --by-hand
	COUNT=$(COUNT) SEED=$(SEED) MINUTES=$(MINUTES) CHANGE=$(CHANGE) tools/mutants

zoo-trial: build setup-zoo ## a set of tests/zoo/sets by its protocol, SET=eighth: made and asked in out/zoo-SET, goes on where it stopped (root; hours)
	tests/zoo/trial.py ask $(PAGELAB) out/zoo-$(SET) $(SET)
	tests/zoo/trial.py lines out/zoo-$(SET) $(SET) tests/zoo/judged/$$(date +%F)-$(SET).jsonl
	tests/zoo/judged.py count tests/zoo/judged/$$(date +%F)-$(SET).jsonl

zoo-sized: build setup-zoo ## cases of 5 to 100 % for tuning rules: known causes, losses that no rule knows, sides that are alike (root; hours)
	tests/zoo/sized.py make $(PAGELAB) out/zoo-tuning tuning 1
	tests/zoo/sized.py judge $(PAGELAB) out/zoo-tuning
	target/dataframes/bin/python tests/zoo/sized.py ablate $(PAGELAB) out/zoo-tuning

zoo-frozen: build setup-zoo ## the same with programs that no rule was tuned on: run once after a change of rules
	tests/zoo/sized.py make $(PAGELAB) out/zoo-frozen frozen 1
	tests/zoo/sized.py judge $(PAGELAB) out/zoo-frozen
	target/dataframes/bin/python tests/zoo/sized.py ablate $(PAGELAB) out/zoo-frozen

zoo-alike: build setup-zoo ## 200 pairs of sides that are alike: how often something is found, and what 2, 5 and 10 % are (an hour and a half)
	tests/zoo/alike.py make $(PAGELAB) out/zoo-alike
	tests/zoo/alike.py judge $(PAGELAB) out/zoo-alike

zoo-claims: build setup-zoo ## 20 true and 20 false claims for compare --confirm (root; an hour)
	tests/zoo/claims.py $(PAGELAB) out/zoo-claims

zoo-fixes: build setup-zoo ## the fixes that rules propose, tried: how much of the loss comes back (root; a quarter of an hour)
	tests/zoo/fixes.py $(PAGELAB) out/zoo-fixes

zoo: build setup-zoo ## cases with known causes: recorded in out/zoo, where what is there is not made again, and judged (needs root; half an hour)
	tests/zoo/zoo.py make $(PAGELAB) out/zoo
	tests/zoo/zoo.py judge $(PAGELAB) out/zoo

world-odd: build setup-test setup-runtimes ## programs of odd kinds that public reports are about, asked of pagelab, perf and strace (root; minutes)
	tests/world/world.py odd $(PAGELAB)

world-programs: build setup-test setup-runtimes ## 60 kinds of programs: the function with the most samples is perf's (root; a quarter of an hour)
	tests/world/programs.py $(PAGELAB)

world-names: build setup-test ## a million calls on files whose names change all the time: named as strace -y names them (root; minutes)
	tests/world/names.py $(PAGELAB) --calls 250000 --seeds 1,2,3,4

world-fio: build setup-test ## job files that public reports are about, run by pagelab as fio runs them (root; minutes)
	tests/world/world.py fio $(PAGELAB)

world-variants: build setup-test ## 300 job files drawn by seed, run by fio and by pagelab: operations, bytes, flushes and files are the same (root; a quarter of an hour)
	tests/world/variants.py $(PAGELAB) --jobs 300 --seed 1

world-hostile: build setup-test ## root of a container, with programs made to hold up who profiles the host (root; minutes)
	tests/world/hostile.py $(PAGELAB) --tries 20 --agent

fio-conformance: build setup-test ## fio's own tests against pagelab, all suites, and docs/fio-conformance.md anew; TREE=PATH of other sources than Debian's 3.33 (minutes)
	tools/fio-conformance $(or $(TREE),--debian) --beside fio --write docs/fio-conformance.md

check: ## the fast inner loop: does it compile, do the unit tests of CRATE=name pass
	$(CARGO) check --locked --workspace --all-targets
	$(if $(CRATE),$(CARGO) test --release --locked -p pagelab-$(CRATE))

bench: build ## side-by-side measurements against perf and plain loops; results in benches/results
	tools/bench

fmt: ## format
	$(CARGO) fmt --all

lint: ## rustfmt, clippy, style
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(subst build --release,clippy,$(FLEET_BUILD)) $(FLEET_PACKAGES) --all-targets -- -D warnings

docs: ## write the generated pages in docs/ anew
	PAGELAB_BLESS=1 $(CARGO) test --release --locked -p pagelab-recording --test integration docs_page
	PAGELAB_BLESS=1 $(CARGO) test --release --locked -p pagelab-fiojob --test job_docs
	PAGELAB_BLESS=1 $(CARGO) test --release --locked -p pagelab-session --test integration docs_page
	PAGELAB_BLESS=1 $(CARGO) test --release --locked -p pagelab-conformance --test docs docs_page
	PAGELAB_BLESS=1 $(CARGO) test --release --locked -p pagelab-vocab docs_page
	PAGELAB_BLESS=1 $(CARGO) test --release --locked -p pagelab-analysis --lib docs_page
	PAGELAB_BLESS=1 $(CARGO) test --release --locked -p pagelab-fleet --lib docs_page
	PAGELAB_BLESS=1 $(CARGO) test --release --locked -p pagelab-page --lib schema

clean: ## remove what was built
	$(CARGO) clean
