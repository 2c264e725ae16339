package discover

import (
	"fmt"
	"testing"
)

// TestDeal: processes get threads of one node where that is possible, and none twice.
func TestDeal(t *testing.T) {
	two := []Node{{ID: 0, CPUs: []int{0, 2, 4, 6}}, {ID: 1, CPUs: []int{1, 3, 5, 7}}}
	all := []int{0, 1, 2, 3, 4, 5, 6, 7}
	for _, test := range []struct {
		nodes   []Node
		allowed []int
		n       int
		want    string
	}{
		{two, all, 2, "[0,2,4,6@0 1,3,5,7@1]"},
		{two, all, 4, "[0,2@0 4,6@0 1,3@1 5,7@1]"},
		{two, all, 3, "[0,2@0 4,6,1@-1 3,5,7@1]"},
		{two, []int{0, 1, 3}, 2, "[0@0 1,3@1]"},
		{nil, []int{0, 1}, 1, "[0,1@-1]"},
		{two, []int{0}, 2, "[]"},
	} {
		got, _ := Deal(test.nodes, test.allowed, test.n)
		if fmt.Sprint(got) != test.want {
			t.Errorf("%v to %d: got %v, want %s", test.allowed, test.n, got, test.want)
		}
		for _, s := range got {
			if len(s.CPUs) < 3 { // Parse sorts
				if back, err := ParseShare(s.String()); err != nil || back.String() != s.String() {
					t.Errorf("%v reads back as %v: %v", s, back, err)
				}
			}
		}
	}
	for _, bad := range []string{"", "@0", "1", "1@", "1@-2", "a@0", "1@99999"} {
		if _, err := ParseShare(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
