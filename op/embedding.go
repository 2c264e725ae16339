package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// Embedding looks up the rows of table by ids. The result has the dims of ids followed by those of a row.
func Embedding(ids, table *Tensor) *Tensor { return apply1(embedding{}, ids, table) }

// embedding may have a shard of the table: the rows from Offset on, of Total; 0 means all of it. Ids of rows
// on other shards give zeros, so that the results of all shards can be summed.
type embedding struct {
	mover
	Offset, Total int
}

func (embedding) Name() string    { return "embedding" }
func (embedding) Linear() [][]int { return [][]int{{1}} }

// Work counts the rows that are looked up, not the whole table.
func (embedding) Work(in, out []Type) Work { return Work{Bytes: moved(in[0:1], out) + moved(nil, out)} }

func (o embedding) part(rows int) rowPart { return rowPart{rows, o.Offset, o.Total} }

func (o embedding) Infer(in []Type) ([]Type, error) {
	if len(in) != 2 || len(in[1].Shape) == 0 {
		return nil, fmt.Errorf("want ids and a table of rows: got %v", in)
	}
	if err := wantIndices(in[0]); err != nil {
		return nil, err
	}
	if !o.part(in[1].Shape[0]).fits() {
		return nil, fmt.Errorf("%v has no rows from %d on of %d", in[1], o.Offset, o.Total)
	}
	return []Type{{DType: in[1].DType, Shape: slices.Concat(in[0].Shape, in[1].Shape[1:])}}, nil
}

func (o embedding) VJP(in, _, dy []*Tensor) []*Tensor {
	return []*Tensor{nil, apply1(embeddingGrad{Rows: in[1].Dim(0), Offset: o.Offset, Total: o.Total}, in[0],
		dy[0])}
}

// Rule lets the rows of the table be split: each device looks up its own.
func (embedding) Rule(in []Type) mesh.Rule {
	ids, table, out := embeddingWords(len(in[0].Shape), len(in[1].Shape)-1, sumStar(in[1].DType))
	return mesh.Rule(ids + "," + table + "->" + out)
}

// embeddingWords names the factors of ids, of a table, whose rows have a factor of their own, and of the
// looked-up rows.
func embeddingWords(ids, row int, star string) (string, string, string) {
	a, b := factors(0, ids), factors(ids, row)
	return a, factors(ids+row, 1) + star + b, a + b
}

func (o embedding) Localize(at *Place) (Op, error) {
	start, total := at.localRows(1, 0, o.Total)
	o.Offset, o.Total = o.Offset+start, total
	return o, nil
}

func (o embedding) Eval(env *Env, in, out []array.Array) {
	g := nestAlong(in[1].Shape(), 0)
	copyRows(env, out[0], in[1], o.part(g.reduced).read(o, in[0]), g)
}

func (o embedding) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	take := func(ids hlo.Ref) hlo.Ref { return emitTakeRows(w, in[1], ids, 0, out[0]) }
	return []hlo.Ref{o.part(in[1].Shape[0]).emitTaken(w, in[0], upTo(len(in[0].Shape)), out[0], take)}
}

func (embedding) Samples() []Sample {
	return []Sample{
		{In: []Arg{i32Below(11, 5, 7), f32(11, 6)}},
		{In: []Arg{i32Below(11), f32(11, 6)}},
		{Op: embedding{Offset: 4, Total: 15}, In: []Arg{i32Below(15, 9), f32(7, 2)}},
	}
}

// embeddingGrad sums rows by their ids. It makes Rows rows from Offset on, of Total; 0 means all of them.
type embeddingGrad struct{ Rows, Offset, Total int }

func (embeddingGrad) Name() string    { return "embedding_grad" }
func (embeddingGrad) Linear() [][]int { return [][]int{{1}} }

func (o embeddingGrad) part() rowPart { return rowPart{o.Rows, o.Offset, o.Total} }

func (o embeddingGrad) Infer(in []Type) ([]Type, error) {
	if len(in) != 2 || !in[1].DType.IsFloat() || len(in[1].Shape) < len(in[0].Shape) ||
		!in[1].Shape[:len(in[0].Shape)].Equal(in[0].Shape) || o.Rows < 0 {
		return nil, fmt.Errorf("want ids and a row of floats for each: got %v", in)
	}
	if !o.part().fits() {
		return nil, fmt.Errorf("%d rows from %d on are not among %d", o.Rows, o.Offset, o.Total)
	}
	if err := wantIndices(in[0]); err != nil {
		return nil, err
	}
	row := in[1].Shape[len(in[0].Shape):]
	return []Type{{DType: in[1].DType, Shape: append(array.Shape{o.Rows}, row...)}}, nil
}

func (o embeddingGrad) VJP(in, _, dz []*Tensor) []*Tensor {
	return []*Tensor{nil, apply1(embedding{Offset: o.Offset, Total: o.Total}, in[0], dz[0])}
}

func (embeddingGrad) Rule(in []Type) mesh.Rule {
	ids, table, rows := embeddingWords(len(in[0].Shape), len(in[1].Shape)-len(in[0].Shape), "")
	return mesh.Rule(ids + "," + rows + "->" + table)
}

func (o embeddingGrad) Localize(at *Place) (Op, error) {
	start, total := at.localRows(len(at.In), 0, o.Total)
	return embeddingGrad{Rows: at.OutShape(0)[0], Offset: o.Offset + start, Total: total}, nil
}

func (embeddingGrad) Work(in, out []Type) Work {
	return Work{Flops: float64(in[1].Shape.Len()), Bytes: moved(in, out)}
}

func (o embeddingGrad) Eval(env *Env, in, out []array.Array) {
	g := nestAlong(out[0].Shape(), 0)
	idx := o.part().read(o, in[0])
	clear(out[0].Bytes())
	addRowsInto(env, out[0], in[1], idx, g)
}

func (o embeddingGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	ids, n := o.part().emitLocal(w, in[0]), in[0].Shape.Len()
	flat := w.Op("reshape", "", hlo.Type{DType: ids.DType, Shape: array.Shape{n}}, ids)
	row := append(array.Shape{n}, in[1].Shape[len(ids.Shape):]...)
	rows := w.Op("reshape", "", hlo.Type{DType: in[1].DType, Shape: row}, in[1])
	return []hlo.Ref{emitAddRows(w, w.Constant(hloType(out[0]), 0), flat, rows, 0)}
}

func (embeddingGrad) Samples() []Sample {
	return []Sample{
		{Op: embeddingGrad{Rows: 11}, In: []Arg{i32Below(11, 5, 7), f32(5, 7, 6)}},
		{Op: embeddingGrad{Rows: 3}, In: []Arg{i32Below(3), f32(6)}},
		{Op: embeddingGrad{Rows: 7, Offset: 4, Total: 15}, In: []Arg{i32Below(15, 9), f32(9, 2)}},
	}
}
