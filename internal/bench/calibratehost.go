package bench

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/op"
)

// host measures one core: products on a grid, communication, and every op of training steps. keep is called
// with the results so far before the ops, and after each pass of them.
func (m *calibration) host(keep func(h *plan.Host, passes int) error) (*plan.Host, error) {
	one := &calibration{CalibrateConfig: m.CalibrateConfig, device: galley.CPU(galley.Config{Threads: 1})}
	defer one.device.Close()
	h := &plan.Host{Cores: runtime.GOMAXPROCS(0)}
	ops := func(h *plan.Host) error { return one.ops(h, func(passes int) error { return keep(h, passes) }) }
	for _, measure := range []func(*plan.Host) error{one.plain, one.grid, communication, crowd, ops} {
		if err := measure(h); err != nil {
			return nil, err
		}
	}
	m.say("a core: an op %.2f µs, memory %.1f GB/s, a collective %.1f µs, %.1f µs to wake up and %.1f GB/s, "+
		"a message %.1f µs; all cores at once take %.2f times as long",
		1e6*h.Start, h.Stream/1e9, 1e6*h.Meet, 1e6*h.Wake, h.Touch/1e9, 1e6*h.Message, h.Crowd)
	return h, nil
}

// plain measures an op that does nothing and one that only moves memory.
func (m *calibration) plain(h *plan.Host) error {
	start, err := m.node(oneNode(op.Neg, f32(1)))
	if err != nil {
		return err
	}
	n := 1 << 21
	stream, err := m.node(oneNode(func(x *op.Tensor) *op.Tensor { return op.Add(x, x) }, f32(n)))
	h.Start, h.Stream = round(start), round(8*float64(n)/stream)
	return err
}

// oneNode returns a program of one op on a parameter.
func oneNode(f func(x *op.Tensor) *op.Tensor, t op.Type) *ir.Node {
	b := ir.NewBuilder("node")
	p, err := b.Build(f(b.Param("x", t)))
	if err != nil {
		panic(err) // the types are our own
	}
	return p.Nodes()[0]
}

// hostSides are the sizes of the grid of products: the parts of tokens, heads and widths on one device are
// often small.
var hostSides = [...]int{16, 64, 256, 1024}

// grid measures in sweeps: other load is present for some time, not for all of them.
func (m *calibration) grid(h *plan.Host) error {
	sides := gridOf(hostSides[:])
	took := make([][]float64, len(sides))
	for sweep := range m.Passes {
		for i, s := range sides {
			m.tell("products on one thread", sweep*len(sides)+i, m.Passes*len(sides))
			b := ir.NewBuilder("product")
			p, err := b.Build(op.MatMul(b.Param("x", f32(s.M, s.K)), b.Param("y", f32(s.K, s.N))))
			if err != nil {
				return err
			}
			t, err := m.node(p.Nodes()[0])
			if err != nil {
				return err
			}
			took[i] = append(took[i], t)
		}
	}
	for i, s := range sides {
		t := middle(took[i])
		rate := round(2 * float64(s.M) * float64(s.N) * float64(s.K) / math.Max(t-h.Start, t/4))
		h.Rate = math.Max(h.Rate, rate)
		h.Products = append(h.Products, plan.HostProduct{M: s.M, N: s.N, K: s.K, Rate: rate})
	}
	return nil
}

// gridOf returns all products of some sides.
func gridOf(sides []int) []plan.Sides {
	var list []plan.Sides
	for _, m := range sides {
		for _, n := range sides {
			for _, k := range sides {
				list = append(list, plan.Sides{M: m, N: n, K: k})
			}
		}
	}
	return list
}

// middle returns the median.
func middle(list []float64) float64 { return slices.Sorted(slices.Values(list))[len(list)/2] }

