package op

import (
	"slices"
	"testing"

	"github.com/galley-ml/galley/array"
)

// TestEinsumInPlace compares products that read and write where arrays lie with those of moved ones, bit by
// bit, and says which there are.
func TestEinsumInPlace(t *testing.T) {
	sizes := map[rune]int{'b': 2, 'g': 3, 'r': 1, 's': 64, 't': 70, 'd': 20, 'e': 9, 'h': 2, 'u': 1}
	for equation, want := range map[string]bool{
		"bsgrd,btgd->bgrst": true,  // scores: a head's rows have others between them
		"bgrst,btge->bsgre": true,  // and so has the result
		"bgrst,bsgrd->btgd": true,  // a sum over rows
		"bshd,bthd->bhts":   true,  // queries are the columns
		"bsgrd,bgrst->btgd": true,  // the other way round
		"bsd,bse->de":       true,  // a sum over batch and rows
		"bsgd,btgh->bsgth":  false, // matrices of g are not in the sum, and of the result not one
		"sbd,te->sbdte":     true,
		"sd,dt->st":         true,
		"us,ut->st":         true,
		"bhsd,hdt->bst":     false, // the sum is not even
	} {
		e, err := parseEinsum(equation, 2)
		if err != nil {
			t.Fatal(err)
		}
		shape := func(word string) array.Shape {
			var s array.Shape
			for _, c := range word {
				s = append(s, sizes[c])
			}
			return s
		}
		in := make([]array.Array, 2)
		for i, word := range e.in {
			in[i] = array.New(array.F32, shape(word)...)
			for k := range array.Data[float32](in[i]) {
				array.Data[float32](in[i])[k] = float32((k*7919+i*31)%1009)/1009 - 0.5
			}
		}
		o, out := einsum{Equation: equation}, array.New(array.F32, shape(e.out)...)
		c := o.classify(in[0].Shape(), in[1].Shape())
		p, ok := c.inPlace(e, in[0], in[1], out)
		if ok != want {
			t.Errorf("%s: in place %v, want %v", equation, ok, want)
		}
		if !ok {
			continue
		}
		p.run(&Env{})
		moved := array.New(array.F32, shape(e.out)...)
		c.moved(&Env{}, e, in, []array.Array{moved})
		if !slices.Equal(array.Data[float32](out), array.Data[float32](moved)) {
			t.Errorf("%s: other sums in place", equation)
		}
	}
}
