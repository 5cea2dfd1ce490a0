# Everything starts here; `make help` lists it. Needs only `make` itself: scripts/setup gets the rest where it is missing. Without make
# there are ./run and ./test.

# rustup's own directory comes last, so that a cargo already in PATH wins.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin
SHELL := /bin/sh
# The last line of a setup that is part of something else is of no use.
export ISOCAST_SETUP ?= part

LISTEN ?= 127.0.0.1:8080
SEEDS ?= 500
ROUNDS ?= 20
PREFIX ?= /usr/local
# Where `make install` puts things; DESTDIR is in front of all of it, for packages.
PROGRAMS = $(DESTDIR)$(PREFIX)/bin
UNITS = $(DESTDIR)$(PREFIX)/lib/systemd/system
SYSUSERS = $(DESTDIR)$(PREFIX)/lib/sysusers.d
MIBS = $(DESTDIR)$(PREFIX)/share/snmp/mibs
LOGROTATE = $(DESTDIR)/etc/logrotate.d
EXAMPLES = $(DESTDIR)$(PREFIX)/share/isocast
MANUAL = $(DESTDIR)$(PREFIX)/share/man/man1
COMPLETIONS = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
ZSH = $(DESTDIR)$(PREFIX)/share/zsh/site-functions
FISH = $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
SETTINGS = $(DESTDIR)/etc/isocast
# Where systemd runs and is installed to.
RELOAD_UNITS = test -n "$(DESTDIR)" || test ! -d /run/systemd/system || systemctl daemon-reload
# The profile that programs are built with (Cargo.toml): `release`, or `ci`.
PROFILE ?= release
BINARY := $(or $(CARGO_TARGET_DIR),target)/$(PROFILE)/isocast
# Expanded only in recipes, after setup has made sure that there is a toolchain.
CARGO = RUSTUP_TOOLCHAIN=$$(scripts/toolchain) cargo

.PHONY: help run build lab install install-lab uninstall deb sbom test-deb image test-image test test-players test-page test-api check fmt clippy tidy sim fuzz crash mirror bench bench-full compare demo page book setup clean distclean

help: ## list what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

run: build demo ## build, make the demo videos and serve them on LISTEN (127.0.0.1:8080)
	@echo "Ctrl-C ends the server. It says where to look as soon as it answers there:"
	@exec $(BINARY) serve --listen $(LISTEN) --root demo/media --state demo/state --local-writes

build: page ## build target/release/isocast, page included, and isocast-mount beside it
	@$(CARGO) build --profile $(PROFILE) --locked -p isocast -p isocast-mount

lab: build ## build target/release/isocast-lab beside it: benchmarks, emulated disks
	@$(CARGO) build --profile $(PROFILE) --locked -p isocast-lab

