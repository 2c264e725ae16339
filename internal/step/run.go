package step

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/offload"
	"github.com/galley-ml/galley/op"
)

// Runner is a step with memory and devices.
type Runner struct {
	*Step
	world   comm.World
	devices []*cpu.Device // by device, as memory is; nil for those of other processes
	memory  []*memory
	watch   func(Span)
	// updating is set from a device's update on, until all have ended theirs.
	updating atomic.Bool
	// at is the instruction that each device is at.
	at []atomic.Pointer[instruction]
}

// Doing is what a device is at in a step.
type Doing struct {
	Device int
	// Name is what of the schedule it is; Node, where set, the op of it that is being computed, a collective
	// perhaps.
	Name string
	Node *ir.Node
}

// Doing is what the devices are at that have not ended their step: what a run that does not move hangs at. It
// may be called while a step runs.
func (r *Runner) Doing() []Doing {
	var list []Doing
	for i := range r.at {
		if in := r.at[i].Load(); in != nil {
			list = append(list, Doing{i, in.name(), r.devices[i].Doing()})
		}
	}
	return list
}

// Span is something that a device has done.
type Span struct {
	Device int
	// Kind is what it was: work of the schedule, one collective within it, or the wait for a message.
	Kind       SpanKind
	Name       string
	Start, End time.Time
	// Live is the bytes that the step's values take on the device at that time; it is told with work.
	Live int
}

// SpanKind is what a device was doing.
type SpanKind uint8

// The kinds.
const (
	Work SpanKind = iota
	Exchange
	Message
)

// memory is that of one device: one block, cut into buffers.
type memory struct {
	arrays []array.Array
	taken  int
	// store keeps the buffers that are away, away their numbers in it.
	store offload.Store
	away  []int
}

// Start takes the memory of a step for the devices that live in this process, which is what Memory says, and
// starts their threads. The world, one rank a device, is the runner's from then on: Close closes it.
func (s *Step) Start(w comm.World) (*Runner, error) {
	n := len(s.tapes)
	r := &Runner{Step: s, world: w, devices: make([]*cpu.Device, n), memory: make([]*memory, n)}
	if w.Size() != n {
		r.Close()
		return nil, fmt.Errorf("step: a world of %d ranks: want one for each of %d devices", w.Size(), n)
	}
	local := comm.Local(w)
	for _, id := range local {
		m, err := s.allocate(s.tapes[id])
		if err != nil {
			r.Close()
			return nil, err
		}
		d := cpu.NewDevice(cpu.Config{Threads: max(1, s.c.Threads/len(local))})
		if s.c.DetectNaN {
			d = d.DetectNaN()
		}
		r.devices[id], r.memory[id] = d, m
	}
	r.at = make([]atomic.Pointer[instruction], len(s.tapes))
	return r, nil
}

