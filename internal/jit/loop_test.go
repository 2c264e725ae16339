package jit

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/pprof"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// sets returns the instruction sets that this machine runs.
func sets(t *testing.T) []Set {
	if _, err := best(); err != nil {
		t.Skip(err)
	}
	if kernel.VectorSet() == "AVX512" {
		return []Set{AVX2, AVX512}
	}
	return []Set{AVX2}
}

type formula struct {
	in   int
	lane func(b *lane.Builder, in []lane.Arg) lane.Arg
}

func one(f func(b *lane.Builder, x lane.Arg) lane.Arg) formula {
	return formula{1, func(b *lane.Builder, in []lane.Arg) lane.Arg { return f(b, in[0]) }}
}

func two(f func(b *lane.Builder, x, y lane.Arg) lane.Arg) formula {
	return formula{2, func(b *lane.Builder, in []lane.Arg) lane.Arg { return f(b, in[0], in[1]) }}
}

var formulas = []formula{one((*lane.Builder).Exp), one((*lane.Builder).Tanh), one((*lane.Builder).Log),
	one((*lane.Builder).Erf), one((*lane.Builder).Sigmoid), one((*lane.Builder).Rsqrt), one((*lane.Builder).Neg),
	one((*lane.Builder).GELU), one((*lane.Builder).Softplus), one((*lane.Builder).ReLU),
	one(func(b *lane.Builder, x lane.Arg) lane.Arg { return b.Round(x, 1) }),
	two((*lane.Builder).Add), two((*lane.Builder).Sub), two((*lane.Builder).Mul), two((*lane.Builder).Div),
	two((*lane.Builder).Max), two((*lane.Builder).Min), two((*lane.Builder).GELUGrad),
	two((*lane.Builder).SwiGLU),
	{3, func(b *lane.Builder, in []lane.Arg) lane.Arg {
		return b.Select(b.Compare(lane.Less, in[0], in[1]), in[1], in[2])
	}}}

// drawProgram returns a random program with its streams for so many rows; results begin at the second answer.
func drawProgram(t *rapid.T) *Program {
	p := &Program{
		Double: rapid.Bool().Draw(t, "double"),
		Cols:   rapid.SampledFrom([]int{1, 3, 8, 16, 17, 31, 64, 65, 100, 200, 4096, 4097, 9000}).Draw(t, "cols"),
	}
	stream := func(level Level) {
		p.Values = append(p.Values, Value{Kind: Stream, Level: level, Stream: p.Streams})
		p.Streams++
	}
	for range rapid.IntRange(1, 4).Draw(t, "streams") {
		stream(Elem)
	}
	for range rapid.IntRange(0, 2).Draw(t, "row streams") {
		stream(Row)
	}
	p.Values = append(p.Values, Value{Kind: Number, Level: Const, Number: 0.75})
	for range rapid.IntRange(1, 16).Draw(t, "values") {
		p.Values = append(p.Values, drawValue(t, p))
	}
	for i, v := range p.Values {
		if v.Kind == Stream || v.Kind == Number || i < len(p.Values)-1 && rapid.Bool().Draw(t, "unused") {
			continue
		}
		p.Stores = append(p.Stores, Store{Value: i, Stream: p.Streams})
		p.Streams++
		if v.Level == Elem && rapid.IntRange(0, 3).Draw(t, "columns") == 0 {
			p.Stores = append(p.Stores, Store{Value: i, Stream: p.Streams, Add: true})
			p.Streams++
		}
	}
	for range p.Streams {
		p.Bytes = append(p.Bytes, p.size())
		aligned := p.Cols*p.size()%PastAlign == 0
		p.Past = append(p.Past, aligned && rapid.Bool().Draw(t, "past"))
	}
	return p
}

func drawValue(t *rapid.T, p *Program) Value {
	pick := func() int { return len(p.Values) - 1 - rapid.IntRange(0, min(6, len(p.Values)-1)).Draw(t, "in") }
	if x := pick(); p.Values[x].Level == Elem && rapid.IntRange(0, 3).Draw(t, "fold") == 0 {
		return Value{Kind: Fold, Level: Row, In: []int{x}, Phase: p.Values[x].Phase + 1,
			Fold: lane.Fold(rapid.IntRange(0, 2).Draw(t, "how")), Count: 0}
	}
	number := rapid.IntRange(0, len(formulas)-1).Filter(func(i int) bool {
		return !p.Double || inDoubles(formulas[i])
	}).Draw(t, "formula")
	f := formulas[number]
	v := Value{Kind: Map, Level: Const, Lane: f.lane, Number: float64(number)} // to be told by
	for range f.in {
		x := pick()
		v.In, v.Phase = append(v.In, x), max(v.Phase, p.Values[x].Phase)
		v.Level = min(v.Level, p.Values[x].Level)
	}
	if v.Level == Const {
		v.In[0], v.Level = 0, Elem
	}
	return v
}

// TestPrograms: code of either set computes what the program says, bit by bit.
func TestPrograms(t *testing.T) {
	for _, set := range sets(t) {
		t.Run(set.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				if p := drawProgram(t); p.Double {
					checkProgram[uint64](t, p, set)
				} else {
					checkProgram[uint32](t, p, set)
				}
			})
		})
	}
}

// inDoubles reports whether lanes of 64 bits have a formula.
func inDoubles(f formula) bool {
	b := lane.NewDouble(true, f.in).Builder()
	f.lane(b, []lane.Arg{b.In(0), b.In(1), b.In(2)}[:f.in])
	return !b.Missing
}

