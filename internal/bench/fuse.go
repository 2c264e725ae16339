package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/op"
)

// FuseConfig is a function written in primitive ops, and the rows and columns of its operands.
type FuseConfig struct {
	Op         string
	Rows, Cols int
	Grad       bool
	Threads    int
	Runs       int
}

// FuseResult is the best times: op by op, as fused loops, and by the hand-written op for it; also the time in
// which a copy moves as many bytes as the loops' operands and results have.
type FuseResult struct {
	Op       string  `json:"op"`
	Rows     int     `json:"rows"`
	Cols     int     `json:"cols"`
	Grad     bool    `json:"grad"`
	Threads  int     `json:"threads"`
	ApartMS  float64 `json:"apart_ms"`
	FusedMS  float64 `json:"fused_ms"`
	HandMS   float64 `json:"hand_ms,omitempty"`
	BoundMS  float64 `json:"bound_ms"`
	Loops    int     `json:"loops"`
	Nodes    int     `json:"nodes"`
	FusedGBs float64 `json:"fused_gb_s"`
	// Allowed is the factor by which loops move fewer bytes than op by op: the gain if only memory matters.
	Allowed float64 `json:"allowed"`
}

// String prints the result in a line.
func (r FuseResult) String() string {
	name := r.Op
	if r.Grad {
		name += " with gradient"
	}
	hand := ""
	if r.HandMS > 0 {
		hand = fmt.Sprintf("; by hand %.2f ms (%.2fx of it)", r.HandMS, r.FusedMS/r.HandMS)
	}
	return fmt.Sprintf(
		"%s [%d,%d], %d thread(s): op by op %.2f ms, loops %.2f ms: %.2fx%s; %.1f GB/s, a copy takes %.2f ms; "+
			"%d op(s) in place of %d, bytes allow %.2fx",
		name,
		r.Rows,
		r.Cols,
		r.Threads,
		r.ApartMS,
		r.FusedMS,
		r.ApartMS/r.FusedMS,
		hand,
		r.FusedGBs,
		r.BoundMS,
		r.Loops,
		r.Nodes,
		r.Allowed,
	)
}

// subject is a function in primitive ops and the same as one op, if there is one.
type subject struct {
	in    func(rows, cols int) []op.Type
	apart func(in []*op.Tensor) []*op.Tensor
	hand  func(in []*op.Tensor) []*op.Tensor
	wrt   int // number of operands to differentiate by; 0 means no gradient
}

// FuseOps returns the names of the functions.
func FuseOps() []string {
	return []string{"rmsnorm", "layernorm", "softmax", "gelu", "swiglu", "adamw", "crossentropy", "rope"}
}

func subjects() map[string]subject {
	matrix := func(n int) func(rows, cols int) []op.Type {
		return func(rows, cols int) []op.Type { return slices.Repeat([]op.Type{f32(rows, cols)}, n) }
	}
	one := func(f func(x *op.Tensor) *op.Tensor) func(in []*op.Tensor) []*op.Tensor {
		return func(in []*op.Tensor) []*op.Tensor { return []*op.Tensor{f(in[0])} }
	}
	return map[string]subject{
		"rmsnorm":   {withWeights(1), rmsNormUnfused, rmsNormHand, 2},
		"layernorm": {withWeights(2), layerNormUnfused, layerNormHand, 3},
		"softmax": {
			matrix(1),
			one(softmaxUnfused),
			one(func(x *op.Tensor) *op.Tensor { return op.Softmax(x, -1) }),
			1,
		},
		"gelu": {
			matrix(1),
			one(geluUnfused),
			one(func(x *op.Tensor) *op.Tensor { return op.GELU(x, "tanh") }),
			1,
		},
		"swiglu": {matrix(2), func(in []*op.Tensor) []*op.Tensor {
			return []*op.Tensor{op.Mul(op.Mul(in[0], op.Sigmoid(in[0])), in[1])}
		}, func(in []*op.Tensor) []*op.Tensor { return []*op.Tensor{op.SwiGLU(in[0], in[1])} }, 2},
		"adamw":        {matrix(4), adamUnfused, adamHand, 0},
		"crossentropy": {matrix(2), crossEntropyUnfused, nil, 1},
		"rope":         {ropeIn, ropeUnfused, nil, 1},
	}
}

// withWeights returns a matrix and n vectors of a weight for each column.
func withWeights(n int) func(rows, cols int) []op.Type {
	return func(rows, cols int) []op.Type {
		return append([]op.Type{f32(rows, cols)}, slices.Repeat([]op.Type{f32(cols)}, n)...)
	}
}

func rmsNormUnfused(in []*op.Tensor) []*op.Tensor {
	x := in[0]
	scale := op.Rsqrt(op.AddScalar(op.KeepDims(op.Mean(op.Square(x), -1), x, -1), 1e-6))
	return []*op.Tensor{op.Mul(op.Mul(x, scale), in[1])}
}

