.PHONY: test check duckdb build demo bench compare soak corpus fuzz snapshot packages

GO ?= go

# The tests start their own private servers; setup installs what they need where it is missing.
test:
	scripts/setup
	$(GO) test -race -shuffle=on -timeout 30m ./...

# What a commit has to pass besides the tests.
check:
	scripts/check

# What only a program with DuckDB has; go build -tags duckdb ./cmd/trunkline makes one.
duckdb:
	scripts/setup-stores
	CGO_ENABLED=1 $(GO) vet -tags duckdb ./connectors/duckdb
	CGO_ENABLED=1 $(GO) test -tags duckdb -timeout 15m ./connectors/duckdb
	CGO_ENABLED=1 $(GO) test -tags duckdb -timeout 15m -run TestDuckDB ./examples

build:
	CGO_ENABLED=0 $(GO) build -trimpath -tags=timetzdata -ldflags="-s -w" -o bin/trunkline ./cmd/trunkline

demo:
	$(GO) run ./cmd/trunkline demo

# Ratios against peers on this machine; docs/performance.md says how to read them.
bench: build
	bin/trunkline bench all

# The log beside Kafka itself, loaded by Kafka's own tools: the table of docs/performance.md, from so many rounds.
ROUNDS ?= 3
compare:
	scripts/setup-clients
	TRUNKLINE_COMPARE=$(ROUNDS) $(GO) test -count=1 -timeout 60m -v -run CompareWithKafka ./examples/kafka-clients
	$(GO) test -run '^$$' -bench Cluster -timeout 20m ./log/kafka

# The long forms of the tests that the suite runs for seconds.
soak:
	scripts/setup
	TRUNKLINE_SOAK=10m $(GO) test -timeout 60m -run 'Soak|Kill|Crash' ./...
	TRUNKLINE_SOAK=9m $(GO) test -timeout 60m -v -run 'FanOut' ./cmd/endtoend
	TRUNKLINE_SOAK=30m $(GO) test -timeout 90m -v -run 'EvolvesAtRandom|CorpusStatementByStatement' ./cmd/endtoend

# Tables of every type and a script of changes, from PostgreSQL to PostgreSQL and from MariaDB to MariaDB in every way; the suite
# runs one of each.
corpus:
	scripts/setup
	GO=$(GO) scripts/corpus

FUZZTIME ?= 2m
fuzz:
	scripts/fuzz $(FUZZTIME)

# What a release holds, from this checkout, into dist/: programs and archives for each system, deb and rpm.
snapshot:
	GO=$(GO) scripts/release

# The deb and the rpm for this machine alone.
packages:
	GO=$(GO) scripts/release packages