func checkProgram[W bits](t *rapid.T, p *Program, set Set) {
	const rows = 3
	rng := rand.New(rand.NewPCG(7, 8))
	streams, want := make([][]W, p.Streams), make([][]W, p.Streams)
	for i := range streams {
		streams[i] = alignedLanes[W](rows * p.Cols)
		for k := range streams[i] {
			if streams[i][k] = bitsOf[W](rng.NormFloat64()); rng.IntN(300) == 0 {
				streams[i][k] = W(rng.Uint64())
			} else if rng.IntN(50) == 0 { // zeros of both signs
				streams[i][k] = bitsOf[W](math.Copysign(0, rng.NormFloat64()))
			}
		}
		want[i] = append([]W(nil), streams[i]...)
	}
	interpret(p, set == AVX512, rows, want)
	c, err := Compile(p, set)
	if err != nil {
		t.Fatal(err)
	}
	call := callOf(p, c, rows, streams)
	if rapid.Bool().Draw(t, "blocks") { // of one row each
		call.Rows, call.Blocks, call.Block = 1, rows, call.Stride
		call.Stride = make([]int, len(call.Block))
	}
	c.Run(call)
	for i := range want {
		for k := range want[i] {
			x, y := float(streams[i][k]), float(want[i][k])
			if streams[i][k] != want[i][k] && (x == x || y == y) {
				t.Fatalf("stream %d, element %d of rows of %d: got %g, want %g\n%+v", i, k, p.Cols, x, y, p)
			}
		}
	}
}

// alignedLanes returns memory that begins where vectors past the cache do.
func alignedLanes[W bits](n int) []W {
	size := int(unsafe.Sizeof(W(0)))
	s := make([]W, n+PastAlign/size)
	at := int(uintptr(unsafe.Pointer(&s[0])) % PastAlign)
	return s[(PastAlign-at)%PastAlign/size:][:n]
}

func callOf[W bits](p *Program, c *Code, rows int, streams [][]W) *Call {
	call := &Call{Rows: rows, Blocks: 1, Block: make([]int, p.Streams), Scratch: make([]byte, c.Scratch())}
	stride := make([]int, p.Streams)
	for _, v := range p.Values {
		if v.Kind == Stream {
			stride[v.Stream] = p.size()
			if v.Level == Elem {
				stride[v.Stream] = p.size() * p.Cols
			}
		}
	}
	for _, s := range p.Stores {
		switch {
		case s.Add:
		case p.Values[s.Value].Level == Row:
			stride[s.Stream] = p.size()
		default:
			stride[s.Stream] = p.size() * p.Cols
		}
	}
	for _, s := range streams {
		call.Base = append(call.Base, unsafe.Pointer(&s[0]))
	}
	call.Stride = stride
	return call
}

// tanhLoop returns a program of one formula on rows of 1000.
func tanhLoop(t *testing.T) (*Program, *Code) {
	set, err := Best()
	if err != nil {
		t.Skip(err)
	}
	p := &Program{Cols: 1000, Streams: 2, Bytes: []int{4, 4}, Values: []Value{{Kind: Stream},
		{Kind: Map, In: []int{0}, Lane: formulas[1].lane}}, Stores: []Store{{Value: 1, Stream: 1}}}
	c, err := Compile(p, set)
	if err != nil {
		t.Fatal(err)
	}
	return p, c
}

// deep uses stack, so that it must grow.
func deep(n int) int {
	var pad [512]byte
	if n == 0 {
		return int(pad[0])
	}
	return deep(n-1) + int(pad[n%512])
}

// TestUnderPressure runs code on many goroutines while memory is collected, stacks grow, a profiler sends its
// signals and others ask for the processor.
func TestUnderPressure(t *testing.T) {
	p, c := tanhLoop(t)
	if err := pprof.StartCPUProfile(io.Discard); err != nil {
		t.Logf("without a profile: %v", err) // the test itself is profiled
	} else {
		defer pprof.StopCPUProfile()
	}
	done := make(chan error)
	for g := range 8 {
		go func() {
			for i := range 200 {
				x, y := make([]uint32, 4*p.Cols), make([]uint32, 4*p.Cols)
				for k := range x {
					x[k] = math.Float32bits(float32(g) / 8)
				}
				deep(i % 64)
				c.Run(callOf(p, c, 4, [][]uint32{x, y}))
				want := math.Float32frombits(y[0])
				for _, v := range y {
					if math.Float32frombits(v) != want || math.Abs(float64(want)-math.Tanh(float64(g)/8)) > 1e-6 {
						done <- fmt.Errorf("goroutine %d: got %g of %g", g, math.Float32frombits(v), float32(g)/8)
						return
					}
				}
				if i%16 == 0 {
					runtime.GC()
				}
				runtime.Gosched()
			}
			done <- nil
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestFault: an address that is not there is a panic that can be recovered.
func TestFault(t *testing.T) {
	p, c := tanhLoop(t)
	x := make([]uint32, p.Cols)
	call := callOf(p, c, 1, [][]uint32{x, x})
	call.Base[0] = nil
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	c.Run(call)
}

// TestRunIsChecked: a call that does not fit the code is refused before it runs.
func TestRunIsChecked(t *testing.T) {
	_, c := tanhLoop(t)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	c.Run(&Call{Rows: 1})
}
