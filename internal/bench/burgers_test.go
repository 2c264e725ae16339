package bench

import (
	"math"
	"os/exec"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
)

// TestBurgers: all ways train the same network, PyTorch's among them where it is installed.
func TestBurgers(t *testing.T) {
	for _, dtype := range []array.DType{array.F32, array.F64} {
		c := BurgersConfig{Points: 50, Layers: 2, Width: 7, DType: dtype, Threads: 2, Rounds: 1, Profile: true}
		if path, err := exec.LookPath("/usr/bin/python3"); err == nil {
			c.Python = path
		}
		r, err := Burgers(c)
		if err != nil {
			t.Fatal(err)
		}
		if !(r.SeriesMS > 0 && r.GradMS > 0) || math.IsNaN(r.Loss) || len(r.Ops) == 0 {
			t.Errorf("got %+v", r)
		}
		t.Log(r)
	}
}

// TestBurgersDiffer: ways that do not train the same are an error.
func TestBurgersDiffer(t *testing.T) {
	way := func(loss float64) turn { return func() (float64, float64, error) { return 1, loss, nil } }
	var first float64
	_, err := BurgersConfig{Rounds: 1}.turns([]turn{way(1), way(1.1)}, &first)
	if err == nil || !strings.Contains(err.Error(), "do not train the same") {
		t.Errorf("got %v", err)
	}
}

func TestNoPeer(t *testing.T) {
	if p, why, err := startPeer("no-such-python", ""); p != nil || err != nil || why == "" {
		t.Errorf("got %v, %q, %v", p, why, err)
	}
}
