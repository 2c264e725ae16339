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

fuzz: # each parser for FUZZTIME
	go test ./internal/hlo -run '^$$' -fuzz FuzzParse -fuzztime $${FUZZTIME:-60s}
	go test ./internal/triton -run '^$$' -fuzz FuzzRun -fuzztime $${FUZZTIME:-60s}
	go test ./internal/ir -run '^$$' -fuzz FuzzParse -fuzztime $${FUZZTIME:-60s}
	go test ./internal/planfile -run '^$$' -fuzz FuzzParse -fuzztime $${FUZZTIME:-60s}
	go test ./internal/search -run '^$$' -fuzz FuzzParsePin -fuzztime $${FUZZTIME:-60s}
	go test ./internal/pipeline -run '^$$' -fuzz FuzzParse -fuzztime $${FUZZTIME:-60s}
	go test ./internal/safetensors -run '^$$' -fuzz FuzzOpen -fuzztime $${FUZZTIME:-60s}
	go test ./internal/checkpoint -run '^$$' -fuzz FuzzManifest -fuzztime $${FUZZTIME:-60s}
	go test ./mesh -run '^$$' -fuzz FuzzRule -fuzztime $${FUZZTIME:-60s}
	go test ./mesh -run '^$$' -fuzz FuzzMesh -fuzztime $${FUZZTIME:-60s}
	go test ./mesh -run '^$$' -fuzz FuzzSpec -fuzztime $${FUZZTIME:-60s}
	go test ./mesh -run '^$$' -fuzz FuzzPlacements -fuzztime $${FUZZTIME:-60s}
	go test ./data -run '^$$' -fuzz FuzzParseTokenizer -fuzztime $${FUZZTIME:-60s}
	go test ./data -run '^$$' -fuzz FuzzRoundTrip -fuzztime $${FUZZTIME:-60s}
	go test ./models -run '^$$' -fuzz FuzzParseConfig -fuzztime $${FUZZTIME:-60s}
