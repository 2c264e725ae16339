package bench

import (
	"cmp"
	"maps"
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

// host measures one core: products on a grid, every op that training steps are made of, and what it takes to communicate.
func (m *calibration) host() (*plan.Host, error) {
	one := &calibration{CalibrateConfig: m.CalibrateConfig, device: galley.CPU(galley.Config{Threads: 1})}
	defer one.device.Close()
	h := &plan.Host{Cores: runtime.GOMAXPROCS(0)}
	for _, measure := range []func(*plan.Host) error{one.plain, one.grid, one.ops, communication, crowd} {
		if err := measure(h); err != nil {
			return nil, err
		}
	}
	m.say("a core: an op %.2f µs, memory %.1f GB/s, a collective %.1f µs, %.1f µs to wake up and %.1f GB/s, a message %.1f µs; all cores at once take %.2f times as long",
		1e6*h.Start, h.Stream/1e9, 1e6*h.Meet, 1e6*h.Wake, h.Touch/1e9, 1e6*h.Message, h.Crowd)
	return h, nil
}

// plain measures an op that does nothing and one that does nothing but move memory.
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

// oneNode is a program of one op on a parameter.
func oneNode(f func(x *op.Tensor) *op.Tensor, t op.Type) *ir.Node {
	b := ir.NewBuilder("node")
	p, err := b.Build(f(b.Param("x", t)))
	if err != nil {
		panic(err) // the types are our own
	}
	return p.Nodes()[0]
}

// hostSides are those of the grid of products: what is left of tokens, heads and widths on one device is often small.
var hostSides = [...]int{16, 64, 256, 1024}

func (m *calibration) grid(h *plan.Host) error {
	for _, rows := range hostSides {
		for _, n := range hostSides {
			for _, k := range hostSides {
				b := ir.NewBuilder("product")
				p, err := b.Build(op.MatMul(b.Param("x", f32(rows, k)), b.Param("y", f32(k, n))))
				if err != nil {
					return err
				}
				t, err := m.node(p.Nodes()[0])
				if err != nil {
					return err
				}
				rate := round(2 * float64(rows) * float64(n) * float64(k) / math.Max(t-h.Start, t/4))
				h.Rate = math.Max(h.Rate, rate)
				h.Products = append(h.Products, plan.HostProduct{M: rows, N: n, K: k, Rate: rate})
			}
		}
	}
	return nil
}

// node is the best seconds of a node alone, as a program's run sees them: the op with its operands at hand.
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
	e, err := m.device.Compile(f, cpu.Options{Observe: func(_ *ir.Node, took time.Duration) { best = math.Min(best, took.Seconds()) }})
	if err != nil {
		return 0, err
	}
	all, err := operands(e, f)
	if err != nil {
		return 0, err
	}
	for start, runs := time.Now(), 0; time.Since(start) < 8*time.Millisecond || runs < 6; runs++ {
		cpu, x := CPUSeconds(), all[runs%len(all)]
		if _, err := e.RunInto(x.args, x.into); err != nil {
			return 0, err
		}
		if worked := CPUSeconds() - cpu; worked > 1e-3 {
			best = math.Min(best, worked) // others use the machine, too, and a long op is seldom left alone
		}
	}
	return best, nil
}

// operand is the arrays of one run.
type operand struct{ args, into []array.Array }

// operandBytes is what a training step walks through between two uses of a tensor, more than the caches next to a core hold.
const operandBytes = 64 << 20

// operands is arrays for several runs in turn, so that an op does not find its operands where the run before left them.
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

// filled is an array of numbers between 1/4 and 1; integers, which are often indices, are 0.
func filled(t ir.Type) array.Array {
	a := array.New(t.DType, t.Shape...)
	if t.DType.IsFloat() {
		for i := range a.Len() {
			a.Set(i, 0.25+0.75*float64(uint32(i)*2654435761>>8)/(1<<24))
		}
	}
	return a
}

// opSamples is how many sizes and shapes of an op are measured at most.
const opSamples = 9

