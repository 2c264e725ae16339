package models

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

func tokens(s *cpu.Session, ids ...int32) *op.Tensor {
	return s.Tensor(array.FromSlice(ids, 1, len(ids)))
}

// likeliest returns the token after ids without a cache.
func likeliest(t *testing.T, m Model, s *cpu.Session, ids []int32) int32 {
	logits := read(t, m.Forward(tokens(s, ids...))).Float64s()
	vocab := m.Config().Vocab
	last, best := logits[len(logits)-vocab:], 0
	for i, x := range last {
		if x > last[best] {
			best = i
		}
	}
	return int32(best)
}

func TestGenerateGreedy(t *testing.T) {
	for _, family := range decoders() {
		t.Run(family, func(t *testing.T) {
			s := newSession(t)
			m := livelyModel(t, family, s)
			ids := []int32{3, 1, 4, 1, 5, 9, 2}
			for got, err := range Generate(m, ids, GenerateConfig{Tokens: 12}) {
				if err != nil {
					t.Fatal(err)
				}
				if want := likeliest(t, m, s, ids); got != want {
					t.Fatalf("token %d after %v: got %d, want %d", len(ids), ids, got, want)
				}
				ids = append(ids, got)
			}
			if len(ids) != 19 {
				t.Errorf("got %v, want 12 tokens more", ids)
			}
		})
	}
}

// TestDecodeParts feeds a prompt in pieces of several tokens.
func TestDecodeParts(t *testing.T) {
	for _, family := range decoders() {
		s := newSession(t)
		m := livelyModel(t, family, s)
		ids := []int32{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5}
		whole := read(t, m.Decode(tokens(s, ids...), NewCache(m, 20)))
		c := NewCache(m, 20)
		m.Decode(tokens(s, ids[:4]...), c)
		m.Decode(tokens(s, ids[4:5]...), c)
		closeTo(t, family, read(t, m.Decode(tokens(s, ids[5:]...), c)), whole)
		if c.Len() != len(ids) {
			t.Errorf("%s: the cache holds %d, want %d", family, c.Len(), len(ids))
		}
	}
}

// TestFixedCache decodes with one compiled program for every step.
func TestFixedCache(t *testing.T) {
	for _, family := range decoders() {
		t.Run(family, func(t *testing.T) { testFixedCache(t, family) })
	}
}

func testFixedCache(t *testing.T, family string) {
	d := cpu.NewDevice(cpu.Config{})
	defer d.Close()
	s := d.NewSession()
	m := livelyModel(t, family, s)
	step := traceStep(t, d, m, 12)
	var state []array.Array
	for _, ty := range CacheTypes(m, 1, 12) {
		state = append(state, array.New(ty.DType, ty.Shape...))
	}
	c := NewCache(m, 12)
	for i, id := range []int32{3, 1, 4, 1, 5, 9, 2, 6, 5, 3} {
		args := append([]array.Array{array.FromSlice([]int32{id}, 1, 1), array.Scalar(int32(i))}, state...)
		out, err := step.Run(args)
		if err != nil {
			t.Fatal(err)
		}
		closeTo(t, "logits", out[0], read(t, m.Decode(tokens(s, id), c)))
		state = out[1:]
	}
}

