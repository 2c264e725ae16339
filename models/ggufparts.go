package models

import (
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/quant"
)

// calibrated reports whether a file has a parameter's columns as they are, so that integers chosen for the
// inputs of a product are those of a row.
func calibrated(c Config, name string) bool {
	return !transposes(c, name) && !strings.HasSuffix(name, latentEnd)
}

// fileShapes returns the shapes of a parameter's tensors in a file.
func fileShapes(c Config, name string, shape array.Shape) []array.Shape {
	l := c.Latent
	switch {
	case strings.HasSuffix(name, latentEnd):
		return []array.Shape{{c.Heads, l.KVRank, l.Plain}, {c.Heads, l.Value, l.KVRank}}
	case strings.HasSuffix(name, ".experts.gate_up_proj"):
		half := array.Shape{shape[0], shape[1] / 2, shape[2]}
		return []array.Shape{half, half}
	case transposes(c, name):
		return []array.Shape{{shape[1], shape[0]}}
	}
	return []array.Shape{shape}
}

// inFile returns a parameter's tensors in a file.
func inFile(c Config, name string, a array.Array) []array.Array {
	if order := rowOrder(c, name); order != nil {
		a = reordered(a, order, false)
	}
	if by := offset(c, name); by != 0 {
		a = shifted(a, by)
	}
	l := c.Latent
	switch {
	case strings.HasSuffix(name, latentEnd):
		rows := a.Reshape(c.Heads, l.Plain+l.Value, l.KVRank)
		keys, values := rowsOfEach(rows, 0, l.Plain), rowsOfEach(rows, l.Plain, l.Plain+l.Value)
		return []array.Array{eachTransposed(keys), values}
	case strings.HasSuffix(name, ".experts.gate_up_proj"):
		n := a.Shape()[1]
		return []array.Array{rowsOfEach(a, 0, n/2), rowsOfEach(a, n/2, n)}
	case transposes(c, name):
		return []array.Array{transposed(a)}
	}
	return []array.Array{a}
}

// fromFile returns a parameter from its tensors in a file.
func fromFile(c Config, name string, parts []array.Array) array.Array {
	a := parts[0]
	switch {
	case strings.HasSuffix(name, latentEnd):
		a = joined(eachTransposed(a), parts[1])
	case len(parts) > 1:
		a = joined(parts...)
	case transposes(c, name):
		a = transposed(a)
	}
	if order := rowOrder(c, name); order != nil {
		a = reordered(a, order, true)
	}
	if by := offset(c, name); by != 0 {
		a = shifted(a, -by)
	}
	return a
}

// rowsOfEach returns some rows of each matrix of [matrices, rows, columns].
func rowsOfEach(a array.Array, from, to int) array.Array {
	shape := a.Shape()
	out := array.New(a.DType(), shape[0], to-from, shape[2])
	row := len(a.Bytes()) / (shape[0] * shape[1])
	size := (to - from) * row
	for e := range shape[0] {
		copy(out.Bytes()[e*size:(e+1)*size], a.Bytes()[(e*shape[1]+from)*row:])
	}
	return out
}

// joined returns the matrices of [matrices, rows, columns] with those of others below them, one by one. Where
// dtypes differ, all are float32.
func joined(parts ...array.Array) array.Array {
	rows, shape := 0, parts[0].Shape()
	for i, a := range parts {
		rows += a.Shape()[1]
		if a.DType() != parts[0].DType() {
			parts[0], parts[i] = shifted(parts[0], 0), shifted(a, 0)
		}
	}
	out := array.New(parts[0].DType(), shape[0], rows, shape[2])
	at := 0
	for e := range shape[0] {
		for _, a := range parts {
			size := len(a.Bytes()) / shape[0]
			at += copy(out.Bytes()[at:], a.Bytes()[e*size:(e+1)*size])
		}
	}
	return out
}

// eachTransposed returns the transposed matrices of [matrices, rows, columns].
func eachTransposed(a array.Array) array.Array {
	shape := a.Shape()
	out := array.New(a.DType(), shape[0], shape[2], shape[1])
	size := len(a.Bytes()) / shape[0]
	for e := range shape[0] {
		one := a.Rows(e, e+1).Reshape(shape[1], shape[2])
		copy(out.Bytes()[e*size:(e+1)*size], transposed(one).Bytes())
	}
	return out
}

// joinedMatrices is like joined for integers: one matrix below the other, by expert.
func joinedMatrices(parts []quant.Matrix, experts int) (quant.Matrix, error) {
	if len(parts) == 1 {
		return parts[0], nil
	}
	rows := parts[0].Out / experts
	var all []quant.Matrix
	for e := range experts {
		for _, m := range parts {
			all = append(all, m.Rows(e*rows, (e+1)*rows))
		}
	}
	return quant.Stacked(all)
}
