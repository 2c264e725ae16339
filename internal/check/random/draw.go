package random

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/strategy"
)

// Case is a model, a strategy and batches, all drawn at random.
type Case struct {
	Seed     uint64
	Shape    shape
	Strategy galley.Strategy
	Batches  [][]array.Array
	// Annotations are the layouts of parameters on the tensor axis.
	Annotations []galley.Annotation
}

// shape describes a random model.
type shape struct {
	Kind   string // mlp, conv or attention
	DType  array.DType
	Rows   int
	Width  int
	Seq    int
	Layers int
	Class  int
	// Skips holds by layer the earlier layer whose result it also reads, -1 for none; Stops whether its gradient
	// is stopped.
	Skips []int
	Stops []bool
	// Tied holds by layer the layer whose weights it shares.
	Tied []int
	// Frozen is the number of first parameters that are not trained.
	Frozen  int
	Dropout float64
	Loss    string
	// Scalar adds a number to the batch that multiplies logits; Captured a captured tensor that does.
	Scalar, Captured bool
	// Norm adds batch normalization after each layer, Twins two vectors that are added after it: their gradients
	// are one value.
	Norm, Twins bool
}

// String returns the case in one line.
func (c Case) String() string {
	return fmt.Sprintf("seed %d: %s: %+v", c.Seed, c.Strategy, c.Shape)
}

