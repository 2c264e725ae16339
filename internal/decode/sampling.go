package decode

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/sample"
	"github.com/galley-ml/galley/op"
)

// How a row's token is chosen.
const (
	// greedily: the most likely one.
	greedily = iota
	// fromAll: sampled from all tokens in the order of their ids.
	fromAll
	// fromLikeliest: sampled from the most likely ones in their order, after top-k or top-p.
	fromLikeliest
)

// sampling is what a program supports for choosing tokens, besides the most likely one.
type sampling struct {
	all bool
	// likeliest is how many tokens are sorted; 0 means none.
	likeliest int
}

// fewLikeliest is how many tokens are sorted if no row of a batch needs more.
const fewLikeliest = 64

// wayOf returns how a configuration chooses.
func wayOf(c sample.Config, vocab int) int32 {
	switch {
	case c.Temperature == 0:
		return greedily
	case c.TopK > 0 && c.TopK < vocab || c.TopP > 0 && c.TopP < 1:
		return fromLikeliest
	}
	return fromAll
}

// with returns the sampling that also supports c.
func (s sampling) with(c sample.Config, vocab int) sampling {
	switch wayOf(c, vocab) {
	case fromAll:
		s.all = true
	case fromLikeliest:
		n := vocab
		if c.TopK > 0 && c.TopK <= fewLikeliest {
			n = min(fewLikeliest, vocab)
		}
		s.likeliest = max(s.likeliest, n)
	}
	return s
}

// knobs are a batch's sampling parameters as tensors, one element a row.
type knobs struct {
	way, topK                *op.Tensor // int32
	temperature, topP, floor *op.Tensor // float32; floor is how far below the largest logit a token may be
}

// knobTypes returns the types of knobs in order.
func knobTypes(rows int) []op.Type {
	i := op.Type{DType: array.I32, Shape: array.Shape{rows}}
	f := op.Type{DType: array.F32, Shape: array.Shape{rows}}
	return []op.Type{i, i, f, f, f}
}

func knobsOf(in []*op.Tensor) knobs {
	return knobs{way: in[0], topK: in[1], temperature: in[2], topP: in[3], floor: in[4]}
}

// knobValues returns sampling parameters as arrays of knobTypes, padded with greedy rows.
func knobValues(configs []sample.Config, rows, vocab int) []array.Array {
	way, topK := make([]int32, rows), make([]int32, rows)
	temperature, topP, floor := make([]float32, rows), make([]float32, rows), make([]float32, rows)
	for i := range rows {
		temperature[i], topP[i], topK[i], floor[i] = 1, 2, int32(vocab), -math.MaxFloat32
		if i >= len(configs) || configs[i].Temperature == 0 {
			continue
		}
		c := configs[i]
		way[i], temperature[i] = wayOf(c, vocab), float32(c.Temperature)
		if c.TopK > 0 {
			topK[i] = int32(min(c.TopK, vocab))
		}
		if c.TopP > 0 && c.TopP < 1 {
			topP[i] = float32(c.TopP)
		}
		if c.MinP > 0 {
			floor[i] = float32(c.Temperature * math.Log(c.MinP))
		}
	}
	return []array.Array{array.FromSlice(way, rows), array.FromSlice(topK, rows),
		array.FromSlice(temperature, rows), array.FromSlice(topP, rows), array.FromSlice(floor, rows)}
}

// choose returns a token [rows] (int32) for each row of logits [rows, vocab], and its log-probability. A row
// that samples takes the first token whose cumulative probability exceeds uniform [rows].
func (s sampling) choose(logits, uniform *op.Tensor, k knobs) (ids, logProbs *op.Tensor) {
	if logits.Err() != nil {
		return logits, logits
	}
	rows := logits.Dim(0)
	best := op.Cast(op.ArgMax(logits, 1), array.I32)
	top := op.Reshape(op.AMax(logits, 1), rows, 1)
	ids = best
	if s.all {
		weights := k.weights(logits, top)
		drawn := op.Reshape(drawn(weights, uniform, op.Reshape(best, rows, 1)), rows)
		ids = op.Where(is(k.way, fromAll), drawn, ids)
	}
	if s.likeliest > 0 {
		ids = op.Where(is(k.way, fromLikeliest), s.fromLikeliest(logits, top, uniform, k), ids)
	}
	chosen := op.Reshape(op.TakeAlongDim(logits, op.Reshape(ids, rows, 1), 1), rows)
	return ids, op.Sub(chosen, op.LogSumExp(logits, 1))
}

func is(way *op.Tensor, which int) *op.Tensor { return op.Equal(way, op.Const(way, float64(which))) }

// weights returns the relative probabilities of logits [rows, n]; 0 for tokens that are too unlikely.
func (k knobs) weights(logits, top *op.Tensor) *op.Tensor {
	if logits.Err() != nil {
		return logits
	}
	rows, shape := logits.Dim(0), logits.Shape()
	column := func(x *op.Tensor) *op.Tensor { return op.Expand(op.Reshape(x, rows, 1), shape...) }
	below := op.Sub(logits, column(top))
	weights := op.Exp(op.Div(below, column(k.temperature)))
	return op.Where(op.GreaterEqual(below, column(k.floor)), weights, op.Const(weights, 0))
}

// fromLikeliest samples after top-k and top-p.
func (s sampling) fromLikeliest(logits, top, uniform *op.Tensor, k knobs) *op.Tensor {
	values, order := op.TopK(logits, s.likeliest, 1)
	weights := k.weights(values, top)
	if weights.Err() != nil {
		return weights
	}
	rows, shape := logits.Dim(0), weights.Shape()
	column := func(x *op.Tensor) *op.Tensor { return op.Expand(op.Reshape(x, rows, 1), shape...) }
	number := op.Iota(logits.Scope(), array.I32, shape, 1)
	zero := op.Const(weights, 0)
	weights = op.Where(op.Less(number, column(k.topK)), weights, zero)
	before := op.Sub(op.CumSum(weights, 1), weights) // the nucleus ends with the token that reaches topP
	enough := op.Mul(k.topP, op.Sum(weights, 1))
	weights = op.Where(op.Less(before, column(enough)), weights, zero)
	first := op.Full(logits.Scope(), array.I32, array.Shape{rows, 1}, 0)
	return op.Reshape(op.Cast(op.TakeAlongDim(order, drawn(weights, uniform, first), 1), array.I32), rows)
}

// drawn returns the index [rows, 1] of the first of weights [rows, n] whose cumulative sum exceeds uniform
// times the total; if rounding leaves none, other.
func drawn(weights, uniform, other *op.Tensor) *op.Tensor {
	if weights.Err() != nil {
		return weights
	}
	rows := weights.Dim(0)
	at := op.Expand(op.Reshape(op.Mul(uniform, op.Sum(weights, 1)), rows, 1), weights.Shape()...)
	passes := op.LogicalAnd(op.Greater(op.CumSum(weights, 1), at), op.Greater(weights, op.Const(weights, 0)))
	hit := op.Cast(passes, array.F32)
	place := op.Reshape(op.Cast(op.ArgMax(hit, 1), array.I32), rows, 1)
	some := op.Reshape(op.Greater(op.AMax(hit, 1), op.Const(uniform, 0)), rows, 1)
	return op.Where(some, place, other)
}
