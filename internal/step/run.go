package step

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
)

// Runner is a plan with memory and devices, ready to run.
type Runner struct {
	*Plan
	c       RunConfig
	world   comm.World
	devices []*cpu.Device // by device, as memory is; nil for those of other processes
	memory  []*memory
	// remotes holds the backends of devices that have one.
	remotes map[int]*remote
	watch   func(Span)
	// updating is set from the first device's update until all have ended theirs.
	updating atomic.Bool
	// at is the instruction that each device is at.
	at []atomic.Pointer[instruction]
}

// RunningOp describes what a device is doing in a step.
type RunningOp struct {
	Device int
	// Name is the scheduled action; Node, if set, is the op in progress, possibly a collective.
	Name string
	Node *ir.Node
}

// String returns the device, the scheduled action, and the op with its line.
func (d RunningOp) String() string {
	text := fmt.Sprintf("device %d", d.Device)
	if d.Name != "" {
		text += ": " + d.Name
	}
	if d.Node == nil {
		return text
	}
	text += ": " + d.Node.Op().Name()
	if pos := d.Node.Pos(); pos != "" {
		text += " at " + string(pos)
	}
	return text
}

// RunningOps returns what the devices that have not finished the current step are doing, to find out where a
// step hangs. It may be called while a step runs.
func (r *Runner) RunningOps() []RunningOp {
	var list []RunningOp
	for i := range r.at {
		if in := r.at[i].Load(); in != nil {
			list = append(list, RunningOp{i, in.name(), r.devices[i].RunningOp()})
		}
	}
	return list
}

// Start allocates the memory of the devices in this process, exactly what Memory returns, and starts their
// threads. The runner owns the world, with one rank per device: Close closes it.
func (p *Plan) Start(w comm.World, c RunConfig) (*Runner, error) {
	n := len(p.tapes)
	r := &Runner{Plan: p, c: c, world: w, devices: make([]*cpu.Device, n), memory: make([]*memory, n)}
	if p.Kind != Train || p.Whole {
		r.Close()
		return nil, fmt.Errorf(
			"step: a plan of a %s pass, or of whole programs: want one of a training step",
			p.Kind,
		)
	}
	if w.Size() != n {
		r.Close()
		return nil, fmt.Errorf("step: a world of %d ranks: want one for each of %d devices", w.Size(), n)
	}
	var err error
	if r.remotes, err = p.remotes(c.Backends); err != nil {
		r.Close()
		return nil, err
	}
	local := comm.Local(w)
	for _, id := range local {
		if p.tapes[id] == nil {
			continue
		}
		m, err := p.tapes[id].allocate(c)
		if err != nil {
			r.Close()
			return nil, err
		}
		d := cpu.NewDevice(cpu.Config{Threads: max(1, c.Threads/len(local))})
		if c.DetectNaN {
			d = d.DetectNaN()
		}
		r.devices[id], r.memory[id] = d, m
	}
	r.at = make([]atomic.Pointer[instruction], n)
	return r, nil
}

// Close stops the devices, closes the world and releases offloaded state.
func (r *Runner) Close() {
	for _, b := range r.remotes {
		b.close()
	}
	for i, d := range r.devices {
		if d == nil {
			continue
		}
		d.Close()
		if s := r.memory[i].store; s != nil {
			s.Close()
		}
	}
	r.world.Close()
}

// Watch calls f for every instruction that runs, from many goroutines.
func (r *Runner) Watch(f func(Span)) { r.watch = f }

// World returns the devices' world, for its statistics.
func (r *Runner) World() comm.World { return r.world }

// Allocated returns the bytes that a device has allocated in this process.
func (r *Runner) Allocated(device int) int {
	if r.memory[device] == nil {
		return 0
	}
	return r.memory[device].taken
}

// Input is the input of a step: the forward parameters that are not weights, for every micro-batch, the
// update's numbers, and the loss scale.
type Input struct {
	Batch   [][]array.Array
	Scalars []float64
	Weight  float64
}

// Report is the result of a step.
type Report struct{ Loss, Norm float64 }

// Run takes one step.
func (r *Runner) Run(ctx context.Context, in Input) (Report, error) {
	if err := r.check(in.Batch); err != nil {
		return Report{}, err
	}
	told := &runReport{}
	err := r.world.Run(ctx, func(ctx context.Context, rank comm.Comm) error {
		if err := r.device(rank, in); err != nil {
			return err
		}
		return r.report(rank, told)
	})
	if err != nil {
		return Report{}, err
	}
	r.updating.Store(false)
	return told.Report, nil
}

// PartialUpdate reports whether a step failed after a device had begun its update, so that weights may be a
// mix of two steps.
func (r *Runner) PartialUpdate() bool { return r.updating.Load() }

// device runs one device's tape.
func (r *Runner) device(rank comm.Comm, in Input) error {
	id := rank.ID()
	t, m := r.tapes[id], r.memory[id]
	if t == nil {
		return nil
	}
	if err := r.prepare(t, m, in); err != nil {
		return err
	}
	defer r.at[id].Store(nil)
	p := &interpreter{
		t:        t,
		m:        m,
		batch:    in.Batch,
		watch:    r.watch,
		observe:  r.c.Observe,
		at:       &r.at[id],
		meshes:   r.Meshes,
		updating: &r.updating,
		remote:   r.remotes[id],
	}
	return p.run(rank, r.devices[id])
}

// prepare loads the scalar inputs of the step.
func (r *Runner) prepare(t *tape, m *memory, in Input) error {
	for i := range t.buffers {
		switch k := t.buffers[i].key; k.kind {
		case scalarBuffer:
			m.arrays[i].Set(0, in.Scalars[k.value])
		case seedBuffer:
			m.arrays[i].Set(0, in.Weight)
		}
	}
	return nil
}

// runReport is the report of a run, set by the first of this process's devices that has it.
type runReport struct {
	sync.Mutex
	Report
}

// report reads the scalars that the update leaves on the first rank of the pipeline. Other processes receive
// them.
func (r *Runner) report(rank comm.Comm, told *runReport) error {
	first := r.Meshes[0].Devices()[0]
	numbers := array.New(array.F64, 2)
	if rank.ID() == first {
		for i := range r.tapes[first].buffers {
			if k := r.tapes[first].buffers[i].key; k.kind == reportBuffer {
				numbers.Set(k.value, r.memory[first].arrays[i].At(0))
			}
		}
	}
	leaders := comm.Leaders(r.world)
	if len(leaders) > 1 {
		if !slices.Contains(leaders, first) {
			leaders = append([]int{first}, leaders...)
		}
		if !slices.Contains(leaders, rank.ID()) {
			return nil
		}
		g, err := rank.Group(leaders)
		if err != nil {
			return err
		}
		if numbers, err = g.Broadcast(array.Array{}, numbers, slices.Index(leaders, first)); err != nil {
			return err
		}
	} else if rank.ID() != first {
		return nil
	}
	told.Lock()
	defer told.Unlock()
	told.Report = Report{Loss: numbers.At(0), Norm: numbers.At(1)}
	return nil
}