// Draw returns the case for a seed.
func Draw(seed uint64) Case {
	r := rand.New(rand.NewPCG(21, seed))
	c := Case{Seed: seed, Shape: drawShape(r)}
	c.Strategy = drawStrategy(r, &c.Shape)
	more := rand.New(rand.NewPCG(22, seed)) // separate, so that later additions keep the other draws of a seed
	c.Shape.drawNorm(more, c.Strategy)
	c.Shape.Twins = more.IntN(4) == 0
	if c.Strategy.TP > 1 {
		c.Annotations = annotations(r, c.Shape)
	}
	for step := range 2 {
		c.Batches = append(c.Batches, c.Shape.batch(step))
	}
	return c
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func drawShape(r *rand.Rand) shape {
	s := shape{
		Kind: pick(r, "mlp", "mlp", "conv", "attention"), DType: pick(r, array.F64, array.F64, array.F64,
			array.F32), Rows: 1 + r.IntN(9),
		Width: pick(r, 3, 4, 6, 7, 8), Seq: 2 + r.IntN(6), Layers: 1 + r.IntN(5), Class: 2 + r.IntN(5),
		Loss: losses[r.IntN(len(losses))].name, Scalar: r.IntN(5) == 0, Captured: r.IntN(5) == 0,
	}
	if s.Kind == "attention" {
		s.Width = pick(r, 4, 6, 8) // two heads
	}
	if r.IntN(4) == 0 {
		s.Dropout = 0.3
	}
	for i := range s.Layers {
		skip, tied := -1, i
		if i > 0 && r.IntN(3) == 0 {
			skip = r.IntN(i)
		}
		if i > 0 && r.IntN(6) == 0 {
			tied = r.IntN(i)
		}
		s.Skips, s.Stops, s.Tied = append(s.Skips, skip), append(s.Stops, r.IntN(3) == 0), append(s.Tied, tied)
	}
	if r.IntN(5) == 0 {
		s.Frozen = 1 + r.IntN(2)
	}
	return s
}

// drawStrategy draws a strategy that is valid for a model: an error about it is a bug.
func drawStrategy(r *rand.Rand, s *shape) galley.Strategy {
	x := galley.Strategy{
		DP: pick(r, 1, 1, 2, 3, 4), TP: pick(r, 1, 1, 2, 3), PP: min(s.Layers, pick(r, 1, 1, 2, 3)), Micro: pick(r,
			1, 1, 2, 3, 5),
		Overlap: pick(r, strategy.Auto, strategy.On),
		Recompute: pick[strategy.Recompute](r, "none", "none", "selective", "full", "full:1",
			"selective:1"), Offload: pick(r, strategy.Offload{}, strategy.Offload{}, strategy.Offload{Optimizer: 1},
			strategy.Offload{Optimizer: 0.5}, strategy.Offload{Activations: 0.5, Parameters: 1},
			strategy.Offload{Activations: 1, Optimizer: 0.3, Parameters: 0.4}),
	}
	if s.Kind == "attention" {
		x.CP, x.Context = pick(r, 1, 1, 2), pick(r, "ring", "ulysses", "gather")
		x.Sequence = x.TP > 1 && r.IntN(3) == 0
	}
	if x.DP*max(1, x.CP) > 1 {
		x.Zero = r.IntN(4)
	}
	x.Bucket, x.Host = pick(r, 0, 0, 1, 300, 1<<20), pick(r, 0, 0, 2, 4)
	if x.DP == 4 && x.Zero > 0 {
		x.Shard = pick(r, 0, 2*max(1, x.CP))
	}
	x.Schedule = pick(r, "fthenb", "1f1b", "interleaved", "zbh1", "zbv", "dualpipev")

	switch x.Schedule {
	case "interleaved":
		if x.VPP = 2; 2*x.PP > s.Layers {
			x.VPP = 1
		}
	case "zbv", "dualpipev":
		if 2*x.PP > s.Layers {
			x.Schedule = "1f1b"
		}
	}
	if x.PP == 1 {
		x.Schedule, x.VPP = "1f1b", 0
	}
	x.Micro = max(x.Micro, least(x))
	s.Rows = max(s.Rows, x.Micro)
	if s.DType == array.F32 && r.IntN(3) == 0 {
		x.AMP = "bf16"
	}
	return x
}

// drawNorm draws whether batches are normalized. That needs at least two rows for a variance; in 16 bits
// their differences may be rounding errors only.
func (s *shape) drawNorm(r *rand.Rand, x galley.Strategy) {
	if s.Norm = r.IntN(4) == 0 && s.Kind != "attention" && x.AMP == ""; s.Norm && s.Kind == "mlp" {
		s.Rows = max(s.Rows, 3*x.Micro)
	}
}

// least returns the fewest micro-batches that a schedule supports.
func least(x galley.Strategy) int {
	switch {
	case x.PP == 1:
		return 1
	case x.Schedule == "dualpipev":
		return 2 * x.PP
	}
	return x.PP
}

// batch returns the inputs, the labels and, if requested, a scalar.
func (s shape) batch(step int) []array.Array {
	shapes := map[string][]int{"mlp": {s.Rows, s.Width}, "conv": {s.Rows, s.Width, 4, 5},
		"attention": {s.Rows, s.Seq, s.Width}}
	x := array.New(s.DType, shapes[s.Kind]...)
	for i := range x.Len() {
		x.Set(i, math.Sin(float64(step*37+i*7)))
	}
	y := array.New(array.I32, s.labels()...)
	for i := range y.Len() {
		y.Set(i, float64((i*5+step)%s.Class))
		if i%4 == 1 {
			y.Set(i, -100)
		}
	}
	batch := []array.Array{x, y}
	if s.Scalar {
		k := array.New(s.DType)
		k.Set(0, 0.5+float64(step))
		batch = append(batch, k)
	}
	return batch
}

func (s shape) labels() []int {
	if s.Kind == "attention" {
		return []int{s.Rows, s.Seq}
	}
	return []int{s.Rows}
}

// annotations splits some matrices over the tensor axis, at least the first: by their rows or columns, evenly
// or not.
func annotations(r *rand.Rand, s shape) []galley.Annotation {
	var list []galley.Annotation
	for i := range s.Layers {
		if s.Tied[i] != i || i > s.firstTrained() && r.IntN(4) == 0 {
			continue
		}
		spec := pick(r, "@[tp,_]", "@[_,tp]")
		if s.Kind == "conv" {
			spec = pick(r, "@[tp,_,_,_]", "@[_,tp,_,_]")
		}
		a, err := mesh.ParseAnnotation(fmt.Sprintf("%d.weight=%s", i, spec))
		if err != nil {
			panic(err)
		}
		if i >= s.firstTrained() {
			list = append(list, a)
		}
	}
	head, err := mesh.ParseAnnotation("head.weight=" + pick(r, "@[tp,_]", "@[_,tp]"))
	if err != nil {
		panic(err)
	}
	return append(list, head)
}

// firstTrained returns the first layer whose parameters are trained: each has a matrix and a bias.
func (s shape) firstTrained() int { return (s.Frozen + 1) / 2 }
