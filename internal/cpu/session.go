package cpu

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/op"
)

// Config selects the host's resources to use.
type Config struct {
	// Threads is the number of threads that kernels share; 0 means all cores.
	Threads int
}

// Device is the host as a compute device: its threads.
type Device struct {
	pool  *kernel.Pool
	comm  comm.Comm
	watch func(n *ir.Node, took time.Duration)
	// at is the node of a compiled program that is running.
	at *atomic.Pointer[ir.Node]
	// detect stops a computation at the first op that produces a NaN.
	detect bool
}

// NewDevice starts the threads; Close stops them.
func NewDevice(c Config) *Device {
	return &Device{pool: kernel.NewPool(c.Threads), at: new(atomic.Pointer[ir.Node])}
}

// RunningOp returns the node of a compiled program that the device is running, nil between programs: where a
// stuck run hangs.
func (d *Device) RunningOp() *ir.Node { return d.at.Load() }

// In returns the same device as part of a world, with c as its Comm: ops on the tensors of its sessions may
// be collectives.
func (d *Device) In(c comm.Comm) *Device {
	return &Device{pool: d.pool, comm: c, at: d.at, detect: d.detect}
}

// Watched returns the same device, which calls f with the time of each node of programs that RunOver runs on
// it.
func (d *Device) Watched(f func(n *ir.Node, took time.Duration)) *Device {
	return &Device{pool: d.pool, comm: d.comm, watch: f, at: d.at, detect: d.detect}
}

// Close stops the device's threads.
func (d *Device) Close() { d.pool.Close() }

// Threads returns the number of threads.
func (d *Device) Threads() int { return d.pool.Threads() }

func (d *Device) env() *op.Env { return &op.Env{Pool: d.pool, Comm: d.comm} }

// Session is the scope of eager tensors: an op on them runs at once. It may be used by one goroutine at a
// time for each tensor graph; the device's threads are shared.
type Session struct {
	Modes
	device *Device
	seq    atomic.Int64
}

// NewSession makes a scope whose ops run on d.
func (d *Device) NewSession() *Session { return &Session{device: d} }

// Tensor returns a's data as an eager tensor, shared: a must not be changed afterwards.
func (s *Session) Tensor(a array.Array) *op.Tensor { return ir.Leaf(s, ir.TypeOf(a), a) }

// Read returns the data of an eager tensor, shared.
func Read(x *op.Tensor) (array.Array, error) {
	if err := x.Err(); err != nil {
		return array.Array{}, err
	}
	a, ok := x.Store().(array.Array)
	if !ok {
		return array.Array{}, fmt.Errorf("tensor %v: it is traced: it has no data until its program runs", x)
	}
	return a, nil
}

// Apply runs o now. Results record how they were computed only if an operand is tracked.
func (s *Session) Apply(o ir.Op, in []*ir.Value) []*ir.Value { return s.Modes.Apply(o, in, s.apply) }

// Backward differentiates a tensor of the session: gradients are added to the tracked tensors that y was
// computed from.
func (s *Session) Backward(y *ir.Value) error { return s.BackwardOf(y) }

func (s *Session) apply(o ir.Op, in []*ir.Value) []*ir.Value {
	types, arrays, tracked, err := operands(in)
	if err != nil {
		return ir.InvalidResults(s, o, len(in), err)
	}
	outTypes, err := ir.Infer(o, types)
	if err != nil {
		return ir.InvalidResults(s, o, len(in), &ir.Error{Pos: ir.Caller(), Op: o.Name(), Err: err})
	}
	results, err := s.device.Compute(o.(op.Op), arrays, outTypes)
	if err == nil && s.device.detect {
		err = checkNewNaN(arrays, results)
	}
	if err != nil {
		return ir.InvalidResults(s, o, len(in), &ir.Error{Pos: ir.Caller(), Op: o.Name(), Err: err})
	}
	out := make([]*ir.Value, len(results))
	for i, a := range results {
		out[i] = ir.Leaf(s, outTypes[i], a)
	}
	if tracked {
		ir.Record(o, in, out, int(s.seq.Add(1)))
	}
	return out
}

// Compute runs one op on arrays of checked types, into new memory or, for an alias, its operand's.
func (d *Device) Compute(o op.Op, in []array.Array, types []ir.Type) (out []array.Array, err error) {
	if _, ok := o.(op.Aliaser); ok {
		return []array.Array{array.View(types[0].DType, types[0].Shape, in[0].Bytes())}, nil
	}
	defer recoverIndex(&err)
	out = make([]array.Array, len(types))
	for i, t := range types {
		if t.Bytes() >= array.MaxBytes {
			return nil, fmt.Errorf("result %d is %v: got %d bytes, want fewer than %d", i, t, t.Bytes(),
				array.MaxBytes)
		}
		out[i] = array.New(t.DType, t.Shape...)
	}
	op.Run(d.env(), o, in, out)
	return out, nil
}

// recoverIndex turns the panic of an index out of range, the one error of data that kernels detect, and of a
// failed collective into an error. Other panics are bugs and continue.
func recoverIndex(err *error) {
	switch what := recover().(type) {
	case nil:
	case *op.IndexError:
		*err = what
	case *op.CommError:
		*err = what
	case *op.PieceError:
		*err = what
	default:
		panic(what)
	}
}

func operands(in []*ir.Value) (types []ir.Type, arrays []array.Array, tracked bool, err error) {
	types, arrays = make([]ir.Type, len(in)), make([]array.Array, len(in))
	for i, v := range in {
		if v == nil {
			return nil, nil, false, &ir.Error{Pos: ir.Caller(), Op: "tensor", Err: fmt.Errorf("operand %d is nil", i)}
		}
		if v.Err() != nil {
			return nil, nil, false, v.Err()
		}
		a, ok := v.Store().(array.Array)
		if !ok {
			return nil, nil, false, &ir.Error{Pos: ir.Caller(), Op: "tensor",
				Err: fmt.Errorf("operand %d, %v, has no data on this device", i, v.Type())}
		}
		types[i], arrays[i] = v.Type(), a
		tracked = tracked || v.Tracked() && v.DType().IsFloat()
	}
	return types, arrays, tracked, nil
}

// Eval runs one op on arrays without checks, for tests and benchmarks of single ops.
func (d *Device) Eval(o op.Op, in, out []array.Array) { op.Run(d.env(), o, in, out) }
