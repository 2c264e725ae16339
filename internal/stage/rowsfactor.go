package stage

import (
	"errors"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// rowFactor is the factor of a node's rule that contains the rows: before blocks, each with a part of after
// elements for each row.
type rowFactor struct {
	rule          *mesh.Parsed
	in, out       []ir.Type
	factor        int
	before, after int
}

// bind finds the factor of the rows of a node's operands, which must be the same one in all of them.
func (r *Rows) bind(n *ir.Node) (*rowFactor, error) {
	var found *rowFactor
	for i := range n.In() {
		layout := r.layout(n, i)
		if layout.kind != perRow {
			continue
		}
		b, err := r.factorOf(n, i, layout)
		if err != nil {
			return nil, err
		}
		if found != nil && (found.factor != b.factor || found.before != b.before || found.after != b.after) {
			return nil, errors.New("it compares rows with each other")
		}
		found = b
	}
	return found, nil
}

// factorOf returns the factor of rows with the given layout in a tensor of a node, operands first.
func (r *Rows) factorOf(n *ir.Node, tensor int, layout rowLayout) (*rowFactor, error) {
	b := &rowFactor{factor: -1, in: ir.TypesOf(n.In()), out: ir.TypesOf(n.Out())}
	var err error
	if b.rule, err = n.Op().(op.Op).Rule(b.in).Bind(shapes(b.in), shapes(b.out)); err != nil {
		return nil, err
	}
	names := b.rule.Tensor(tensor)[layout.dim]
	for k, name := range names {
		f := b.rule.Index(name)
		major, minor := b.size(names[:k]), b.size(names[k+1:])
		if layout.before%major != 0 || layout.after%minor != 0 {
			continue
		}
		before, after := layout.before/major, layout.after/minor
		if b.rule.Factors[f].Size == before*r.c.Rows*after {
			b.factor, b.before, b.after = f, before, after
			break
		}
	}
	if b.factor < 0 || b.rule.Factors[b.factor].Whole || b.rule.Factors[b.factor].Joint {
		return nil, errors.New("it needs all rows together")
	}
	return b, nil
}

// size returns the product of the sizes of factors.
func (b *rowFactor) size(names []byte) int {
	n := 1
	for _, name := range names {
		n *= max(1, b.rule.Factors[b.rule.Index(name)].Size)
	}
	return n
}

// layout returns the rows in a tensor of the node, if it has them.
func (b *rowFactor) layout(tensor int) (rowLayout, bool) {
	for d, names := range b.rule.Tensor(tensor) {
		for k, name := range names {
			if b.rule.Index(name) == b.factor {
				return rowLayout{kind: perRow, dim: d, before: b.size(names[:k]) * b.before,
					after: b.after * b.size(names[k+1:])}, true
			}
		}
	}
	return rowLayout{}, false
}

// sums reports whether results without the rows are sums over them.
func (b *rowFactor) sums() bool { return b.rule.Factors[b.factor].Reduce == mesh.Sum }

// local returns the op for some rows, and whether it depends on which ones.
func (b *rowFactor) local(o op.Op, start, n int) (op.Op, bool, error) {
	local, err := b.at(o, start, n)
	if err != nil {
		return nil, false, err
	}
	other, err := b.at(o, start+1, n)
	moves := err != nil || ir.FormatOp(local) != ir.FormatOp(other)
	if moves && b.before > 1 {
		return nil, false, errors.New("its rows do not follow each other")
	}
	return local, moves, nil
}

func (b *rowFactor) at(o op.Op, start, n int) (op.Op, error) {
	ranges := make([]mesh.Range, len(b.rule.Factors))
	for f, factor := range b.rule.Factors {
		ranges[f] = mesh.Range{Size: factor.Size}
	}
	ranges[b.factor] = mesh.Range{Start: start * b.after, Size: b.before * n * b.after}
	return op.Localize(o, op.NewPart(b.rule, ranges, b.in, b.out))
}

func shapes(types []ir.Type) [][]int {
	list := make([][]int, len(types))
	for i, t := range types {
		list[i] = t.Shape
	}
	return list
}
