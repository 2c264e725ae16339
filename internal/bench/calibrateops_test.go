package bench

import (
	"math"
	"testing"

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
