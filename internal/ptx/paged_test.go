package ptx

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/galley-ml/galley/array"
)

// TestPagedAttention: new tokens of sequences of several lengths attend to keys and values in pages.
func TestPagedAttention(t *testing.T) {
	for _, q := range []PagedAttention{
		{Rows: 1, Heads: 2, KeyHeads: 2, Dim: 64, Pages: 3, Tokens: 16, Scale: 0.125},
		{Rows: 3, Heads: 8, KeyHeads: 2, Dim: 64, Pages: 20, Tokens: 16, Scale: 0.1},
		{Rows: 2, Heads: 6, KeyHeads: 1, Dim: 128, Pages: 12, Tokens: 8, Scale: 0.3},
		{Rows: 4, Heads: 4, KeyHeads: 4, Dim: 64, Pages: 9, Tokens: 16, Scale: 0.2, Window: 21},
	} {
		t.Run(fmt.Sprintf("%+v", q), func(t *testing.T) {
			if !q.Fits() {
				t.Fatal("does not fit")
			}
			checkPaged(t, q)
		})
	}
}

func checkPaged(t *testing.T, q PagedAttention) {
	r := rand.New(rand.NewPCG(9, 10))
	pool := q.Rows*q.Pages + 3
	queries := eighths(r, q.Rows, q.Heads, q.Dim)
	keys, values := eighths(r, pool*q.Tokens, q.KeyHeads, q.Dim), eighths(r, pool*q.Tokens, q.KeyHeads, q.Dim)
	table, positions := array.New(array.I32, q.Rows, q.Pages), array.New(array.I32, q.Rows)
	for i, p := range r.Perm(pool)[:q.Rows*q.Pages] {
		table.Set(i, float64(p))
	}
	for i := range q.Rows {
		positions.Set(i, float64(r.IntN(q.Pages*q.Tokens)))
	}
	positions.Set(0, float64(q.Pages*q.Tokens-1))
	positions.Set(q.Rows-1, float64(min(q.Rows, 2)-1))
	got := blank(q.Rows, q.Heads, q.Dim)
	want := blank(q.Rows, q.Heads, q.Dim)
	attend(q, queries, keys, values, table, positions, want)
	if err := Run(q.Kernel(), []array.Array{queries, keys, values, table, positions, got}); err != nil {
		t.Fatal(err)
	}
	if err := differ([]array.Array{got}, []array.Array{want}); err != nil {
		t.Error(err)
	}
}

// attend is attention by its definition.
func attend(q PagedAttention, queries, keys, values, table, positions, out array.Array) {
	for row := range q.Rows {
		last := int(positions.At(row))
		first := 0
		if q.Window > 0 {
			first = max(0, last-q.Window+1)
		}
		for h := range q.Heads {
			at := func(token, d int) int {
				slot := int(table.At(row*q.Pages+token/q.Tokens))*q.Tokens + token%q.Tokens
				return (slot*q.KeyHeads+h*q.KeyHeads/q.Heads)*q.Dim + d
			}
			total, sum := 0.0, make([]float64, q.Dim)
			for token := first; token <= last; token++ {
				s := 0.0
				for d := range q.Dim {
					s += queries.At((row*q.Heads+h)*q.Dim+d) * keys.At(at(token, d))
				}
				p := math.Exp(s * q.Scale)
				total += p
				for d := range sum {
					sum[d] += p * values.At(at(token, d))
				}
			}
			for d, s := range sum {
				out.Set((row*q.Heads+h)*q.Dim+d, s/total)
			}
		}
	}
}
