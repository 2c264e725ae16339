package grammar_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/grammar"
)

// accepts reports whether a text is a whole one of a grammar.
func accepts(t *testing.T, c *grammar.Compiled, text string) bool {
	t.Helper()
	m := c.Matcher()
	allowed := func(id int) bool { return m.Allowed()[id/64]>>(id%64)&1 == 1 }
	for i := range len(text) {
		if m.Done() || !allowed(int(text[i])) {
			return false
		}
		m.Take(int32(text[i]))
	}
	return m.Done() || allowed(256)
}

// TestIntegers: of a schema with bounds those integers can be written that are within, and no others.
func TestIntegers(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	for range 60 {
		lo := r.IntN(2400) - 1200
		hi := lo + r.IntN(1<<r.IntN(12))
		s := fmt.Sprintf(`{"type": "integer", "minimum": %d.5, "exclusiveMaximum": %d}`, lo, hi+1)
		from := lo + 1 // of -3.5, -3; of 2.5, 3
		if lo < 0 {
			from = lo
		}
		if from > hi {
			continue
		}
		g, err := grammar.Schema([]byte(s))
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		c, err := grammar.Compile(g, vocabulary(), []int32{256})
		if err != nil {
			t.Fatal(err)
		}
		for n := from - 120; n <= hi+120; n++ {
			if got, want := accepts(t, c, fmt.Sprint(n)), n >= from && n <= hi; got != want {
				t.Fatalf("%s: %d: accepted %v, want %v", s, n, got, want)
			}
		}
		for _, text := range []string{"-0", "007", "+1", "1.0", ""} {
			if accepts(t, c, text) {
				t.Errorf("%s: accepted %q", s, text)
			}
		}
	}
	g, err := grammar.Schema([]byte(`{"type": "integer", "minimum": 18}`))
	if err != nil {
		t.Fatal(err)
	}
	c, err := grammar.Compile(g, vocabulary(), []int32{256})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"17": false, "18": true, "9": false, "100": true, "-20": false,
		strings.Repeat("9", 16): true, strings.Repeat("9", 17): false} {
		if accepts(t, c, text) != want {
			t.Errorf("at least 18: %s: want %v", text, want)
		}
	}
}
