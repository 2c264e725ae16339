package op

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
)

// Derivatives returns partial derivatives of f at points x [n, d], named as in papers: "x", "t", "xx", "xt".
// A letter names a column of x: by default space before time, x, y, z, t, as many letters as columns; a first
// name that ends in a colon, such as "tx:", names the columns itself. The name "" is f itself. Rows are
// points, and f must compute each row from its own. All derivatives come from one forward pass of Taylor
// series and have the shape of f's result; gradients of functions of them can be taken.
func Derivatives(f func(x *Tensor) *Tensor, x *Tensor, names ...string) []*Tensor {
	columns, names, err := columnsOf(x, names)
	if err != nil {
		if x.Err() == nil {
			x = ir.Invalid(x.Scope(), &ir.Error{Pos: ir.Caller(), Op: "derivatives", Err: err})
		}
		return slices.Repeat([]*Tensor{x}, max(1, len(names)))
	}
	if !x.Tracked() {
		x = x.Track()
	}
	p := partials{x: x, columns: columns, units: map[byte]*Tensor{}, known: map[string]*Tensor{}}
	for i, n := range names {
		names[i] = p.sorted(n)
	}
	p.known[""] = f(x)
	p.expand("", names)
	out := make([]*Tensor, len(names))
	for i, n := range names {
		out[i] = p.known[n]
	}
	return out
}

// conventional is the default order of the columns' letters.
const conventional = "xyzt"

// columnsOf returns a letter for each column of x, and the names without the one that defines columns.
func columnsOf(x *Tensor, names []string) (columns string, rest []string, err error) {
	if x.Err() != nil {
		return "", names, x.Err()
	}
	if len(x.Shape()) != 2 || !x.DType().IsFloat() {
		return "", names, fmt.Errorf("points are %v: want floats [points, columns]", x.Type())
	}
	if len(names) > 0 && strings.HasSuffix(names[0], ":") {
		columns, names = strings.TrimSuffix(names[0], ":"), names[1:]
	} else {
		for _, c := range conventional {
			if slices.ContainsFunc(names, func(n string) bool { return strings.ContainsRune(n, c) }) {
				columns += string(c)
			}
		}
	}
	if err := wantColumns(columns, x.Dim(1)); err != nil {
		return "", names, err
	}
	for _, n := range names {
		if i := strings.IndexFunc(n, func(c rune) bool { return !strings.ContainsRune(columns, c) }); i >= 0 {
			return "", names, fmt.Errorf("%q: no column is called %q: the columns are %q: name them first, as in %q",
				n, n[i:i+1], columns, "xt:")
		}
	}
	return columns, slices.Clone(names), nil
}

// wantColumns checks that columns are distinct single letters.
func wantColumns(columns string, n int) error {
	for i, c := range columns {
		if c < 'a' || c > 'z' || strings.ContainsRune(columns[:i], c) {
			return fmt.Errorf("columns %q: want a letter from a to z for each, none twice", columns)
		}
	}
	if len(columns) != n {
		return fmt.Errorf("points have %d column(s), of which %q are named: name all of them first, as in %q",
			n, columns, "xt:")
	}
	return nil
}

// partials holds derivatives by name.
type partials struct {
	x       *Tensor
	columns string
	units   map[byte]*Tensor
	known   map[string]*Tensor
}

// sorted returns a name with its letters in the order of the columns, because the order of differentiation
// does not matter.
func (p partials) sorted(name string) string {
	letters := []byte(name)
	slices.SortFunc(letters, func(a, b byte) int {
		return strings.IndexByte(p.columns, a) - strings.IndexByte(p.columns, b)
	})
	return string(letters)
}

// expand differentiates a known derivative along every column that comes next in one of the names, all at
// once, and continues from the results.
func (p partials) expand(from string, names []string) {
	orders := map[byte]int{}
	for _, n := range names {
		if rest, ok := strings.CutPrefix(n, from); ok && rest != "" {
			orders[rest[0]] = max(orders[rest[0]], strings.LastIndexByte(rest, rest[0])+1)
		}
	}
	var letters []byte
	var ds []Direction
	for i := range p.columns {
		if c := p.columns[i]; orders[c] > 0 && (from == "" || from[len(from)-1] != c) {
			letters = append(letters, c)
			ds = append(ds, Direction{Along: []*Tensor{p.unit(c)}, Order: orders[c]})
		}
	}
	for i, along := range Taylor([]*Tensor{p.known[from]}, []*Tensor{p.x}, ds...) {
		p.known[from] = along[0][0] // an op that computes derivatives may return the value as well
		for k := 1; k < len(along); k++ {
			name := from + strings.Repeat(string(letters[i]), k)
			p.known[name] = along[k][0]
			p.expand(name, names)
		}
	}
}

// unit returns a unit vector along a column, at every point.
func (p partials) unit(c byte) *Tensor {
	if p.units[c] == nil {
		d := len(p.columns)
		at := Iota(p.x.Scope(), array.I32, array.Shape{1, d}, 1)
		one := Cast(Equal(at, Const(at, float64(strings.IndexByte(p.columns, c)))), p.x.DType())
		p.units[c] = Expand(one, p.x.Shape()...)
	}
	return p.units[c]
}
