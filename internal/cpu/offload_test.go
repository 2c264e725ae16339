package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// shelf is arrays by the numbers of parameters; results go where the parameters are that they replace.
type shelf struct {
	mu    sync.Mutex
	at    map[int]array.Array
	homes map[int]int
	gets  []int
	parts [][2]int // parameters, and which piece of each
}

func (s *shelf) Get(i int, into array.Array) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gets = append(s.gets, i)
	if !s.at[i].IsValid() {
		return fmt.Errorf("nothing at %d", i)
	}
	copy(into.Bytes(), s.at[i].Bytes())
	return nil
}

func (s *shelf) Part(i, offset int, into []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = append(s.parts, [2]int{i, offset / len(into)})
	copy(into, s.at[i].Bytes()[offset:])
	return nil
}

func (s *shelf) Put(i int, a array.Array) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[s.homes[i]] = a.Clone()
	return nil
}

// randomProgram returns one of elementwise ops, views and in-place chains over parameters of two sizes; its
// results may be parameters, and the same value twice.
func randomProgram(r *rand.Rand, params int) *ir.Func {
	b := ir.NewBuilder("random")
	var list []*op.Tensor
	for i := range params {
		list = append(
			list,
			b.Param(fmt.Sprint("p", i), ir.Type{DType: array.F64, Shape: array.Shape{4, 3 + 4*(i%2)}}),
		)
	}
	pick := func() *op.Tensor { return list[r.IntN(len(list))] }
	for range 3 + r.IntN(20) {
		x := pick()
		switch r.IntN(5) {
		case 0:
			list = append(list, op.Reshape(op.Reshape(x, x.Shape().Len()), x.Shape()...))
		case 1:
			list = append(list, op.Tanh(x))
		default:
			y := pick()
			if !y.Shape().Equal(x.Shape()) {
				y = x
			}
			list = append(list, op.Add(op.MulScalar(x, 0.5), y))
		}
	}
	results := make([]*op.Tensor, params)
	for i := range results {
		for results[i] == nil || !results[i].Shape().Equal(list[i].Shape()) {
			results[i] = pick()
		}
	}
	f, err := b.Build(results...)
	if err != nil {
		panic(err)
	}
	return f
}

// TestAway: whatever is away, a program computes the same bits, and what replaces a parameter does so after
// it was read.
func TestAway(t *testing.T) {
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
	rapid.Check(t, func(rt *rapid.T) {
		const n = 5
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		f := randomProgram(r, n)
		args := make([]array.Array, n)
		for i, p := range f.Params() {
			args[i] = array.New(array.F64, p.Shape()...)
			for k := range args[i].Len() {
				args[i].Set(k, r.Float64()-0.5)
			}
		}
		whole, err := d.Compile(f, cpu.Options{})
		if err != nil {
			rt.Fatal(err)
		}
		want, err := whole.Run(args)
		if err != nil {
			rt.Fatal(err)
		}
		shelf := &shelf{at: map[int]array.Array{}, homes: map[int]int{}}
		var away cpu.Offloaded
		own, into := slices.Clone(args), make([]array.Array, n)
		for i := range n {
			into[i] = array.New(array.F64, want[i].Shape()...)
			if rapid.Bool().Draw(rt, "param away") {
				away.Params = append(away.Params, i)
				shelf.at[i], own[i] = args[i], array.Array{}
			}
			if rapid.Bool().Draw(rt, "result away") {
				away.Results, away.After = append(away.Results, i), append(away.After, i)
				shelf.homes[i], into[i] = i, array.Array{}
			}
		}
		e, err := cpu.NewOffloadPlan(f, cpu.Options{}, away)
		if err != nil {
			rt.Fatal(err)
		}
		arena := array.New(array.U8, e.Memory().Arena).Bytes()
		if err := e.RunOver(d, arena, own, into, shelf); err != nil {
			rt.Fatal(err)
		}
		for i, w := range want {
			got := into[i]
			if slices.Contains(away.Results, i) {
				got = shelf.at[i]
			}
			if string(got.Bytes()) != string(w.Bytes()) {
				rt.Fatalf("result %d: got %v, want %v\n%v", i, got, w, f)
			}
		}
	})
}

// TestAwayMemory: of a chain of updates whose parameters and results are all away, two are in memory at a
// time, with what computing one takes.
func TestAwayMemory(t *testing.T) {
	const n, rows = 12, 1 << 10
	b := ir.NewBuilder("update")
	var results []*op.Tensor
	var away cpu.Offloaded
	for i := range n {
		x := b.Param(fmt.Sprint("slot", i), ir.Type{DType: array.F64, Shape: array.Shape{rows}})
		results = append(results, op.Tanh(op.Add(op.Tanh(x), x)))
		away.Params, away.Results, away.After = append(
			away.Params,
			i,
		), append(
			away.Results,
			i,
		), append(
			away.After,
			i,
		)
	}
	f, err := b.Build(results...)
	if err != nil {
		t.Fatal(err)
	}
	e, err := cpu.NewOffloadPlan(f, cpu.Options{}, away)
	if err != nil {
		t.Fatal(err)
	}
	if got := e.Memory().Arena; got > 4*8*rows {
		t.Errorf("the arena has %d bytes: %d tensors of %d", got, got/8/rows, 8*rows)
	}
}
