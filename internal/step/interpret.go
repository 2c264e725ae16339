package step

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Span is an interval of a device's timeline.
type Span struct {
	Device int
	// Kind says what it was: scheduled work, an op within it that communicates, one collective of that, or
	// the wait for a message.
	Kind       SpanKind
	Name       string
	Start, End time.Time
	// Live is the memory of the step's values on the device at that time; it is set for work.
	Live int
	// Since is when a collective was started, before Start if the device computed meanwhile. Axes and Group
	// identify it, Bytes is the data sent and received. From Start to End the device waited.
	Since       time.Time
	Axes, Group string
	Bytes       int
}

// SpanKind is what a device was doing.
type SpanKind uint8

// The kinds.
const (
	Work SpanKind = iota
	Exchange
	Message
	Collective
)

// interpreter interprets a tape.
type interpreter struct {
	t     *tape
	m     *memory
	batch [][]array.Array // by micro-batch
	// watch and observe, if set, are notified of instructions and of nodes; at is the instruction at hand,
	// and updating is set when an update begins.
	watch    func(Span)
	observe  func(n *ir.Node, took time.Duration)
	meshes   []*mesh.Mesh
	at       *atomic.Pointer[instruction]
	updating *atomic.Bool
	device   *cpu.Device
	remote   *remote
	world    *comm.Group
	sends    []pendingSend
}

// run interprets the tape from start to end. It catches internal errors, since no API boundary is on this
// goroutine's stack.
func (p *interpreter) run(rank comm.Comm, d *cpu.Device) (err error) {
	defer fault.Recover(fmt.Sprintf("device %d", p.t.device), &err)
	if p.watch != nil {
		rank = &metered{Comm: rank, device: p.t.device, watch: p.watch, meshes: p.meshes, axes: map[string]string{}}
	}
	p.device = p.watched(d.In(rank))
	if p.world, err = rank.Group(nil); err != nil {
		return err
	}
	for i := range p.t.code {
		if err := p.execute(i); err != nil {
			return fmt.Errorf("%s: %w", p.t.code[i].name(), err)
		}
	}
	return p.awaitSends(len(p.t.code))
}

type pendingSend struct {
	until int
	p     *comm.Pending
}

func (p *interpreter) execute(i int) error {
	if err := p.awaitSends(i); err != nil {
		return err
	}
	start := time.Now()
	in := &p.t.code[i]
	p.at.Store(in)
	var err error
	switch in.kind {
	case send:
		if in.piece != nil {
			part := p.m.arrays[in.args[0]]
			array.CopyBox(
				part,
				make([]int, len(part.Shape())),
				p.m.arrays[in.piece.buffer],
				in.piece.start,
				part.Shape(),
			)
		}
		p.sends = append(p.sends, pendingSend{in.until, p.world.StartSend(p.m.arrays[in.args[0]], in.peer, in.tag)})
	case receive:
		part := p.m.arrays[in.out[0]]
		_, err = p.world.StartRecv(part, in.peer, in.tag).Wait()
		if in.piece != nil && err == nil {
			array.CopyBox(
				p.m.arrays[in.piece.buffer],
				in.piece.start,
				part,
				make([]int, len(part.Shape())),
				part.Shape(),
			)
		}
	case call:
		err = p.call(in)
	}
	p.report(in, i, start)
	return err
}

// report reports an instruction to the observer.
func (p *interpreter) report(in *instruction, i int, start time.Time) {
	if p.watch == nil {
		return
	}
	s := Span{Device: p.t.device, Kind: Message, Name: in.name(), Start: start, End: time.Now()}
	if in.kind == call {
		s.Kind, s.Live = Work, p.t.live(i)
	}
	p.watch(s)
}

// watched returns the device, reporting its nodes and collectives to the step's observer if there is one.
func (p *interpreter) watched(d *cpu.Device) *cpu.Device {
	if p.watch == nil && p.observe == nil {
		return d
	}
	return d.Watched(func(n *ir.Node, took time.Duration) {
		if p.observe != nil {
			p.observe(n, took)
		}
		if _, ok := n.Op().(op.Collective); ok && p.watch != nil {
			end := time.Now()
			p.watch(Span{Device: p.t.device, Kind: Exchange, Name: n.Op().Name(), Start: end.Add(-took), End: end})
		}
	})
}

func (p *interpreter) call(in *instruction) error {
	var arena []byte
	if in.action.Stage < 0 {
		p.updating.Store(true)
	}
	if in.arena >= 0 {
		arena = p.m.arrays[in.arena].Bytes()
	}
	for _, l := range in.loads {
		array.CopyBox(p.m.arrays[l.buffer], make([]int, len(l.box.Size)), p.batch[in.action.Micro][l.batch],
			l.box.Start, l.box.Size)
	}
	var store cpu.OffloadStore
	if p.m.store != nil {
		store = callStore{p, in}
	}
	if store == nil && p.remote.runs(in.exe) {
		if err := p.remote.run(in.exe, p.arrays(in.args), p.arrays(in.out)); err != nil {
			return err
		}
	} else if err := in.exe.RunOver(p.device, arena, p.arrays(in.args), p.arrays(in.out), store); err != nil {
		return err
	}
	for _, c := range in.copies {
		copy(p.m.arrays[c[1]].Bytes(), p.m.arrays[c[0]].Bytes())
	}
	return nil
}

func (p *interpreter) arrays(list []int) []array.Array {
	out := make([]array.Array, len(list))
	for i, b := range list {
		out[i] = p.m.arrays[b]
	}
	return out
}

// awaitSends waits for the sends that are to be over before instruction i.
func (p *interpreter) awaitSends(i int) error {
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
