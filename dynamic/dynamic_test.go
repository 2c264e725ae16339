package dynamic_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/dynamic"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// pooled returns the tanh of what rows bring, and its mean over the steps that are there.
func pooled(x, mask *op.Tensor) (y, mean *op.Tensor) {
	y = op.Mul(op.Tanh(x), op.Unsqueeze(mask, -1))
	return y, op.Div(op.Sum(y, 1), op.Unsqueeze(op.Sum(mask, 1), -1))
}

func ExampleCompile() {
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	shapes, err := dynamic.New(dynamic.Config{
		Axes:  []dynamic.Axis{{Name: "batch", Max: 2}, {Name: "time", Buckets: []int{4, 8}}},
		In:    []string{"batch,time,_"},
		Out:   []string{"batch,time,_", "batch,_"},
		Masks: []string{"batch,time"},
		Log:   func(line string) { fmt.Println(line) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	f := dynamic.Compile(d, "pool", shapes, func(in []*op.Tensor) []*op.Tensor {
		y, mean := pooled(in[0], in[1])
		return []*op.Tensor{y, mean}
	})
	for _, steps := range []int{3, 4, 7} {
		out, err := f.Run(array.New(array.F32, 2, steps, 1))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(out[0].Shape(), out[1].Shape())
	}
	_, err = f.Run(array.New(array.F32, 2, 9, 1))
	fmt.Println(err)
	// Output:
	// program 1 of at most 8: batch 2 is padded to 2, time 3 is padded to 4: the first batch of f32[2,4,1] f32[2,4]
	// [2,3,1] [2,1]
	// [2,4,1] [2,1]
	// program 2 of at most 8: batch 2 is padded to 2, time 7 is padded to 8: the first batch of f32[2,8,1] f32[2,8]
	// [2,7,1] [2,1]
	// dynamic: time is 9: the largest bucket is 8: list a larger one or cut the batch
}

// TestSizes: whatever the sizes, results are those of a program of exactly these, and programs are few.
func TestSizes(t *testing.T) {
	d := galley.CPU(galley.Config{Threads: 2})
	defer d.Close()
	shapes, err := dynamic.New(dynamic.Config{
		Axes: []dynamic.Axis{{Name: "b", Buckets: []int{3, 6}}, {Name: "t", Max: 16}},
		In:   []string{"b,t,_", "b"}, Out: []string{"b,t,_", "b,_"}, Masks: []string{"b,t"}, Fill: []float64{7, -1},
		Programs: 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	f := dynamic.Compile(d, "pool", shapes, func(in []*op.Tensor) []*op.Tensor {
		y, mean := pooled(in[0], op.Cast(in[2], array.F64))
		return []*op.Tensor{y, op.Mul(mean, op.Unsqueeze(in[1], -1))}
	})
	rng := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		b, steps := 1+rng.IntN(6), 1+rng.IntN(16)
		x, w := array.New(array.F64, b, steps, 2), array.New(array.F64, b)
		for i := range x.Len() {
			x.Set(i, rng.NormFloat64())
		}
		for i := range w.Len() {
			w.Set(i, rng.NormFloat64())
		}
		got, err := f.Run(x, w)
		if err != nil {
			t.Fatal(err)
		}
		s := d.NewSession()
		y, mean := pooled(s.Tensor(x), op.Ones(s, array.F64, b, steps))
		for i, want := range []*op.Tensor{y, op.Mul(mean, op.Unsqueeze(s.Tensor(w), -1))} {
			a, err := galley.Read(want)
			if err != nil {
				t.Fatal(err)
			}
			if !a.Shape().Equal(got[i].Shape()) {
				t.Fatalf("result %d has shape %v, want %v", i, got[i].Shape(), a.Shape())
			}
			for k := range a.Len() {
				if math.Abs(a.At(k)-got[i].At(k)) > 1e-12 {
					t.Fatalf("[%d,%d] result %d: got %v, want %v", b, steps, i, got[i], a)
				}
			}
		}
	}
	if n := len(shapes.Programs()); n != 10 {
		t.Errorf("%d programs: want one for each of 2 and 5 buckets", n)
	}
}

// ragged is batches of sequences whose lengths vary: inputs, and labels that tell padding by 0 weights.
type ragged struct{ masked bool }

func (ragged) Len() int { return 6 }

func (r ragged) Batch(i int) ([]array.Array, error) {
	steps := 3 + i*5%7
	x, y := array.New(array.F64, 4, steps, 3), array.New(array.F64, 4, steps, 1)
	rng := rand.New(rand.NewPCG(uint64(i), 9))
	for k := range x.Len() {
		x.Set(k, rng.NormFloat64())
	}
	for k := range y.Len() {
		y.Set(k, rng.NormFloat64())
	}
	if !r.masked {
		return []array.Array{x, y}, nil
	}
	ones := array.New(array.F32, 4, steps)
	for k := range ones.Len() {
		ones.Set(k, 1)
	}
	return []array.Array{x, ones, y}, nil
}

// TestToStatic: a model that is trained on padded batches has the losses of one that is trained on batches of
// every length, on one device and on two, with few programs.
func TestToStatic(t *testing.T) {
	losses := func(loader galley.Loader, s *galley.Strategy) (list []float64) {
		d := galley.CPU(galley.Config{Threads: 1})
		defer d.Close()
		in := nn.NewInit(nn.Config{Scope: d.NewSession(), Seed: 3, DType: array.F64})
		lstm := nn.NewLSTM(in.At("lstm"), 3, 4, nn.RecurrentConfig{Scan: true})
		head := nn.NewLinear(in.At("head"), 4, 1)
		m := galley.ModelFunc(in.Params(), func(x []*op.Tensor) []*op.Tensor {
			return []*op.Tensor{head.Forward(lstm.Forward(x[0])), op.Cast(x[1], array.F64)}
		})
		loss := func(out, labels []*op.Tensor) *op.Tensor {
			off := op.Mul(op.Sub(out[0], labels[0]), op.Unsqueeze(out[1], -1))
			return op.MulScalar(op.Mean(op.Sum(op.Square(off), 1, 2)), 0.25)
		}
		static, err := galley.ToStatic(withInputs{m}, loader, loss, optim.SGD{}, s)
		if err != nil {
			t.Fatal(err)
		}
		defer static.Close()
		for i := range loader.Len() {
			batch, err := loader.Batch(i)
			if err != nil {
				t.Fatal(err)
			}
			r, err := static.Run(context.Background(), batch...)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, r.Loss)
		}
		return list
	}
	want := losses(ragged{masked: true}, nil)
	for _, s := range []*galley.Strategy{nil, {DP: 2}, {PP: 2, Micro: 4}, {DP: 2, Micro: 2, Zero: 3}} {
		shapes, err := dynamic.New(dynamic.Config{
			Axes: []dynamic.Axis{{Name: "rows", Buckets: []int{4}}, {Name: "time", Buckets: []int{4, 9}}},
			In:   []string{"rows,time,_", "rows,time,_"}, Inputs: 1, Masks: []string{"rows,time"},
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range losses(shapes.Loader(ragged{}), s) {
			if math.Abs(got-want[i]) > 1e-10 {
				t.Errorf("strategy %v, step %d: loss %.15g, want %.15g", s, i, got, want[i])
			}
		}
		if len(shapes.Programs()) != 2 {
			t.Errorf("programs: %q", shapes.Programs())
		}
	}
}

// timed is batches of four rows and of sequences of one length each.
type timed struct{}

func (timed) Len() int { return 3 }

func (timed) Batch(i int) ([]array.Array, error) {
	x, y := array.New(array.F64, 4, []int{3, 4, 6}[i], 5), array.New(array.F64, 4, 2)
	for k := range x.Len() {
		x.Set(k, math.Sin(float64(3*k+i)))
	}
	for k := range y.Len() {
		y.Set(k, math.Cos(float64(5*k-i)))
	}
	return []array.Array{x, y}, nil
}

// TestSequenceMask: a mask of the sequence alone, which has no rows, is the same for all micro-batches, also
// where it happens to be as long as there are rows.
func TestSequenceMask(t *testing.T) {
	losses := func(s *galley.Strategy) (list []float64) {
		d := galley.CPU(galley.Config{Threads: 1})
		defer d.Close()
		in := nn.NewInit(nn.Config{Scope: d.NewSession(), Seed: 3, DType: array.F64})
		up, head := nn.NewLinear(in.At("up"), 5, 6), nn.NewLinear(in.At("head"), 6, 2)
		m := galley.ModelFunc(in.Params(), func(x []*op.Tensor) []*op.Tensor {
			mask := op.Cast(op.Unsqueeze(x[1], 1), array.F64)
			h := op.Sum(op.Mul(op.Tanh(up.Forward(x[0])), mask), 1)
			return []*op.Tensor{head.Forward(op.Div(h, op.Sum(mask)))}
		})
		shapes, err := dynamic.New(dynamic.Config{Axes: []dynamic.Axis{{Name: "time", Buckets: []int{4, 8}}},
			In: []string{"_,time,_", "_,_"}, Inputs: 1, Masks: []string{"time"}})
		if err != nil {
			t.Fatal(err)
		}
		loader := shapes.Loader(timed{})
		static, err := galley.ToStatic(withInputs{m}, loader, galley.MeanSquares, optim.SGD{}, s)
		if err != nil {
			t.Fatal(err)
		}
		defer static.Close()
		for i := range loader.Len() {
			batch, err := loader.Batch(i)
			if err != nil {
				t.Fatal(err)
			}
			r, err := static.Run(context.Background(), batch...)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, r.Loss)
		}
		return list
	}
	want := losses(nil)
	for _, s := range []galley.Strategy{{Micro: 2}, {PP: 2, Micro: 4}, {DP: 2, Micro: 2, Zero: 3}} {
		for i, got := range losses(&s) {
			if !(math.Abs(got-want[i]) <= 1e-10) {
				t.Errorf("strategy %v, step %d: loss %.15g, want %.15g", s, i, got, want[i])
			}
		}
	}
}

// withInputs says that a batch's first two tensors are a model's.
type withInputs struct{ galley.Model }

func (withInputs) Inputs() int { return 2 }

func TestMistakes(t *testing.T) {
	time := []dynamic.Axis{{Name: "time", Buckets: []int{2, 4}}}
	for want, c := range map[string]dynamic.Config{
		"want rising sizes": {Axes: []dynamic.Axis{{Name: "time", Buckets: []int{4, 2}}},
			In: []string{"time"}},
		"buckets [] up to 0":          {Axes: []dynamic.Axis{{Name: "time"}}, In: []string{"time"}},
		"buckets [] up to -3":         {Axes: []dynamic.Axis{{Name: "time", Max: -3}}, In: []string{"time"}},
		`an axis called "_"`:          {Axes: []dynamic.Axis{{Name: "_", Max: 3}}},
		`two axes are called "time"`:  {Axes: append(time, time...), In: []string{"time"}},
		`has a dim "tim"`:             {Axes: time, In: []string{"tim"}},
		"no tensor of In has it":      {Axes: time, In: []string{"_"}},
		"want axes that vary":         {Axes: time, In: []string{"time"}, Masks: []string{"_"}},
		"at most -1 programs":         {Axes: time, In: []string{"time"}, Programs: -1},
		"masks behind 2 of 1 tensors": {Axes: time, In: []string{"time"}, Inputs: 2},
		"padding for 2 of 1 tensors":  {Axes: time, In: []string{"time"}, Fill: []float64{0, 0}},
	} {
		if _, err := dynamic.New(c); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	s, err := dynamic.New(dynamic.Config{Axes: time, In: []string{"time", "time"}, Programs: 1})
	if err != nil {
		t.Fatal(err)
	}
	f32 := func(n ...int) array.Array { return array.New(array.F32, n...) }
	if _, _, err := s.Pad([]array.Array{f32(2), f32(2)}); err != nil {
		t.Fatal(err)
	}
	for want, batch := range map[string][]array.Array{
		"got 1 tensors, want 2":                   {f32(2)},
		`is f32[2,2]: want dims "time"`:           {f32(2, 2), f32(2)},
		"tensor 1 is f32[1]: time is 2 in others": {f32(2), f32(1)},
		"the largest bucket is 4":                 {f32(5), f32(5)},
		"it would be program 2 of at most 1":      {f32(3), f32(3)},
	} {
		if _, _, err := s.Pad(batch); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
