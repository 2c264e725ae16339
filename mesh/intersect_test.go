package mesh

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestIntersect(t *testing.T) {
	for _, c := range []struct {
		what           string
		mesh, spec     string
		toMesh, toSpec string
		shape          []int
		want           string
	}{
		{"same layout moves nothing", "x=2", "@[x]", "x=2", "@[x]", []int{5}, "0>0 [0:3], 1>1 [3:5]"},
		{"gather", "x=2", "@[x]", "x=2", "@[_]", []int{5}, "0>0 [0:3], 1>0 [3:5], 0>1 [0:3], 1>1 [3:5]"},
		{"slice", "x=2", "@[_]", "x=2", "@[x]", []int{5}, "0>0 [0:3], 1>1 [3:5]"},
		{"transposed split", "x=2", "@[x,_]", "x=2", "@[_,x]", []int{2, 2},
			"0>0 [0:1,0:1], 1>0 [1:2,0:1], 0>1 [0:1,1:2], 1>1 [1:2,1:2]"},
		{"stage to stage", "x=2", "@[x]", "x=2@[2,3]", "@[x]", []int{4}, "0>2 [0:2], 1>3 [2:4]"},
		{"replicas share the work", "x=2", "@[_]", "x=2@[2,3]", "@[_]", []int{4}, "0>2 [0:4], 1>3 [0:4]"},
		{"two to three", "x=2", "@[x]", "x=3@[4,5,6]", "@[x]", []int{5},
			"0>4 [0:2], 0>5 [2:3], 1>5 [3:4], 1>6 [4:5]"},
		{"global to part", "pp=2,x=2", "@[x]", "x=2@[2,3]", "@[x]", []int{4}, "2>2 [0:2], 3>3 [2:4]"},
		{"part to global", "x=2@[2,3]", "@[x]", "pp=2,x=2", "@[x]", []int{4},
			"2>0 [0:2], 3>1 [2:4], 2>2 [0:2], 3>3 [2:4]"},
		{"scalar", "x=2", "@[]", "x=2@[1,2]", "@[]", nil, "1>1 [], 0>2 []"},
		{"nothing", "x=2", "@[x]", "x=2@[2,3]", "@[_]", []int{0}, ""},
	} {
		from := must(must(ParseSpec(c.spec)).Layout(must(Parse(c.mesh)), c.shape))
		to := must(must(ParseSpec(c.toSpec)).Layout(must(Parse(c.toMesh)), c.shape))
		var words []string
		for _, x := range must(Intersect(from, to)) {
			words = append(words, x.String())
		}
		if got := strings.Join(words, ", "); got != c.want {
			t.Errorf("%s: got %s, want %s", c.what, got, c.want)
		}
	}
}

func TestIntersectErrors(t *testing.T) {
	m := must(Parse("x=2"))
	whole, sum := must(Whole(1).Layout(m, []int{4})), must(must(ParseSpec("@[_]+{x}")).Layout(m, []int{4}))
	wantError(t, second(Intersect(sum, whole)),
		"intersect: @[_]+{x} to @[_]: got partial axes, want them combined first")
	wantError(t, second(Intersect(whole, must(Whole(1).Layout(m, []int{5})))),
		"intersect: layouts of different tensors: got shapes [4] and [5]")
}

func TestIntersectDelivers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := drawShape(t)
		a, b := drawMesh(t, "from"), drawMesh(t, "to")
		from := must(drawSpec(t, a, len(shape), drawParts(t, a)).With().Layout(a, shape))
		to := must(drawSpec(t, b, len(shape), drawParts(t, b)).With().Layout(b, shape))
		transfers := must(Intersect(from, to))
		got := map[string]int{}
		for _, x := range transfers {
			own, ok := from.Box(x.From)
			if !ok || x.Box.Empty() {
				t.Fatalf("%s: bad sender or empty box", x)
			}
			elements(x.Box.Size, func(index []int) {
				place := make([]int, len(index))
				for d := range index {
					place[d] = index[d] + x.Box.Start[d]
				}
				if !holds(own, place) {
					t.Fatalf("%s: sender holds %s", x, own)
				}
				if mine, ok := from.Box(x.To); ok && holds(mine, place) && !x.Local() {
					t.Fatalf("%s: target has that already", x)
				}
				got[fmt.Sprint(x.To, place)]++
			})
		}
		want := 0
		for d, box := range to.Boxes() {
			want += box.Len()
			elements(shape, func(index []int) {
				if n := got[fmt.Sprint(d, index)]; holds(box, index) && n != 1 || !holds(box, index) && n != 0 {
					t.Fatalf("%s to %s of %v: device %d gets %v %d times", from.Spec(), to.Spec(), shape, d, index, n)
				}
			})
		}
		if len(got) != want {
			t.Fatalf("%d elements delivered, want %d", len(got), want)
		}
		checkBalance(t, from, transfers)
	})
}

// checkBalance: within the devices of one piece, loads differ by no more than the largest box that one of
// them sends.
func checkBalance(t *rapid.T, from *Layout, transfers []Transfer) {
	for _, p := range from.Pieces() {
		load, largest := map[int]int{}, 0
		for _, x := range transfers {
			if _, ok := x.Box.Intersect(p.Box); ok && !x.Local() {
				load[x.From] += x.Box.Len()
				largest = max(largest, x.Box.Len())
			}
		}
		low, high := load[p.Devices[0]], 0
		for _, d := range p.Devices {
			low, high = min(low, load[d]), max(high, load[d])
		}
		if high-low > largest {
			t.Fatalf("loads %v of %v differ by more than %d", load, p.Devices, largest)
		}
	}
}
