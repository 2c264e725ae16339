package step

import (
	"context"
	"fmt"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
)

// Runner is a step with memory and devices.
type Runner struct {
	*Step
	world   *comm.World
	devices []*cpu.Device
	memory  []*memory
	watch   func(Span)
}

// Span is one instruction that a device has run.
type Span struct {
	Device     int
	Name       string
	Start, End time.Time
}

// memory is that of one device: state, buffer by buffer, and the slab.
type memory struct {
	slab   []byte
	arrays []array.Array
	taken  int
}

// Start takes the memory of a step, which is what Memory says, and starts a thread for every device.
func (s *Step) Start() (*Runner, error) {
	w, err := comm.NewWorld(len(s.tapes))
	if err != nil {
		return nil, err
	}
	r := &Runner{Step: s, world: w}
	for _, t := range s.tapes {
		r.devices = append(r.devices, cpu.NewDevice(cpu.Config{Threads: 1}))
		r.memory = append(r.memory, t.allocate())
	}
	return r, nil
}

// Close ends the devices.
func (r *Runner) Close() {
	for _, d := range r.devices {
		d.Close()
	}
}

// Watch tells f of every instruction that is run, from many goroutines.
func (r *Runner) Watch(f func(Span)) { r.watch = f }

// World is the devices' world, for its statistics.
func (r *Runner) World() *comm.World { return r.world }

// Taken is the bytes that a device has taken.
func (r *Runner) Taken(device int) int { return r.memory[device].taken }

func (t *tape) allocate() *memory {
	m := &memory{slab: array.New(array.U8, t.slab).Bytes(), taken: t.slab}
	for i := range t.buffers {
		b := &t.buffers[i]
		var bytes []byte
		if b.persistent() {
			bytes = array.New(array.U8, b.bytes()).Bytes()
			m.taken += len(bytes)
		} else {
			bytes = m.slab[b.offset : b.offset+b.bytes()]
		}
		m.arrays = append(m.arrays, array.View(b.t.DType, b.t.Shape, bytes[:b.t.Bytes()]))
	}
	return m
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
	return r.report()
}

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
	p := &player{r: r, t: t, m: m, in: in, device: r.devices[rank.ID()].In(rank)}
	var err error
	if p.world, err = rank.Group(nil); err != nil {
		return err
	}
	for i := range t.code {
		if err := p.play(i); err != nil {
			return fmt.Errorf("%s: %w", t.code[i].name(), err)
		}
	}
	return p.settle(len(t.code))
}

// prepare clears the sums and brings in what the step is given.
func (r *Runner) prepare(t *tape, m *memory, in Input) error {
	for i := range t.buffers {
		switch k := t.buffers[i].key; k.kind {
		case sumBuffer:
			clear(m.arrays[i].Bytes())
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
	var err error
	switch in.kind {
	case send:
		p.sends = append(p.sends, pendingSend{in.until, p.world.StartSend(p.m.arrays[in.args[0]], in.peer, in.tag)})
	case receive:
		_, err = p.world.StartRecv(p.m.arrays[in.out[0]], in.peer, in.tag).Wait()
	case call:
		err = p.call(in)
	}
	if p.r.watch != nil {
		p.r.watch(Span{p.t.device, in.name(), start, time.Now()})
	}
	return err
}

func (p *player) call(in *instruction) error {
	var arena []byte
	if in.arena >= 0 {
		arena = p.m.arrays[in.arena].Bytes()
	}
	for _, l := range in.loads {
		array.CopyBox(p.m.arrays[l.buffer], make([]int, len(l.box.Size)), p.in.Batch[in.action.Micro][l.batch], l.box.Start, l.box.Size)
	}
	if err := in.exe.RunOver(p.device, arena, p.arrays(in.args), p.arrays(in.out)); err != nil {
		return err
	}
	for _, c := range in.copies {
		copy(p.m.arrays[c[1]].Bytes(), p.m.arrays[c[0]].Bytes())
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
