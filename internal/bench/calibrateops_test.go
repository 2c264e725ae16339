package bench

import (
	"math"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/op"
)

// TestSpread: times that are alike have none, and a stray one does not make it.
func TestSpread(t *testing.T) {
	for _, test := range []struct {
		list []float64
		want float64
	}{{[]float64{2, 2, 2, 2}, 0}, {[]float64{2, 2, 2, 2, 90}, 0}, {[]float64{8, 9, 10, 11, 12}, 0.148}} {
		if got := spread(test.list); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%v: got %g, want %g", test.list, got, test.want)
		}
	}
}

// TestTimesOf: ops of about one size take their mean, without the longest tenth; collectives one of the
// shorter times, for some members waited.
func TestTimesOf(t *testing.T) {
	var plain, wire []timed
	for i := range 10 {
		seconds := float64(i + 1)
		if i == 9 {
			seconds = 1000
		}
		plain = append(plain, timed{work: op.Work{Bytes: 4096}, seconds: seconds})
		wire = append(wire, timed{work: op.Work{Bytes: 4096, Wire: 4096}, seconds: seconds})
	}
	if got := timesOf(plain).Points; len(got) != 1 || math.Abs(got[0].Seconds-5) > 1e-9 {
		t.Errorf("ops: got %v, want one of 5 s", got)
	}
	if got := timesOf(wire).Points; len(got) != 1 || got[0].Seconds != 5 {
		t.Errorf("collectives: got %v, want the fifth of ten", got)
	}
}

// TestStarvedProduct checks that a product which waited for its core leaves a calibration that can be read.
func TestStarvedProduct(t *testing.T) {
	got := timesOf([]timed{{sides: plan.Sides{M: 2, N: 10, K: 32}, count: 1, seconds: 11050}})
	if len(got.Factors) != 1 || got.Factors[0].Factor != plan.MaxFactor {
		t.Errorf("got %+v, want one factor of %d", got.Factors, plan.MaxFactor)
	}
}

// TestImageSteps: convolutions and their gradients are among the ops that are measured, on one thread and on
// all.
func TestImageSteps(t *testing.T) {
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	h := plan.UsualHost(1)
	h.Products = []plan.HostProduct{{M: 64, N: 64, K: 64, Rate: 1e10}}
	one, all := map[string][]timed{}, map[string][]timed{}
	for _, s := range imageSteps() {
		seen := one
		if s.all {
			seen = all
		}
		if _, err := s.watch(d, h, seen); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range hostOps(one, all) {
		if o.Op == "conv" {
			if len(o.One.Points)+len(o.One.Factors) == 0 || len(o.All.Points)+len(o.All.Factors) == 0 {
				t.Errorf("%+v: want times of one thread and of all", o)
			}
			return
		}
	}
	t.Error("no convolution was seen")
}
