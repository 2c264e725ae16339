package pipeline

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestPlaced: every place of stages has a schedule that checks and lowers, and a class's own place has the
// class's.
func TestPlaced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.IntRange(1, 4).Draw(t, "ranks")
		place := rapid.Permutation(Cyclic(ranks, 1)).Draw(t, "place")
		place = append(place, rapid.SliceOfN(rapid.IntRange(0, ranks-1), 0, 4).Draw(t, "more")...)
		micros := rapid.IntRange(1, 5).Draw(t, "micros")
		for _, name := range []string{"", "1f1b", "fthenb"} {
			s, err := Placed(name, place, ranks, micros)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Check(s); err != nil || !slices.Equal(s.Place, place) {
				t.Fatalf("%v: %v\n%s", place, err, s)
			}
			if _, err := Lower(s); err != nil {
				t.Fatal(err)
			}
		}
	})
	for _, c := range Classes() {
		want, err := c.Generate(Config{Ranks: 3, Micros: 6})
		if err != nil {
			t.Fatal(err)
		}
		got, err := Placed(c.Name, want.Place, 3, 6)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v\n%s", c.Name, err, got)
		}
	}
	if _, err := Placed("zbv", []int{0, 1, 0, 1}, 2, 4); err == nil {
		t.Error("a V on ranks 0 1 0 1: got no error")
	}
}