func rmsNormHand(in []*op.Tensor) []*op.Tensor { return []*op.Tensor{op.RMSNorm(in[0], in[1], 1e-6)} }

func layerNormUnfused(in []*op.Tensor) []*op.Tensor {
	x := in[0]
	d := op.Sub(x, op.KeepDims(op.Mean(x, -1), x, -1))
	scale := op.Rsqrt(op.AddScalar(op.KeepDims(op.Mean(op.Square(d), -1), x, -1), 1e-5))
	return []*op.Tensor{op.Add(op.Mul(op.Mul(d, scale), in[1]), in[2])}
}

func layerNormHand(in []*op.Tensor) []*op.Tensor {
	return []*op.Tensor{op.LayerNorm(in[0], in[1], in[2], 1e-5)}
}

func softmaxUnfused(x *op.Tensor) *op.Tensor {
	e := op.Exp(op.Sub(x, op.StopGradient(op.KeepDims(op.AMax(x, -1), x, -1))))
	return op.Div(e, op.KeepDims(op.Sum(e, -1), x, -1))
}

func geluUnfused(x *op.Tensor) *op.Tensor {
	cubic := op.Add(x, op.MulScalar(op.Mul(op.Mul(x, x), x), 0.044715))
	t := op.Tanh(op.MulScalar(cubic, math.Sqrt(2/math.Pi)))
	return op.Mul(op.MulScalar(x, 0.5), op.AddScalar(t, 1))
}

// crossEntropyUnfused returns the mean over rows of the cross-entropy between given probabilities and the
// softmax of logits.
func crossEntropyUnfused(in []*op.Tensor) []*op.Tensor {
	x, shares := in[0], in[1]
	top := op.StopGradient(op.KeepDims(op.AMax(x, -1), x, -1))
	d := op.Sub(x, top)
	lse := op.Log(op.KeepDims(op.Sum(op.Exp(d), -1), x, -1))
	return []*op.Tensor{op.Mean(op.Neg(op.Sum(op.Mul(shares, op.Sub(d, lse)), -1)))}
}

const adamB1, adamB2, adamEps, adamDecay, adamLR = 0.9, 0.999, 1e-8, 0.01, 1e-3

func adamUnfused(in []*op.Tensor) []*op.Tensor {
	w, g, m, v := in[0], in[1], in[2], in[3]
	m = op.Add(op.MulScalar(m, adamB1), op.MulScalar(g, 1-adamB1))
	v = op.Add(op.MulScalar(v, adamB2), op.MulScalar(op.Square(g), 1-adamB2))
	mh, vh := op.MulScalar(m, 1/(1-adamB1)), op.MulScalar(v, 1/(1-adamB2))
	step := op.Div(mh, op.AddScalar(op.Sqrt(op.Abs(vh)), adamEps))
	return []*op.Tensor{op.Sub(w, op.MulScalar(op.Add(step, op.MulScalar(w, adamDecay)), adamLR)), m, v}
}

func adamHand(in []*op.Tensor) []*op.Tensor {
	s := op.AdamState{Param: in[0], Grad: in[1], M: in[2], V: in[3], LR: op.Const(in[0], adamLR),
		Step: op.Const(in[0], 1), GradScale: op.Const(in[0], 1)}
	p, m, v := op.AdamW(s, op.AdamConfig{Beta1: adamB1, Beta2: adamB2, Eps: adamEps, WeightDecay: adamDecay})
	return []*op.Tensor{p, m, v}
}

// ropeIn returns heads of 128 columns, and the cosines and sines of half as many.
func ropeIn(rows, cols int) []op.Type {
	half := min(cols, 128) / 2
	heads := max(1, cols/(2*half))
	return []op.Type{f32(rows, heads, 2*half), f32(rows, 1, half), f32(rows, 1, half)}
}

func ropeUnfused(in []*op.Tensor) []*op.Tensor {
	x, cos, sin := in[0], in[1], in[2]
	half := x.Dim(-1) / 2
	parts := op.Split(x, -1, half, half)
	a, b := parts[0], parts[1]
	return []*op.Tensor{op.Concat([]*op.Tensor{op.Sub(op.Mul(a, cos), op.Mul(b, sin)),
		op.Add(op.Mul(b, cos), op.Mul(a, sin))}, -1)}
}

