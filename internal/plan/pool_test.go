package plan

import (
	"math"
	"testing"
)

func kindOn(device string) Kind { return Kind{Era: "modern", Device: device} }

// TestPoolShrinks says that what sources agree on is corrected, what one alone shows is not, and that a kind
// like none is predicted as it would be without any.
func TestPoolShrinks(t *testing.T) {
	var agree []Residual
	for i, name := range []string{"a", "b", "c", "d"} {
		agree = append(agree, Residual{name, kindOn("X"), 20, 0.2 + 0.01*float64(i%2), 0.03})
	}
	alone := append(agree[:4:4], Residual{"e", Kind{Era: "eager", Device: "Y"}, 20, 0.5, 0.03})
	p := NewPool(alone)
	if f := p.Expect(kindOn("X")).Factor; f < 1.1 || f > math.Exp(0.21) {
		t.Errorf("four sources say 20%%: got ×%.2f", f)
	}
	one := p.Expect(Kind{Era: "eager", Device: "Y"})
	if one.Factor > math.Exp(0.25) {
		t.Errorf("one source says 65%%: got ×%.2f", one.Factor)
	}
	none := p.Expect(Kind{Era: "compiled", Device: "Z"})
	if none.Factor != 1 {
		t.Errorf("nothing like it was seen: got ×%.2f", none.Factor)
	}
	if sure := p.Expect(kindOn("X")).Spread; !(sure < none.Spread) {
		t.Errorf("±%.2f where four agree, ±%.2f where nothing was seen", sure, none.Spread)
	}
}

// TestPoolDisagree says that sources which disagree correct nothing, and widen the interval.
func TestPoolDisagree(t *testing.T) {
	p := NewPool([]Residual{{"a", kindOn("X"), 20, 0.3, 0.03}, {"b", kindOn("X"), 20, -0.3, 0.03},
		{"c", kindOn("X"), 20, 0.25, 0.03}, {"d", kindOn("X"), 20, -0.2, 0.03}})
	e := p.Expect(kindOn("X"))
	if math.Abs(math.Log(e.Factor)) > 0.03 || e.Spread < 0.3 {
		t.Errorf("got ×%.2f ±%.2f, want no correction and a wide interval", e.Factor, e.Spread)
	}
}

// TestStoredHolds says that no stored source is predicted worse from the others than without them, and that
// intervals hold.
func TestStoredHolds(t *testing.T) {
	var far []miss
	done := map[string]bool{}
	for _, s := range StoredResiduals() {
		if done[s.Source] {
			continue
		}
		done[s.Source] = true
		var others []Residual
		for _, o := range StoredResiduals() {
			if o.Source != s.Source {
				others = append(others, o)
			}
		}
		m := NewPool(others).misses(StoredResiduals(), s.Source)
		if harms(m) {
			t.Errorf("%s is predicted worse with what others showed", s.Source)
		}
		far = append(far, m...)
	}
	if got := holds(far, 1); len(done) < 10 || got < 0.8 {
		t.Errorf("%d sources, intervals hold %.0f%%", len(done), 100*got)
	}
}