// ops measures the ops of training steps one by one: whatever the programs of some models' devices are made of, in several sizes.
func (m *calibration) ops(h *plan.Host) error {
	nodes := map[string][]*ir.Node{}
	for _, s := range hostSteps() {
		programs, err := m.programs(s)
		if err != nil {
			return err
		}
		for _, f := range programs {
			for _, n := range f.Nodes() {
				if _, ok := n.Op().(op.Messenger); !ok && sizeOf(n) > 0 {
					nodes[n.Op().Name()] = append(nodes[n.Op().Name()], n)
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		o, err := m.op(h, name, spread(nodes[name]))
		if err != nil {
			m.say("%s: not measured: %v", name, err)
			continue
		}
		h.Ops = append(h.Ops, o)
	}
	return nil
}

// sizeOf is the operations and bytes of a node together.
func sizeOf(n *ir.Node) float64 { w := plan.WorkOf(n); return w.Flops + w.Bytes }

// spread is some of the nodes, by work: no two of nearly the same work, operations for each byte included.
func spread(nodes []*ir.Node) []*ir.Node {
	slices.SortStableFunc(nodes, func(a, b *ir.Node) int { return cmp.Compare(sizeOf(a), sizeOf(b)) })
	type cell struct{ size, intensity float64 }
	seen := map[cell]bool{}
	var all []*ir.Node
	for _, n := range nodes {
		w := plan.WorkOf(n)
		c := cell{math.Round(math.Log2(sizeOf(n))), math.Round(math.Log2(w.Flops/(w.Bytes+1) + 1))}
		if !seen[c] {
			seen[c] = true
			all = append(all, n)
		}
	}
	if len(all) <= opSamples {
		return all
	}
	var some []*ir.Node
	for i := range opSamples {
		some = append(some, all[i*(len(all)-1)/(opSamples-1)])
	}
	return some
}

// op measures an op's nodes: a product's against the grid, any other's by work.
func (m *calibration) op(h *plan.Host, name string, nodes []*ir.Node) (plan.HostOp, error) {
	o := plan.HostOp{Op: name}
	var factors []float64
	for _, n := range nodes {
		measure := m.node
		if _, ok := n.Op().(op.Collective); ok {
			measure = exchange
		}
		t, err := measure(n)
		if err != nil {
			return o, err
		}
		if batch, rows, columns, terms, ok := plan.ProductOf(n); ok {
			factors = append(factors, (t-math.Min(h.Start, t/2))/h.Product(batch, rows, columns, terms))
			continue
		}
		w := plan.WorkOf(n)
		o.Points = append(o.Points, plan.HostPoint{Flops: round(w.Flops), Bytes: round(w.Bytes), Seconds: round(t)})
	}
	if factors != nil {
		slices.Sort(factors)
		o.Factor = round(factors[len(factors)/2])
	}
	m.say("%s: %v %v", name, o.Factor, o.Points)
	return o, nil
}

// hostStep is a model and a way to split it whose programs' ops are measured. It is not run.
type hostStep struct {
	StepConfig
	s galley.Strategy
}

// hostSteps are small and large models, with short and long sequences, of both kinds, split in the ways that bring ops of their own.
func hostSteps() []hostStep {
	var list []hostStep
	for _, model := range []string{"gpt2", "llama"} {
		small := StepConfig{Model: model, Layers: 2, Dim: 64, Heads: 4, Seq: 64, Batch: 2, Vocab: 512}
		large := StepConfig{Model: model, Layers: 2, Dim: 256, Heads: 8, Seq: 256, Batch: 4, Vocab: 4096}
		short := StepConfig{Model: model, Layers: 1, Dim: 128, Heads: 4, Seq: 32, Batch: 16, Vocab: 512}
		for _, c := range []StepConfig{small, short, large} {
			for _, s := range []galley.Strategy{{Micro: 2}, {TP: 2, Sequence: true}, {CP: 2}, {CP: 2, Context: "ulysses"}, {DP: 2, Zero: 3}} {
				list = append(list, hostStep{c, s})
			}
		}
	}
	return list
}

func (m *calibration) programs(s hostStep) ([]*ir.Func, error) {
	t, _, err := s.trainer(m.device, &s.s)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	batch := galley.Type{DType: array.I32, Shape: array.Shape{s.Batch, s.Seq}}
	return t.Programs(batch, batch)
}

// crowd is how much longer a product and a sum take on every core at once than on one alone.
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
	least := [2]float64{math.Inf(1), math.Inf(1)}
	for range 5 {
		for i, n := range []int{1, h.Cores} {
			t, err := atOnce(n, f)
			if err != nil {
				return err
			}
			least[i] = math.Min(least[i], t)
		}
	}
	h.Crowd = round(math.Min(2, math.Max(1, least[1]/least[0])))
	return nil
}

// atOnce is the processor's seconds of a hundred runs on each of so many cores: what other programs take does not count.
func atOnce(n int, f *ir.Func) (float64, error) {
	var ready, over sync.WaitGroup
	begin := make(chan struct{})
	errs := make([]error, n)
	for i := range n {
		d := galley.CPU(galley.Config{Threads: 1})
		defer d.Close()
		e, err := d.Compile(f, cpu.Options{})
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
			for range 100 {
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