// Close ends the devices and the world, and gives back what is kept outside of them.
func (r *Runner) Close() {
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

// Watch tells f of every instruction that is run, from many goroutines.
func (r *Runner) Watch(f func(Span)) { r.watch = f }

// World is the devices' world, for its statistics.
func (r *Runner) World() comm.World { return r.world }

// Taken is the bytes that a device has taken in this process.
func (r *Runner) Taken(device int) int {
	if r.memory[device] == nil {
		return 0
	}
	return r.memory[device].taken
}

func (s *Step) allocate(t *tape) (*memory, error) {
	block := array.New(array.U8, t.memory().Peak()).Bytes() // state lies behind what lives within a step
	m := &memory{taken: t.slab}
	for i := range t.buffers {
		b := &t.buffers[i]
		at := b.offset
		if b.persistent() {
			at = m.taken
			m.taken += b.bytes()
		}
		bytes := block[at : at+b.bytes()]
		m.arrays = append(m.arrays, array.View(b.t.DType, b.t.Shape, bytes[:b.t.Bytes()]))
		if b.away {
			m.away = append(m.away, i)
		}
	}
	if s.c.Offload == nil {
		return m, nil
	}
	var types []ir.Type
	for _, i := range m.away {
		types = append(types, t.buffers[i].t)
	}
	var err error
	m.store, err = s.c.Offload(t.device, types)
	return m, err
}

// moveAway moves the buffers that are kept elsewhere, in or out.
func (m *memory) moveAway(move func(i int, a array.Array) error) error {
	for k, i := range m.away {
		if err := move(k, m.arrays[i]); err != nil {
			return err
		}
	}
	return nil
}

// Input is what a step is given: the parameters of the forward programs that are not weights, for every
// micro-batch, the update's numbers, and what the loss is multiplied with before gradients are taken.
type Input struct {
	Batch   [][]array.Array
	Scalars []float64
	Weight  float64
}

// Report is what a step tells.
type Report struct{ Loss, Norm float64 }

// Run takes one step.
func (r *Runner) Run(ctx context.Context, in Input) (Report, error) {
	if err := r.check(in); err != nil {
		return Report{}, err
	}
	told := &telling{}
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

// Torn reports whether a step ended with an error after a device had begun its update: weights may be of two
// steps.
func (r *Runner) Torn() bool { return r.updating.Load() }

func (r *Runner) check(in Input) error {
	if len(in.Batch) != r.c.Schedule.Micros {
		return fmt.Errorf("step: got %d micro-batches, want %d", len(in.Batch), r.c.Schedule.Micros)
	}
	for m, list := range in.Batch {
		f := r.c.Forwards[r.c.Variant[m]]
		for i, a := range list {
			if want := f.Params()[len(r.c.Weights)+i].Type(); !ir.TypeOf(a).Equal(want) {
				return fmt.Errorf("step: micro-batch %d: got %v, want %v", m, ir.TypeOf(a), want)
			}
		}
	}
	return nil
}

// device runs one device's tape.
func (r *Runner) device(rank comm.Comm, in Input) error {
	t, m := r.tapes[rank.ID()], r.memory[rank.ID()]
	if t == nil {
		return nil
	}
	if err := r.prepare(t, m, in); err != nil {
		return err
	}
	p := &player{r: r, t: t, m: m, in: in}
	p.device = p.watched(r.devices[rank.ID()].In(rank))
	var err error
	if p.world, err = rank.Group(nil); err != nil {
		return err
	}
	defer r.at[rank.ID()].Store(nil)
	for i := range t.code {
		if err := p.play(i); err != nil {
			return fmt.Errorf("%s: %w", t.code[i].name(), err)
		}
	}
	return p.awaitSends(len(t.code))
}

// prepare brings in the numbers that the step is given.
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

// player runs a tape.
type player struct {
	r      *Runner
	t      *tape
	m      *memory
	in     Input
	device *cpu.Device
	world  *comm.Group
	sends  []pendingSend
}

type pendingSend struct {
	until int
	p     *comm.Pending
}

func (p *player) play(i int) error {
	if err := p.awaitSends(i); err != nil {
		return err
	}
	start := time.Now()
	in := &p.t.code[i]
	p.r.at[p.t.device].Store(in)
	var err error
	switch in.kind {
	case send:
		p.sends = append(p.sends, pendingSend{in.until, p.world.StartSend(p.m.arrays[in.args[0]], in.peer, in.tag)})
	case receive:
		_, err = p.world.StartRecv(p.m.arrays[in.out[0]], in.peer, in.tag).Wait()
	case call:
		err = p.call(in)
	}
	p.tell(in, i, start)
	return err
}

// tell reports an instruction to whoever watches.
func (p *player) tell(in *instruction, i int, start time.Time) {
	if p.r.watch == nil {
		return
	}
	s := Span{Device: p.t.device, Kind: Message, Name: in.name(), Start: start, End: time.Now()}
	if in.kind == call {
		s.Kind, s.Live = Work, p.t.live(i)
	}
	p.r.watch(s)
}

// watched is the device that reports its nodes to the step's observer, and its collectives to whoever
// watches.
func (p *player) watched(d *cpu.Device) *cpu.Device {
	if p.r.watch == nil && p.r.c.Observe == nil {
		return d
	}
	return d.Watched(func(n *ir.Node, took time.Duration) {
		if p.r.c.Observe != nil {
			p.r.c.Observe(n, took)
		}
		if _, ok := n.Op().(op.Collective); ok && p.r.watch != nil {
			end := time.Now()
			p.r.watch(Span{Device: p.t.device, Kind: Exchange, Name: n.Op().Name(), Start: end.Add(-took), End: end})
		}
	})
}

func (p *player) call(in *instruction) error {
	var arena []byte
	if in.action.Stage < 0 {
		p.r.updating.Store(true)
	}
	if in.arena >= 0 {
		arena = p.m.arrays[in.arena].Bytes()
	}
	for _, l := range in.loads {
		array.CopyBox(p.m.arrays[l.buffer], make([]int, len(l.box.Size)), p.in.Batch[in.action.Micro][l.batch],
			l.box.Start, l.box.Size)
	}
	if in.away != nil {
		if err := p.m.moveAway(p.m.store.Get); err != nil {
			return err
		}
	}
	if err := in.exe.RunOver(p.device, arena, p.arrays(in.args), p.arrays(in.out)); err != nil {
		return err
	}
	for _, c := range in.copies {
		copy(p.m.arrays[c[1]].Bytes(), p.m.arrays[c[0]].Bytes())
	}
	if in.away != nil {
		return p.m.moveAway(p.m.store.Put)
	}
	return nil
}

func (p *player) arrays(list []int) []array.Array {
	out := make([]array.Array, len(list))
	for i, b := range list {
		out[i] = p.m.arrays[b]
	}
	return out
}

// awaitSends waits for the sends that are to be over before instruction i.
func (p *player) awaitSends(i int) error {
	left := p.sends[:0]
	for _, s := range p.sends {
		if s.until > i {
			left = append(left, s)
			continue
		}
		if _, err := s.p.Wait(); err != nil {
			return err
		}
	}
	p.sends = left
	return nil
}

// telling is the report of a run, told by the first of this process's devices that has it.
type telling struct {
	sync.Mutex
	Report
}

// report reads the numbers that the update leaves on the first rank of the pipeline. Other processes are sent
// them.
func (r *Runner) report(rank comm.Comm, told *telling) error {
	first := r.c.Meshes[0].Devices()[0]
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
