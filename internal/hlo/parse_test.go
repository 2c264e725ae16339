package hlo_test

import (
	"os"
	"testing"

	"github.com/galley-ml/galley/internal/hlo"
)

func TestTmp(t *testing.T) {
	b, _ := os.ReadFile("/tmp/xlaa-step.mlir")
	p, err := hlo.Parse(string(b))
	if err != nil {
		t.Fatal(err)
	}
	if p.String() != string(b) {
		os.WriteFile("/tmp/xlaa-back.mlir", []byte(p.String()), 0o644)
		t.Fatal("differs")
	}
}
