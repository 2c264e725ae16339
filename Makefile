# Six targets; CONTRIBUTING.md says when to use which.
.PHONY: check test race golden bench fuzz

check: # format, vet, lint, tidy
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet ./...
	go vet -tags noasm ./internal/kernel
	GOARCH=arm64 go vet ./internal/kernel
	go mod tidy -diff
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

test:
	go test ./...
	go test -tags noasm ./internal/kernel ./op

race:
	go test -race -timeout 60m ./...

golden: # rewrite expected outputs; read the diff before you commit it
	go test ./... -update

bench: # Galley beside PyTorch and OpenBLAS in one run
	bash bench/cpu.sh

fuzz: # each fuzz function there is but FUZZSKIP, for FUZZTIME
	bash .ci/fuzz