// node returns the best seconds of a node alone, as in a program's run: the op with its operands
// ready.
func (m *calibration) node(n *ir.Node) (float64, error) {
	b := ir.NewBuilder("node")
	var params []*ir.Value
	for _, v := range n.In() {
		params = append(params, b.Param("", v.Type()))
	}
	f, err := b.Build(b.Apply(n.Op(), params)...)
	if err != nil {
		return 0, err
	}
	best := math.Inf(1)
	e, err := m.device.Compile(f, cpu.Options{NoFuse: true, Observe: func(_ *ir.Node,
		took time.Duration) {
		best = math.Min(best, took.Seconds())
	}})
	if err != nil {
		return 0, err
	}
	all, err := operands(e, f)
	if err != nil {
		return 0, err
	}
	for start, runs := time.Now(), 0; time.Since(start) < 5*time.Millisecond || runs < 6; runs++ {
		cpu, x := CPUSeconds(), all[runs%len(all)]
		if _, err := e.RunInto(x.args, x.into); err != nil {
			return 0, err
		}
		if worked := CPUSeconds() - cpu; worked > 1e-3 {
			best = math.Min(best, worked) // other programs interfere, and a long op is seldom undisturbed
		}
	}
	return best, nil
}

// operand holds the arrays of one run.
type operand struct{ args, into []array.Array }

// operandBytes is the memory that a training step accesses between two uses of a tensor, more than a core's
// caches hold.
const operandBytes = 64 << 20

// operands returns arrays for several runs in turn, so that an op does not find its operands in the
// cache.
func operands(e *cpu.Executable, f *ir.Func) (list []operand, err error) {
	bytes := 1
	for _, p := range f.Params() {
		bytes += p.Type().Bytes()
	}
	for range min(max(1, operandBytes/bytes), 16) {
		var x operand
		for i, p := range f.Params() {
			if len(list) > 0 {
				x.args = append(x.args, list[0].args[i].Clone())
			} else {
				x.args = append(x.args, filled(p.Type()))
			}
		}
		if x.into, err = e.Run(x.args); err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, nil
}

// filled returns an array of numbers between 1/4 and 1; integers, which are often indices, are 0.
func filled(t ir.Type) array.Array {
	a := array.New(t.DType, t.Shape...)
	if t.DType.IsFloat() {
		for i := range a.Len() {
			a.Set(i, 0.25+0.75*float64(uint32(i)*2654435761>>8)/(1<<24))
		}
	}
	return a
}

// crowd measures how much longer a product and a sum take on all cores at once than on one alone.
func crowd(h *plan.Host) error {
	if h.Crowd = 1; h.Cores == 1 {
		return nil
	}
	b := ir.NewBuilder("crowd")
	x := b.Param("x", f32(256, 256))
	f, err := b.Build(op.Add(op.MatMul(x, x), op.MatMul(op.Exp(x), x)))
	if err != nil {
		return err
	}
	var ratios []float64
	for range crowdPairs {
		alone, err := atOnce(1, f)
		if err != nil {
			return err
		}
		collectiveTime, err := atOnce(h.Cores, f)
		if err != nil {
			return err
		}
		ratios = append(ratios, collectiveTime/alone)
	}
	h.Crowd = round(math.Min(2, math.Max(1, middle(ratios))))
	return nil
}

// crowdPairs is how often one core alone is compared with all: on shared hardware results vary over
// time.
const crowdPairs = 31

// atOnce returns the processor seconds of some runs on each of n cores, without the time of other
// programs.
func atOnce(n int, f *ir.Func) (float64, error) {
	var ready, over sync.WaitGroup
	begin := make(chan struct{})
	errs := make([]error, n)
	for i := range n {
		d := galley.CPU(galley.Config{Threads: 1})
		defer d.Close()
		e, err := d.Compile(f, cpu.Options{NoFuse: true})
		if err != nil {
			return 0, err
		}
		args := []array.Array{filled(f.Params()[0].Type())}
		into, err := e.Run(args)
		if err != nil {
			return 0, err
		}
		ready.Add(1)
		over.Go(func() {
			ready.Done()
			<-begin
			for range 16 {
				if _, errs[i] = e.RunInto(args, into); errs[i] != nil {
					return
				}
			}
		})
	}
	ready.Wait()
	start := CPUSeconds()
	close(begin)
	over.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return (CPUSeconds() - start) / float64(n), nil
}
