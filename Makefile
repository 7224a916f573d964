# build  demo  test  lint  golden  install  clean  — "make" alone builds.
PREFIX ?= /usr/local
DESTDIR ?=
GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

# The version is linked in; -trimpath keeps this machine's paths out of the binary.
BUILD = $(GO) build -trimpath -ldflags '-X main.release=$(VERSION)'
# A tool of its own version, without becoming a dependency of the product.
STATICCHECK = $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: all build demo test lint golden fuzz install clean
all: build

build:
	CGO_ENABLED=0 $(BUILD) -o bin/lb-render ./cmd/lb-render

# Runs the agent on the manifests of examples/haproxy, with output below ./out.
# DEMO_KEEP=1 leaves it running.
demo: build
	@sh scripts/demo.sh

test: lint
	$(GO) test -race -timeout 40m ./...

lint:
	@test -z "$$(gofmt -l cmd examples internal systemd)" || { echo "gofmt:"; gofmt -l cmd examples internal systemd; exit 1; }
	$(GO) mod tidy -diff
	$(GO) vet ./...
	$(STATICCHECK) ./...

# Rewrites the golden files; read the diff.
golden:
	$(GO) test ./internal/template ./examples -update

# A minute for each fuzz target.
fuzz:
	@set -e; for p in $$(grep -rl '^func Fuzz' --include='*_test.go' internal | xargs -n1 dirname | sort -u); do \
		for f in $$(grep -rhoE '^func Fuzz[A-Za-z0-9_]+' $$p/*_test.go | cut -c6-); do \
			echo "== $$p $$f"; $(GO) test ./$$p -run '^$$' -fuzz "^$$f$$" -fuzztime 60s; done; done

install: build
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)$(PREFIX)/share/lb-render/templates
	install -m 0755 bin/lb-render $(DESTDIR)$(PREFIX)/bin/lb-render
	install -m 0644 templates/*.tmpl $(DESTDIR)$(PREFIX)/share/lb-render/templates/
	install -d $(DESTDIR)$(PREFIX)/share/lb-render/examples
	cp -R examples/haproxy examples/ipvs examples/kubernetes $(DESTDIR)$(PREFIX)/share/lb-render/examples/
	cp -R systemd/lb-render.service.d $(DESTDIR)$(PREFIX)/share/lb-render/examples/
	sed 's|/usr/local/bin/|$(PREFIX)/bin/|' systemd/lb-render.service > $(DESTDIR)$(PREFIX)/lib/systemd/system/lb-render.service
	chmod 0644 $(DESTDIR)$(PREFIX)/lib/systemd/system/lb-render.service

clean:
	rm -rf bin out
