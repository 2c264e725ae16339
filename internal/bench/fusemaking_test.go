package bench

import (
	"testing"

	"github.com/galley-ml/galley/op"
)

// TestMakeLoops: a program has as many ops as were asked for, its code fits into a mebibyte, and the time is
// one.
func TestMakeLoops(t *testing.T) {
	m, err := MakeLoops(1600)
	if err != nil {
		t.Fatal(err)
	}
	if m.Nodes < 1600 || m.Nodes > 1900 || m.MS <= 0 || m.Code > 1<<20 || op.LoopsCompiled() && m.Loops < 30 {
		t.Errorf("got %v", m)
	}
}
