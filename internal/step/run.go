package step

import (
	"context"
	"fmt"
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
	world   *comm.World
	devices []*cpu.Device
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
	// Name is what of the schedule it is; Node, where set, the op of it that is being computed, a collective perhaps.
	Name string
	Node *ir.Node
}

// Doing is what the devices are at that have not ended their step: what a run that does not move hangs at. It may be called
// while a step runs.
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

// Start takes the memory of a step, which is what Memory says, and starts a thread for every device.
func (s *Step) Start() (*Runner, error) {
	w, err := comm.NewWorld(len(s.tapes))
	if err != nil {
		return nil, err
	}
	r := &Runner{Step: s, world: w}
	for _, t := range s.tapes {
		m, err := s.allocate(t)
		if err != nil {
			r.Close()
			return nil, err
		}
		d := cpu.NewDevice(cpu.Config{Threads: max(1, s.c.Threads)})
		if s.c.DetectNaN {
			d = d.DetectNaN()
		}
		r.devices, r.memory = append(r.devices, d), append(r.memory, m)
	}
	r.at = make([]atomic.Pointer[instruction], len(s.tapes))
	return r, nil
}

// Close ends the devices and gives back what is kept outside of them.
func (r *Runner) Close() {
	for i, d := range r.devices {
		d.Close()
		if s := r.memory[i].store; s != nil {
			s.Close()
		}
	}
}

// Watch tells f of every instruction that is run, from many goroutines.
func (r *Runner) Watch(f func(Span)) { r.watch = f }

// World is the devices' world, for its statistics.
func (r *Runner) World() *comm.World { return r.world }

// Taken is the bytes that a device has taken.
func (r *Runner) Taken(device int) int { return r.memory[device].taken }

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

// Input is what a step is given: the parameters of the forward programs that are not weights, for every micro-batch, the
// update's numbers, and what the loss is multiplied with before gradients are taken.
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
	err := r.world.Run(ctx, func(ctx context.Context, rank *comm.Rank) error { return r.device(rank, in) })
	if err != nil {
		return Report{}, err
	}
	r.updating.Store(false)
	return r.report()
}

// Torn reports whether a step ended with an error after a device had begun its update: weights may be of two steps.
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
func (r *Runner) device(rank *comm.Rank, in Input) error {
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
	return p.settle(len(t.code))
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
	if err := p.settle(i); err != nil {
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

// watched is the device that reports its nodes to the step's observer, and its collectives to whoever watches.
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
		array.CopyBox(p.m.arrays[l.buffer], make([]int, len(l.box.Size)), p.in.Batch[in.action.Micro][l.batch], l.box.Start, l.box.Size)
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

// settle waits for the sends that are to be over before instruction i.
func (p *player) settle(i int) error {
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

// report reads the numbers that the update leaves on the first rank.
func (r *Runner) report() (Report, error) {
	first := r.c.Meshes[0].Devices()[0]
	var out [2]float64
	for i := range r.tapes[first].buffers {
		if k := r.tapes[first].buffers[i].key; k.kind == reportBuffer {
			out[k.value] = r.memory[first].arrays[i].At(0)
		}
	}
	return Report{Loss: out[0], Norm: out[1]}, nil
}
