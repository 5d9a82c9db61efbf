# The few commands a newcomer and CI need. Everything else is cargo's.

CARGO ?= cargo
# `make run DATA=/srv/nostr LISTEN=0.0.0.0:7777`
DATA ?= ./data
LISTEN ?= 127.0.0.1:7777

.PHONY: run build test prerequisites format lint unit clients

# A relay at ws://127.0.0.1:7777, data in ./data.
run: build
	./target/release/hikyaku serve --data $(DATA) --listen $(LISTEN)

build: prerequisites
	$(CARGO) build --release --locked -p hikyaku

# What CI runs: a clean checkout and two cores are enough.
test: prerequisites format lint unit clients

prerequisites:
	@scripts/prerequisites.sh

format:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# The table server is compared with memcached, the PostgreSQL store runs on servers of its own.
# HTTP is spoken by curl, the login page is clicked through in Chromium.
unit:
	@scripts/prerequisites.sh memcached:memcached "/usr/lib/postgresql/*/bin/initdb:postgresql" chromium:chromium curl:curl
	$(CARGO) test --workspace --locked

# nostr-tools and nostr-sdk against this relay, or against RELAY_URL if that is set.
clients:
	@scripts/clients.sh
