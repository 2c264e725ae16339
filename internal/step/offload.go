package step

import (
	"errors"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/op"
)

// Offloaded says which fraction of a step's tensors, from 0 to 1, is kept outside of device memory: of the
// weights, of the optimizer's slots, and of the activations kept for the backward pass. Programs prefetch
// each one ahead of its use. Experts applies to the weights that ops read in pieces, those of experts, and to
// their slots: only the pieces in use are brought in.
type Offload struct{ Weights, Slots, Activations, Experts float64 }

// share chooses tensors with at most a fraction of all bytes, spread evenly over their order.
type share struct {
	part         float64
	wanted, have float64
}

// takes reports whether the next tensor is chosen.
func (s *share) takes(bytes int) bool {
	s.wanted += s.part * float64(bytes)
	if s.part == 0 || s.have+float64(bytes) > s.wanted+0.5 {
		return false
	}
	s.have += float64(bytes)
	return true
}

// chooseOffloaded decides which weights and slots are offloaded.
func (b *builder) chooseOffloaded() error {
	b.offloaded = map[bufferKey]bool{}
	weights, slots := share{part: b.c.Offload.Weights}, share{part: b.c.Offload.Slots}
	banks, experts := expertWeights(b.c.Forwards[0], len(b.c.Weights)), share{part: b.c.Offload.Experts}
	if b.c.Offload.Experts > 0 && !slices.Contains(banks, true) {
		return errors.New(
			"step: offload of experts: the program has none that rows choose: want weights or slots, " +
				"or experts as one op (MoEConfig.Fused)",
		)
	}
	for i, w := range b.c.Weights {
		bank := banks[i] && experts.takes(w.Type.Bytes())
		if weights.takes(w.Type.Bytes()) || bank {
			b.offloaded[bufferKey{kind: weightBuffer, stage: i}] = true
		}
		for k, t := range b.c.Update.Slots(i) {
			if slots.takes(t.Bytes()) || bank {
				b.offloaded[bufferKey{kind: slotBuffer, stage: i, value: k}] = true
			}
		}
	}
	for _, list := range b.sections {
		for _, x := range list {
			x.chooseOffloaded(b.c.Offload.Activations)
		}
	}
	return nil
}

// expertWeights returns which of the first parameters of a program are read in pieces.
func expertWeights(f *ir.Func, weights int) []bool {
	list, of := make([]bool, weights), map[*ir.Value]int{}
	for i, v := range f.Params()[:weights] {
		of[v] = i
	}
	for _, n := range f.Nodes() {
		for k, v := range n.In() {
			i, ok := of[v]
			if !ok {
				continue
			}
			if _, alias := n.Op().(op.Aliaser); alias {
				of[n.Out()[0]] = i
			}
			if o, is := n.Op().(op.Piecemeal); is && slices.Contains(o.Pieces(), k) {
				list[i] = true
			}
		}
	}
	return list
}

// chooseOffloaded decides which values of the joint program are offloaded between the forward pass that
// computes them and the backward passes that read them. Values that pass between stages stay.
func (x *section) chooseOffloaded(part float64) {
	x.offloaded = map[int]bool{}
	var handed []int
	for i := range x.Out {
		handed = append(handed, x.Joint.Results()[i].ID())
	}
	activations := share{part: part}
	for _, value := range x.parts[partKey{kind: pipeline.Forward}].results {
		if value < len(x.Joint.Params()) || slices.Contains(handed, value) {
			continue
		}
		if activations.takes(x.types[value].Bytes()) {
			x.offloaded[value] = true
		}
	}
}

// isOffloaded reports whether the tensor of a buffer is offloaded.
func (w *tapeWriter) isOffloaded(k bufferKey) bool {
	if w.t.whole {
		return false
	}
	if k.kind == valueBuffer {
		return w.section(k.stage, k.micro).offloaded[k.value]
	}
	return w.b.offloaded[k]
}

// offloadedOf returns what of a program is offloaded, by the keys of its parameters and results. A result
// with the same key as a parameter replaces it.
func (w *tapeWriter) offloadedOf(params, results []bufferKey) (a cpu.Offloaded) {
	for i, k := range params {
		if w.isOffloaded(k) {
			a.Params = append(a.Params, i)
		}
	}
	for i, k := range results {
		if w.isOffloaded(k) {
			a.Results, a.After = append(a.Results, i), append(a.After, slices.Index(params, k))
		}
	}
	return a
}

// placeOffloaded gives every offloaded buffer a place in the device's store: state its own, and values within
// a step one that is free meanwhile.
func (t *tape) placeOffloaded() {
	t.store = nil
	var free []int // the last buffer of each place
	for i := range t.buffers {
		b := &t.buffers[i]
		if !b.offloaded {
			continue
		}
		at := slices.IndexFunc(free, func(j int) bool {
			l := &t.buffers[j]
			return b.key.kind == valueBuffer && l.key.kind == valueBuffer && l.t.Equal(b.t) && l.last < b.first
		})
		if at < 0 {
			at = len(free)
			free, t.store = append(free, i), append(t.store, b.t)
		}
		free[at], b.offset = i, at
	}
}

// callStore is the store of a call's offloaded values.
type callStore struct {
	p  *interpreter
	in *instruction
}

func (e callStore) Get(param int, into array.Array) error {
	return e.p.m.store.Get(e.p.t.buffers[e.in.args[param]].offset, into)
}

func (e callStore) Part(param, offset int, into []byte) error {
	return e.p.m.store.GetPart(e.p.t.buffers[e.in.args[param]].offset, offset, into)
}

func (e callStore) Put(result int, a array.Array) error {
	return e.p.m.store.Put(e.p.t.buffers[e.in.out[result]].offset, a)
}

// offloadBytes returns the bytes that a call transfers in and out.
func (t *tape) offloadBytes(in *instruction) (n float64) {
	for _, list := range [][]int{in.args, in.out} {
		for _, i := range list {
			if b := &t.buffers[i]; b.offloaded {
				n += float64(b.t.Bytes())
			}
		}
	}
	return n
}

// OffloadStore returns the bytes that a device stores outside of its memory, on the host or on disk.
func (p *Plan) OffloadedBytes(device int) (n int) {
	for _, t := range p.tapes[device].store {
		n += t.Bytes()
	}
	return n
}

// offloadText returns a program's offloaded parameters and results, as plans print them; the parameters that
// results replace are counted from 1 on, and 0 means none.
func offloadText(a cpu.Offloaded) string {
	var replaced []int
	if slices.ContainsFunc(a.After, func(i int) bool { return i >= 0 }) {
		for _, i := range a.After {
			replaced = append(replaced, i+1)
		}
	}
	return numbers(" fetches", a.Params) + numbers(" stores", a.Results) + numbers(" replaces", replaced)
}

// offloaded parses what offloadText prints.
func (s *scanner) offloaded() (a cpu.Offloaded) {
	if s.is("fetches") {
		a.Params = s.numbers(most)
	}
	if s.is("stores") {
		a.Results = s.numbers(most)
		a.After = slices.Repeat([]int{-1}, len(a.Results))
	}
	at := s.column()
	if s.is("replaces") {
		list := s.numbers(most)
		if len(list) != len(a.Results) {
			s.errorf(at, "%d results are stored: got what %d replace", len(a.Results), len(list))
			return a
		}
		for i, n := range list {
			a.After[i] = n - 1
		}
	}
	return a
}
