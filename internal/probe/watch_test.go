package probe

import (
	"math"
	"testing"
	"time"

	"github.com/galley-ml/galley"
)

// TestWatch says that collectives are not counted as work twice, and that terms are of one device and step.
func TestWatch(t *testing.T) {
	var w Watch
	at := time.Now()
	for device := range 2 {
		for range 4 {
			w.Span(galley.Span{Device: device, Kind: galley.SpanExchange, Start: at, End: at.Add(2 * time.Second)})
			w.Span(galley.Span{Device: device, Kind: galley.SpanWork, Start: at, End: at.Add(5 * time.Second)})
			w.Span(galley.Span{Device: device, Kind: galley.SpanMessage, Start: at, End: at.Add(time.Second)})
		}
	}
	if got := w.Take(4, 28); got != (Terms{3, 3, 7}) {
		t.Errorf("got %+v, want 3 s of computing, 3 of exchanging, 7 a step", got)
	}
	if got := w.Take(4, 4); got != (Terms{0, 0, 1}) {
		t.Errorf("nothing since: got %+v", got)
	}
	back, err := ParseTerms([]string{Terms{1, 2, 3}.String()})
	if err != nil || back[0] != (Terms{1, 2, 3}) {
		t.Errorf("got %+v, %v", back, err)
	}
	if _, err := ParseTerms([]string{"{"}); err == nil {
		t.Error("no terms: want an error")
	}
}

// TestJudge says that who is slow twice in a row is named once, that work counts, and that who has come back
// may be named again.
func TestJudge(t *testing.T) {
	j := Judge{Work: []float64{1, 2, 1}} // the second has twice the work
	even := []Terms{{Compute: 1}, {Compute: 2}, {Compute: 1.1}}
	half := []Terms{{Compute: 1}, {Compute: 2}, {Compute: 2.2}}
	for i, c := range []struct {
		window []Terms
		want   int // named
	}{{even, -1}, {half, -1}, {even, -1}, {half, -1}, {half, 2}, {half, -1}, {even, -1}, {half, -1}, {half, 2}} {
		slow := j.See(c.window)
		switch {
		case c.want < 0 && len(slow) > 0, c.want >= 0 && (len(slow) != 1 || slow[0].Process != c.want):
			t.Errorf("window %d: named %v, want %d", i, slow, c.want)
		case c.want >= 0 && math.Abs(slow[0].Times-2.2) > 0.01:
			t.Errorf("window %d: %.2f times as slow, want 2.2", i, slow[0].Times)
		}
	}
}

// TestJudgeLinks says that exchange which nobody waits in and that has become longer is the links'.
func TestJudgeLinks(t *testing.T) {
	var j Judge
	usual := []Terms{{Exchange: 0.1, Step: 1}, {Exchange: 0.5, Step: 1}}
	slow := []Terms{{Exchange: 0.3, Step: 1.2}, {Exchange: 0.7, Step: 1.2}}
	var got []float64
	for _, w := range [][]Terms{usual, usual, usual, slow, slow, slow} {
		got = append(got, j.Links(w))
	}
	for i, x := range got {
		if want := i == 4; want != (x > 0) {
			t.Errorf("window %d: %v times", i, x)
		}
	}
	if even := []Terms{{Compute: 1}, {Compute: 1.1}}; j.Uneven(even) ||
		!j.Uneven([]Terms{{Compute: 1}, {Compute: 2}}) {
		t.Error("twice as long is uneven, a tenth more is not")
	}
	if math.Abs(got[4]-3) > 1e-9 {
		t.Errorf("got %g times, want 3", got[4])
	}
}