install: ## put the built program, its service, manual pages and completions below PREFIX (/usr/local), as root
	@test -x $(BINARY) || { echo "run first, as yourself: make build" >&2; exit 1; }
	@install -D -m 755 -t $(PROGRAMS) $(BINARY) $(BINARY)-mount
	@mkdir -p $(UNITS) $(MANUAL) $(COMPLETIONS) $(ZSH) $(FISH)
	@for unit in packaging/*.service; do \
		sed 's|/usr/local/bin|$(PREFIX)/bin|' $$unit >$(UNITS)/$${unit##*/} && chmod 644 $(UNITS)/$${unit##*/}; done
	@install -D -m 644 packaging/isocast.sysusers $(SYSUSERS)/isocast.conf
	@install -D -m 644 packaging/ISOCAST-MIB.txt $(MIBS)/ISOCAST-MIB.txt
	@install -D -m 644 -t $(EXAMPLES) packaging/prometheus-rules.yml packaging/grafana-dashboard.json
	@$(BINARY) man $(MANUAL)
	@$(BINARY) completions bash >$(COMPLETIONS)/isocast
	@$(BINARY) completions zsh >$(ZSH)/_isocast
	@$(BINARY) completions fish >$(FISH)/isocast.fish
	@test -n "$(DESTDIR)" || systemd-sysusers $(SYSUSERS)/isocast.conf
	@$(RELOAD_UNITS)
	@install -D -m 644 packaging/isocast.logrotate $(LOGROTATE)/isocast
	@mkdir -p $(SETTINGS)/conf.d
	@test -e $(SETTINGS)/isocast.toml || install -m 644 packaging/isocast.toml $(SETTINGS)/isocast.toml
	@test -n "$(DESTDIR)" || chgrp -R isocast $(SETTINGS)
	@test -n "$(DESTDIR)" || echo "installed below $(PREFIX); settings: $(SETTINGS); next: name folders there, then systemctl enable --now isocast"

install-lab: ## put the built measuring tools (`make lab`) beside it, as root
	@test -x $(BINARY)-lab || { echo "run first, as yourself: make lab" >&2; exit 1; }
	@install -D -m 755 -t $(PROGRAMS) $(BINARY)-lab

uninstall: ## remove what `make install` and `make install-lab` put there; settings, state and the user stay
	@rm -f $(PROGRAMS)/isocast $(PROGRAMS)/isocast-mount $(PROGRAMS)/isocast-lab $(UNITS)/isocast.service $(UNITS)/isocast-measure.service \
		$(SYSUSERS)/isocast.conf $(MIBS)/ISOCAST-MIB.txt $(EXAMPLES)/prometheus-rules.yml $(EXAMPLES)/grafana-dashboard.json $(LOGROTATE)/isocast $(MANUAL)/isocast.1 $(MANUAL)/isocast-*.1 \
		$(COMPLETIONS)/isocast $(ZSH)/_isocast $(FISH)/isocast.fish
	@rmdir --ignore-fail-on-non-empty $(EXAMPLES) 2>/dev/null || true
	@$(RELOAD_UNITS)

deb: build ## make a Debian package of the built programs: target/deb/isocast_….deb
	@scripts/deb $(PROFILE)

test-deb: build ## install, upgrade, downgrade, remove and purge that package in a fresh Debian 12, as root
	@scripts/setup --bare
	@scripts/test-deb $(PROFILE)

sbom: setup ## list all that the programs are made of, as CycloneDX, and check licences and sources: target/isocast.cdx.json
	@RUSTUP_TOOLCHAIN=$$(scripts/toolchain) node packaging/sbom.mjs target/isocast.cdx.json

image: build ## make an image of containers from that package, as root: target/image/isocast.tar
	@scripts/setup --image
	@scripts/image $(PROFILE)

test-image: build ## run that image and ask what it serves, as root
	@scripts/setup --image
	@scripts/test-image $(PROFILE)

test: page ## run every test; what this machine or user cannot run is named as skipped
	@cd web && ../scripts/npm run --silent test
	@scripts/test --workspace --locked --no-fail-fast

test-players: build ## play films with mpv, VLC, ffplay, GStreamer, MPlayer and web players from a full server, 6 minutes; ONLY=mpv,VLC only these
	@scripts/setup --players
	@node tests/players/main.mjs --program $(BINARY) $(if $(ONLY),--only $(ONLY))

test-page: build ## the page in Chromium and Firefox: set-up, uploads, playback, settings, volumes, accessibility, the guide
	@scripts/setup --page
	@ISOCAST_BIN=$(abspath $(BINARY)) node --test tests/players/page.mjs tests/players/page_flows.mjs tests/players/page_work.mjs

test-api: ## the calls of the API against their description, by a property-based fuzzer (schemathesis) on a live server, 4 minutes
	@scripts/setup --api
	@$(CARGO) test --locked -p isocast --test main serve_api

check: fmt clippy test sim ## what CI runs: format, lints, every test (tidy is one), a minute of simulation

fmt: setup
	@$(CARGO) fmt --all --check || { echo "run: cargo fmt --all" >&2; exit 1; }

clippy: page
	@$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

tidy: setup ## only the checks of the house: dependencies, unsafe, file sizes, links
	@$(CARGO) test --locked -p tidy

sim: setup ## simulate SEEDS (500, or a range such as 500..900) and check the laws of the schedule in each
	@$(CARGO) run --profile $(PROFILE) --locked -p sim -- --seeds $(if $(findstring ..,$(SEEDS)),,0..)$(SEEDS)

fuzz: ## random bytes for what reads media, HTTP, volumes and messages of SNMP and nodes, a minute in all
	@scripts/setup --fuzz
	@scripts/fuzz

crash: lab ## kill the server and cut the power during uploads and streams, ROUNDS (20) times each (needs root)
	@ISOCAST_BIN=$(abspath $(BINARY)) ISOCAST_CRASH_ROUNDS=$(ROUNDS) ISOCAST_CRASH_RECORDINGS=64 ISOCAST_CRASH_MISSING=5 ISOCAST_SKIPPED=fail \
		scripts/test --locked -p isocast --test main real_time::crash:: -- --nocapture --test-threads=1

mirror: lab ## let a disk of a mirror err, hang and die at 90 % of its streams, ROUNDS (20) times each (needs root)
	@ISOCAST_BIN=$(abspath $(BINARY)) ISOCAST_FAULT_ROUNDS=$(ROUNDS) ISOCAST_SKIPPED=fail \
		scripts/test --locked -p isocast --test main real_time::volume_faults:: -- --nocapture

bench: lab ## measure on an emulated disk beside nginx, 14 minutes, results into results/ (needs root)
	@scripts/setup --bench
	@$(BINARY) bench all --quick $(if $(RESULTS),--out $(RESULTS))

bench-full: lab ## searches, repeats, three drives, a network: 2½ hours; goes on where it was broken off; PART=NAME only that (needs root)
	@scripts/setup --bench
	@$(BINARY) bench all --full --resume $(foreach part,$(PART),--only $(part)) $(if $(RESULTS),--out $(RESULTS))

compare: lab ## put the comparison of RESULTS (results/DATE-HOST) into the READMEs
	@$(BINARY)-lab report $(RESULTS) --readme README.md --readme README.ja.md

demo: setup ## make the demo videos in ./demo (kept)
	@scripts/demo

page: web/dist/index.html ## build the web page into web/dist, with the guide below help/

book: page ## build the guide, which the server has at /help/: web/dist/help/index.html
	@echo "open web/dist/help/index.html"

# Order-only: setup runs each time, but does not make the page out of date.
web/dist/index.html: $(shell find web docs/guide docs/reference -path web/node_modules -prune -o -path web/dist -prune -o -type f -print 2>/dev/null) | setup
	@cd web && ../scripts/npm run --silent build
	@touch $@

setup: ## install what is missing (Debian packages, Rust, npm packages)
	@scripts/setup

clean: ## remove what was built
	@rm -rf target web/dist

distclean: clean ## remove what was built, the demo videos and the page's packages
	@rm -rf demo web/node_modules web/.npm
