package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// Embedding is the rows of table that ids name: ids' dims followed by those of a row.
func Embedding(ids, table *Tensor) *Tensor { return apply1(embedding{}, ids, table) }

type embedding struct{ mover }

func (embedding) Name() string { return "embedding" }

// Work counts the elements taken, not all of those to choose from.
func (embedding) Work(in, out []Type) Work { return Work{Bytes: moved(in[0:1], out) + moved(nil, out)} }

func (embedding) Infer(in []Type) ([]Type, error) {
	if len(in) != 2 || len(in[1].Shape) == 0 {
		return nil, fmt.Errorf("want ids and a table of rows: got %v", in)
	}
	if err := wantIndices(in[0]); err != nil {
		return nil, err
	}
	return []Type{{DType: in[1].DType, Shape: slices.Concat(in[0].Shape, in[1].Shape[1:])}}, nil
}

func (embedding) VJP(in, _, dy []*Tensor) []*Tensor {
	return []*Tensor{nil, apply1(embeddingGrad{Rows: in[1].Dim(0)}, in[0], dy[0])}
}

func (embedding) Rule(in []Type) mesh.Rule {
	ids, table, out := embeddingWords(len(in[0].Shape), len(in[1].Shape)-1)
	return mesh.Rule(ids + "," + table + "->" + out)
}

// embeddingWords names the factors of ids, of a table whose rows are whole, and of the rows that ids name.
func embeddingWords(ids, row int) (string, string, string) {
	a, b := factors(0, ids), factors(ids, row)
	return a, factors(ids+row, 1) + "*" + b, a + b
}

func (o embedding) Eval(env *Env, in, out []array.Array) {
	g := nestAlong(in[1].Shape(), 0)
	copyRows(env, out[0], in[1], readIndices(o, in[0], g.reduced), g)
}

func (embedding) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return []hlo.Ref{emitTakeRows(w, in[1], in[0], 0, out[0])}
}

func (embedding) Samples() []Sample {
	return []Sample{
		{In: []Arg{i32Below(11, 5, 7), f32(11, 6)}},
		{In: []Arg{i32Below(11), f32(11, 6)}},
	}
}

// embeddingGrad adds rows up by the ids that name them.
type embeddingGrad struct{ Rows int }

func (embeddingGrad) Name() string { return "embedding_grad" }

func (o embeddingGrad) Infer(in []Type) ([]Type, error) {
	if len(in) != 2 || !in[1].DType.IsFloat() || len(in[1].Shape) < len(in[0].Shape) ||
		!in[1].Shape[:len(in[0].Shape)].Equal(in[0].Shape) || o.Rows < 0 {
		return nil, fmt.Errorf("want ids and a row of floats for each: got %v", in)
	}
	if err := wantIndices(in[0]); err != nil {
		return nil, err
	}
	row := in[1].Shape[len(in[0].Shape):]
	return []Type{{DType: in[1].DType, Shape: append(array.Shape{o.Rows}, row...)}}, nil
}

func (embeddingGrad) VJP(in, _, dz []*Tensor) []*Tensor {
	return []*Tensor{nil, Embedding(in[0], dz[0])}
}

func (embeddingGrad) Rule(in []Type) mesh.Rule {
	ids, table, rows := embeddingWords(len(in[0].Shape), len(in[1].Shape)-len(in[0].Shape))
	return mesh.Rule(ids + "," + rows + "->" + table)
}

func (embeddingGrad) Work(in, out []Type) Work {
	return Work{Flops: float64(in[1].Shape.Len()), Bytes: moved(in, out)}
}

func (o embeddingGrad) Eval(env *Env, in, out []array.Array) {
	g := nestAlong(out[0].Shape(), 0)
	idx := readIndices(o, in[0], g.reduced)
	clear(out[0].Bytes())
	addRowsInto(env, out[0], in[1], idx, g)
}

func (embeddingGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	ids, n := in[0], in[0].Shape.Len()
	flat := w.Op("reshape", "", hlo.Type{DType: ids.DType, Shape: array.Shape{n}}, ids)
	row := append(array.Shape{n}, in[1].Shape[len(ids.Shape):]...)
	rows := w.Op("reshape", "", hlo.Type{DType: in[1].DType, Shape: row}, in[1])
	return []hlo.Ref{emitAddRows(w, w.Constant(hloType(out[0]), 0), flat, rows, 0)}
}

func (embeddingGrad) Samples() []Sample {
	return []Sample{
		{Op: embeddingGrad{Rows: 11}, In: []Arg{i32Below(11, 5, 7), f32(5, 7, 6)}},
		{Op: embeddingGrad{Rows: 3}, In: []Arg{i32Below(3), f32(6)}},
	}
}
