package kernel

import "testing"

// TestMakeLarge: memory of any size is zeros and can be written, whatever lay there before, and neighbours in
// its pages keep what they hold.
func TestMakeLarge(t *testing.T) {
	for _, n := range []int{0, 1, leastShared / 2, leastShared/2 + 33, hugePage/2 - 1, hugePage / 2,
		3*hugePage + 5} {
		before := make([]uint16, n)
		for i := range before {
			before[i] = uint16(i)
		}
		s := MakeLarge[uint16](n)
		if len(s) != n {
			t.Fatalf("got %d elements, want %d", len(s), n)
		}
		for i := range s {
			if s[i] != 0 {
				t.Fatalf("element %d of %d: got %d, want 0", i, n, s[i])
			}
			s[i] = uint16(3 * i)
		}
		after := MakeLarge[uint16](n)
		for i := range s {
			if s[i] != uint16(3*i) || before[i] != uint16(i) || after[i] != 0 {
				t.Fatalf("element %d of %d: got %d beside %d and %d", i, n, s[i], before[i], after[i])
			}
		}
		before, s = nil, nil // the next one may be given this memory
	}
}

// TestPopulate: what a slice holds stays, of any size.
func TestPopulate(t *testing.T) {
	for _, n := range []int{0, 5, hugePage / 4, 3*hugePage + 5} {
		s := MakeLarge[float32](n)
		for i := range s {
			s[i] = float32(i)
		}
		Populate(s)
		for i := range s {
			if s[i] != float32(i) {
				t.Fatalf("element %d of %d: got %v", i, n, s[i])
			}
		}
	}
}
