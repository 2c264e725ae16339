package main

import (
	"os"
	"strings"
	"testing"
)

// TestReadme checks that every piece of Go in README.md is part of an example, so that it compiles and runs.
func TestReadme(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	examples := read("main.go") + read("../hybrid/main.go")
	blocks := strings.Split(read("../../README.md"), "```go\n")[1:]
	if len(blocks) < 2 {
		t.Fatalf("README.md has %d pieces of Go: want the quickstart and the annotated model", len(blocks))
	}
	for _, b := range blocks {
		code, _, _ := strings.Cut(b, "```")
		if !strings.Contains(examples, code) {
			t.Errorf("README.md shows what is in no example:\n%s", code)
		}
	}
}