// Fuse times a function in all its variants, in turns, and keeps the best of each.
func Fuse(c FuseConfig) (FuseResult, error) {
	s, ok := subjects()[c.Op]
	if !ok {
		return FuseResult{}, fmt.Errorf("op %q: want one of %s", c.Op, strings.Join(FuseOps(), ", "))
	}
	if c.Grad && s.wrt == 0 {
		return FuseResult{}, fmt.Errorf("op %q: it has no gradient", c.Op)
	}
	d := galley.CPU(galley.Config{Threads: c.Threads})
	defer d.Close()
	apart, err := s.compile(d, c, s.apart, galley.Options{NoFuse: true})
	if err != nil {
		return FuseResult{}, err
	}
	fused, err := s.compile(d, c, s.apart, galley.Options{})
	if err != nil {
		return FuseResult{}, err
	}
	ways := []*cpu.Executable{apart, fused}
	if s.hand != nil {
		hand, err := s.compile(d, c, s.hand, galley.Options{NoFuse: true})
		if err != nil {
			return FuseResult{}, err
		}
		ways = append(ways, hand)
	}
	best, args, err := inTurns(d, ways, c.Runs)
	if err != nil {
		return FuseResult{}, err
	}
	r := FuseResult{Op: c.Op, Rows: c.Rows, Cols: c.Cols, Grad: c.Grad, Threads: d.Threads(), ApartMS: best[0],
		FusedMS: best[1], Loops: countNodes(fused), Nodes: countNodes(apart), Allowed: moved(apart) / moved(fused)}
	if s.hand != nil {
		r.HandMS = best[2]
	}
	bytes := 0
	for _, a := range args {
		bytes += len(a.Bytes())
	}
	for _, v := range fused.Func().Results() {
		bytes += v.Type().Bytes()
	}
	r.FusedGBs = float64(bytes) / r.FusedMS / 1e6
	r.BoundMS, err = copyTime(d, bytes, c.Runs)
	return r, err
}

// compile traces a function, with its gradient if requested.
func (s subject) compile(d *galley.Device, c FuseConfig, f func(in []*op.Tensor) []*op.Tensor,
	o galley.Options) (*cpu.Executable, error) {
	in := s.in(c.Rows, c.Cols)
	y, err := galley.Trace(c.Op, in, f)
	if err != nil {
		return nil, err
	}
	types := slices.Clone(in)
	if c.Grad {
		types = append(types, y.Results()[0].Type())
	}
	p, err := galley.Trace(c.Op, types, func(in []*op.Tensor) []*op.Tensor {
		out := f(in[:len(in)-len(types)+len(s.in(c.Rows, c.Cols))])
		if c.Grad {
			out = append(out, op.Grad(out[:1], in[len(in)-1:], in[:s.wrt])...)
		}
		return out
	})
	if err != nil {
		return nil, err
	}
	return galley.Compile(d, p, o)
}

// inTurns runs executables with the same parameters one after the other, runs times, and returns the best
// milliseconds of each.
func inTurns(d *galley.Device, ways []*cpu.Executable, runs int) ([]float64, []array.Array, error) {
	var args []array.Array
	for i, p := range ways[0].Func().Params() {
		args = append(args, random(d, p.Type(), uint64(i+1)))
	}
	into := make([][]array.Array, len(ways))
	best := slices.Repeat([]float64{math.Inf(1)}, len(ways))
	for i, e := range ways {
		var err error
		if into[i], err = e.Run(args); err != nil {
			return nil, nil, err
		}
	}
	for range runs {
		for i, e := range ways {
			// Each also runs after itself: otherwise the cache contents that another left would favour one of them.
			for range 4 {
				ms, err := worked(d.Threads(), func() error { _, err := e.RunInto(args, into[i]); return err })
				if err != nil {
					return nil, nil, err
				}
				best[i] = min(best[i], ms)
			}
		}
	}
	return best, args, nil
}

// worked returns the milliseconds of f: processor time if there is one thread, so that other load does not
// count, else elapsed time.
func worked(threads int, f func() error) (float64, error) {
	start, cpu := time.Now(), CPUSeconds()
	err := f()
	if used := 1e3 * (CPUSeconds() - cpu); threads == 1 && used > 0 {
		return used, err
	}
	return milliseconds(time.Since(start)), err
}

// copyTime returns the best milliseconds of one kernel that reads and writes bytes bytes together.
func copyTime(d *galley.Device, bytes, runs int) (float64, error) {
	p, err := galley.Trace("copy", []op.Type{f32(max(1, bytes/8))}, func(in []*op.Tensor) []*op.Tensor {
		return []*op.Tensor{op.Neg(in[0])}
	})
	if err != nil {
		return 0, err
	}
	e, err := galley.Compile(d, p, galley.Options{NoFuse: true})
	if err != nil {
		return 0, err
	}
	best, _, err := inTurns(d, []*cpu.Executable{e}, runs)
	if err != nil {
		return 0, err
	}
	return best[0], nil
}

// moved returns the bytes that the nodes of a program read and write.
func moved(e *cpu.Executable) float64 {
	total := 0.0
	for _, n := range e.Func().Nodes() {
		if _, alias := n.Op().(op.Aliaser); alias {
			continue
		}
		for _, v := range slices.Concat(n.In(), n.Out()) {
			total += float64(v.Type().Bytes())
		}
	}
	return total
}

// countNodes returns the number of nodes that compute: all but reshapes.
func countNodes(e *cpu.Executable) int {
	n := 0
	for _, x := range e.Func().Nodes() {
		if _, alias := x.Op().(op.Aliaser); !alias {
			n++
		}
	}
	return n
}