// traceStep returns one token's decoding as a program: ids, start and the cache in, logits and the cache out.
func traceStep(t *testing.T, d *cpu.Device, m Model, limit int) *cpu.Executable {
	b := ir.NewBuilder("step")
	ids := b.Param("ids", op.Type{DType: array.I32, Shape: array.Shape{1, 1}})
	start := b.Param("start", op.Type{DType: array.I32})
	var values []*op.Tensor
	for _, ty := range CacheTypes(m, 1, limit) {
		values = append(values, b.Param("cache", ty))
	}
	c := FixedCache(values, start)
	logits := m.Decode(ids, c)
	f, err := b.Build(append([]*op.Tensor{logits}, c.Values()...)...)
	if err != nil {
		t.Fatal(err)
	}
	e, err := d.Compile(f, cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestTraced compiles loss and gradients of a model that has only shapes.
func TestTraced(t *testing.T) {
	for _, family := range decoders() {
		t.Run(family, func(t *testing.T) { testTraced(t, family) })
	}
}

func testTraced(t *testing.T, family string) {
	d := cpu.NewDevice(cpu.Config{})
	defer d.Close()
	s := d.NewSession()
	m := livelyModel(t, family, s)
	ids, labels := array.FromSlice([]int32{3, 1, 4, 1, 5, 9, 2, 6}, 2,
		4), array.FromSlice([]int32{1, 4, -100, 1, 9, 2, 6, 5}, 2, 4)
	loss := m.Loss(s.Tensor(ids), s.Tensor(labels))
	want := append([]*op.Tensor{loss}, op.GradOnce([]*op.Tensor{loss}, nil, nn.Values(m.Params()))...)

	shapes, err := New(m.Config(), nn.Config{})
	if err != nil {
		t.Fatal(err)
	}
	b := ir.NewBuilder("loss")
	x, y := b.Param("ids", ir.TypeOf(ids)), b.Param("labels", ir.TypeOf(labels))
	args, values := []array.Array{ids, labels}, []*op.Tensor(nil)
	for i, p := range shapes.Params() {
		values = append(values, b.Param(p.Name, p.Type))
		args = append(args, read(t, m.Params()[i].Value))
	}
	restore := nn.Bind(shapes.Params(), values)
	traced := shapes.Loss(x, y)
	restore()
	f, err := b.Build(append([]*op.Tensor{traced}, op.Grad([]*op.Tensor{traced}, nil, values)...)...)
	if err != nil {
		t.Fatal(err)
	}
	e, err := d.Compile(f, cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Run(args)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		closeTo(t, "result", got[i], read(t, want[i]))
	}
}

func TestGenerateSampling(t *testing.T) {
	s := newSession(t)
	m := livelyModel(t, "llama", s)
	collect := func(c GenerateConfig) (ids []int32) {
		c.Tokens = 16
		for id, err := range Generate(m, []int32{3}, c) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		return ids
	}
	greedy := collect(GenerateConfig{})
	if got := collect(GenerateConfig{Temperature: 1, TopK: 1}); !slices.Equal(got, greedy) {
		t.Errorf("top-k 1: got %v, want %v", got, greedy)
	}
	if got := collect(GenerateConfig{Temperature: 1, TopP: 1e-9}); !slices.Equal(got, greedy) {
		t.Errorf("top-p 0: got %v, want %v", got, greedy)
	}
	a, b := collect(GenerateConfig{Temperature: 3, Seed: 1}), collect(GenerateConfig{Temperature: 3, Seed: 1})
	if !slices.Equal(a, b) {
		t.Errorf("the same seed gives %v and %v", a, b)
	}
	if other := collect(GenerateConfig{Temperature: 3, Seed: 2}); slices.Equal(a, other) {
		t.Errorf("another seed gives the same %v", a)
	}
	if got := collect(GenerateConfig{Stop: greedy[2:3]}); len(got) > 3 {
		t.Errorf("after a stop token: got %v of %v", got, greedy)
	}
}

// TestDraw compares how often tokens are drawn with their probabilities.
func TestDraw(t *testing.T) {
	g, err := newGenerator(livelyModel(t, "llama", newSession(t)), []int32{1},
		GenerateConfig{Temperature: 2, TopK: 3, Seed: 9})
	if err != nil {
		t.Fatal(err)
	}
	logits := []float64{math.Log(1), math.Log(9), math.Log(4), math.Inf(-1), math.Log(16)}
	counts := make([]float64, len(logits))
	const n = 90000
	for range n {
		counts[g.draw(logits)]++
	}
	for i, want := range []float64{0, 3. / 9, 2. / 9, 0, 4. / 9} {
		if got := counts[i] / n; math.Abs(got-want) > 0.01 {
			t.Errorf("token %d: drawn %v, want %v", i, got, want)
		}
	}
}

func TestGenerateErrors(t *testing.T) {
	s := newSession(t)
	m := livelyModel(t, "gpt2", s)
	for _, test := range []struct {
		prompt []int32
		config GenerateConfig
		want   string
	}{
		{nil, GenerateConfig{Tokens: 1}, "prompt: it is empty"},
		{[]int32{40}, GenerateConfig{Tokens: 1}, "token 40: the vocabulary has 40"},
		{[]int32{-1}, GenerateConfig{Tokens: 1}, "token -1"},
		{[]int32{1}, GenerateConfig{Tokens: 1, Temperature: -1}, "temperature: got -1"},
		{[]int32{1}, GenerateConfig{Tokens: 1, TopP: 2}, "top-p: got 2"},
		{[]int32{1}, GenerateConfig{Tokens: 40}, "n_positions 32"},
	} {
		var last error
		for _, err := range Generate(m, test.prompt, test.config) {
			last = err
		}
		if last == nil || !strings.Contains(last.Error(), test.want) {
			t.Errorf("%v %+v: got %v, want %s", test.prompt, test.config, last, test.want)
		}
	}
}

func TestForwardErrors(t *testing.T) {
	s := newSession(t)
	m := livelyModel(t, "gpt2", s)
	if err := m.Forward(s.Tensor(array.New(array.I32, 3))).Err(); err == nil ||
		!strings.Contains(err.Error(), "want [batch, seq]") {
		t.Errorf("one dim: got %v", err)
	}
	if err := m.Loss(s.Tensor(array.New(array.I32, 1, 33)),
		s.Tensor(array.New(array.I32, 1, 33))).Err(); err == nil ||
		!strings.Contains(err.Error(), "sequence of 33 tokens") {
		t.Errorf("long: got %v", err)
	}
}

// TestHalf runs loss and gradients in bfloat16.
func TestHalf(t *testing.T) {
	for _, family := range decoders() {
		s := newSession(t)
		m := smallModel(t, family, livelyKeys()[family], nn.Config{Scope: s, DType: array.BF16})
		loss := m.Loss(tokens(s, 1, 2, 3), tokens(s, 2, 3, 4))
		if got := read(t, loss).At(0); math.Abs(got-math.Log(40)) > 0.5 {
			t.Errorf("%s: loss %v, want about %v", family, got, math.Log(40))
		}
		for i, g := range op.GradOnce([]*op.Tensor{loss}, nil, nn.Values(m.Params())) {
			if g.Err() != nil || g.DType() != array.BF16 {
				t.Errorf("%s: gradient of %s: %v %v", family, m.Params()[i].Name, g.DType(), g.Err())
			}
		}
	}
}

func TestPresets(t *testing.T) {
	for _, c := range []Config{Tiny(1000), Small(1000)} {
		if _, err := New(c, nn.Config{}); err != nil {
			t.Error(err)
		}
	}
}
