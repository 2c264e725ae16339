package step

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
)

// tapeWriter writes the tape of one device.
type tapeWriter struct {
	b  *builder
	t  *tape
	at map[bufferKey]int
	// first is, for each stage, the micro-batch whose weight gradients come first: there is nothing to add them
	// to.
	first []int
}

func (b *builder) newTape(device, rank int) (*tape, error) {
	w := &tapeWriter{b: b, t: &tape{device: device, rank: rank}, at: map[bufferKey]int{},
		first: firstMicros(b.plan.Schedule, rank)}
	if err := w.state(); err != nil {
		return nil, err
	}
	for _, a := range b.plan.Schedule.Ranks[rank] {
		if err := w.action(a); err != nil {
			return nil, err
		}
	}
	if b.plan.Kind == Train {
		if err := w.update(); err != nil {
			return nil, err
		}
	}
	w.t.pack()
	return w.t, nil
}

// firstMicros returns, by stage, the micro-batch with which a rank begins to accumulate gradients.
func firstMicros(s *pipeline.Schedule, rank int) []int {
	list := slices.Repeat([]int{-1}, s.Stages)
	for _, a := range s.Ranks[rank] {
		if (a.Kind == pipeline.Backward || a.Kind == pipeline.Weight) && list[a.Stage] < 0 {
			list[a.Stage] = a.Micro
		}
	}
	return list
}

// buffer returns the buffer of a key, creating it if it is new.
func (w *tapeWriter) buffer(k bufferKey, t ir.Type) int {
	if i, ok := w.at[k]; ok {
		return i
	}
	now := len(w.t.code)
	w.t.buffers = append(w.t.buffers, buffer{key: k, t: t, first: now, last: now, offloaded: w.isOffloaded(k)})
	w.at[k] = len(w.t.buffers) - 1
	return w.at[k]
}

// use records that the next instruction uses a buffer.
func (w *tapeWriter) use(i int) int {
	b := &w.t.buffers[i]
	b.last = max(b.last, len(w.t.code))
	return i
}

// local returns the type of the device's shard of a tensor; it reports false if the device has none.
func (w *tapeWriter) local(t ir.Type, m *mesh.Mesh, s mesh.Spec) (ir.Type, bool, error) {
	l, err := s.Layout(m, t.Shape)
	if err != nil {
		return ir.Type{}, false, err
	}
	shape, ok := l.LocalShape(w.t.device)
	return ir.Type{DType: t.DType, Shape: shape}, ok, nil
}

// state makes the buffers of what lives from step to step.
func (w *tapeWriter) state() error {
	for i := range w.b.c.Weights {
		if err := w.weightState(i); err != nil {
			return err
		}
	}
	if w.b.plan.Kind != Train {
		return nil
	}
	for _, x := range w.b.sections[0] {
		for j, weight := range x.Weights {
			if x.rank != w.t.rank {
				continue
			}
			k, at := bufferKey{kind: sumBuffer, stage: x.number, value: weight}, x.sumParam(j)
			if err := w.persistent(k, x.Joint.Params()[at].Type(), x.meshes[at], x.sums[j]); err != nil {
				return err
			}
		}
	}
	return nil
}

// weightState makes the buffers of a weight and of what the optimizer keeps for it.
func (w *tapeWriter) weightState(i int) error {
	weight, h, at := &w.b.c.Weights[i], w.b.homes[i], w.b.c.layouts(i, w.t.rank)
	if (h.rank == w.t.rank || slices.Contains(h.others, w.t.rank)) && (h.used || w.b.plan.Kind == Train) {
		k := bufferKey{kind: weightBuffer, stage: i}
		if err := w.persistent(k, weight.Type, at.Mesh, at.Rest); err != nil {
			return err
		}
	}
	if h.rank != w.t.rank || w.b.plan.Kind != Train {
		return nil
	}
	for k, t := range w.b.c.Update.Slots(i) {
		key := bufferKey{kind: slotBuffer, stage: i, value: k}
		if err := w.persistent(key, t, at.Mesh, weight.slot(at, t)); err != nil {
			return err
		}
	}
	return nil
}

// persistent makes the buffer of the device's part of a tensor.
func (w *tapeWriter) persistent(k bufferKey, t ir.Type, m *mesh.Mesh, s mesh.Spec) error {
	local, ok, err := w.local(t, m, s)
	if ok {
		w.buffer(k, local)
	}
	return err
}

// section returns the stage of an action, for its micro-batch's size.
func (w *tapeWriter) section(stage, micro int) *section {
	return w.b.sections[w.b.c.Variant[micro]][stage]
}

func (w *tapeWriter) action(a pipeline.Action) error {
	switch {
	case a.Kind.Computes():
		return w.compute(a)
	case a.Kind.Sends():
		return w.send(a)
	}
	return w.receive(a)
}

// key returns the buffer of a value of a stage's joint program. The outputs of a stage on the same rank are
// used in place.
func (w *tapeWriter) key(x *section, micro, value int) bufferKey {
	weights, batch := len(x.Weights), len(x.Batch)
	switch {
	case value < weights:
		return bufferKey{kind: weightBuffer, stage: x.Weights[value]}
	case value >= x.sumParam(0) && value < len(x.Joint.Params()):
		return bufferKey{kind: sumBuffer, stage: x.number, value: x.Weights[value-x.sumParam(0)]}
	case x.isLoss() && value == x.inParam(len(x.In)):
		return bufferKey{kind: seedBuffer}
	case value >= weights+batch && value < weights+batch+len(x.In):
		if from, ok := w.neighbour(x, micro, -1); ok {
			return w.key(from, micro, from.Joint.Results()[value-weights-batch].ID())
		}
	}
	if j, ok := x.sumOf[value]; ok {
		return bufferKey{kind: sumBuffer, stage: x.number, value: x.Weights[j]}
	}
	for i, g := range x.outGrads() {
		if value != g {
			continue
		}
		if to, ok := w.neighbour(x, micro, 1); ok {
			return w.key(to, micro, to.Joint.Results()[to.inGrads()[i]].ID())
		}
	}
	return bufferKey{kind: valueBuffer, stage: x.number, micro: micro, value: value}
}

// neighbour returns the stage before or after, if it is on the same rank.
func (w *tapeWriter) neighbour(x *section, micro, step int) (*section, bool) {
	n := x.number + step
	if n < 0 || n >= w.b.c.Schedule.Stages || w.b.c.Schedule.Place[n] != x.rank {
		return nil, false
	}
	return w.section(n, micro), true
}

func (w *tapeWriter) compute(a pipeline.Action) error {
	x := w.section(a.Stage, a.Micro)
	key := partKey{kind: a.Kind}
	if a.Kind != pipeline.Forward && w.first[a.Stage] == a.Micro {
		key.turn = first
	}
	p := x.parts[key]
	w.b.list(x, w.b.c.Variant[a.Micro], key)
	numbers := p.program.ParamsOf(w.t.device)
	params, results := w.keys(x, p, key, a.Micro)
	in, err := w.newCall(a, p.program, memoryReuse{p.donated(x, numbers), w.spent(x, key, params)},
		w.offloadedOf(params, results))
	if err != nil {
		return err
	}
	e := in.exe
	for k, number := range numbers {
		value, key := p.params[number], params[k]
		_, here := w.at[key]
		i := w.use(w.buffer(key, e.Func().Params()[k].Type()))
		in.args = append(in.args, i)
		if b := value - len(x.Weights); !here && b >= 0 && b < len(x.Batch) {
			l, err := w.load(x, value, i)
			if err != nil {
				return err
			}
			in.loads = append(in.loads, l)
		}
	}
	for k, number := range p.program.ResultsOf(w.t.device) {
		value := p.results[number]
		if err := w.result(&in, k, results[k]); err != nil {
			return fmt.Errorf("step: device %d: %v: value %d: %w", w.t.device, a, value, err)
		}
	}
	w.call(in)
	return nil
}

// keys returns the buffers of the device's parameters and results of a part for a micro-batch.
func (w *tapeWriter) keys(x *section, p *part, of partKey, micro int) (params, results []bufferKey) {
	for _, k := range p.program.ParamsOf(w.t.device) {
		params = append(params, w.key(x, micro, p.params[k]))
	}
	for _, k := range p.program.ResultsOf(w.t.device) {
		value := p.results[k]
		to := w.key(x, micro, value)
		if j, ok := x.gradOf[value]; ok && of.turn == first && of.kind != pipeline.Input {
			to = bufferKey{kind: sumBuffer, stage: x.number, value: x.Weights[j]}
		}
		if x.Forward && x.number == w.b.c.Schedule.Stages-1 {
			to = bufferKey{kind: resultBuffer, micro: micro, value: k}
		}
		results = append(results, to)
	}
	return params, results
}

// newCall returns a call of the device's program of a part.
func (w *tapeWriter) newCall(a pipeline.Action, p *spmd.Program, g memoryReuse,
	offloaded cpu.Offloaded) (instruction, error) {
	i, err := w.b.compiled(p, w.t.device, g, offloaded)
	if err != nil {
		return instruction{}, err
	}
	return instruction{action: a, kind: call, program: i, exe: w.b.plan.programs[i].exe, arena: -1}, nil
}

// load returns the device's part of what a stage needs of the batch.
func (w *tapeWriter) load(x *section, value, buffer int) (load, error) {
	l, err := x.specs[value].Layout(x.meshes[value], x.types[value].Shape)
	if err != nil {
		return load{}, err
	}
	box, _ := l.Box(w.t.device)
	return load{buffer: buffer, batch: x.Batch[value-len(x.Weights)] - len(w.b.c.Weights), box: box}, nil
}

// result assigns memory to a result: that of its key, or its own if a parameter is there that is read until
// later.
func (w *tapeWriter) result(in *instruction, k int, key bufferKey) error {
	t := in.exe.Func().Results()[k].Type()
	i := w.use(w.buffer(key, t))
	if got := w.t.buffers[i].t; !got.Equal(t) {
		return fmt.Errorf("got %v, want %v", t, got)
	}
	if p := slices.Index(in.args, i); p >= 0 && !w.t.buffers[i].offloaded && !in.exe.MayShare(k, p) &&
		!in.exe.Returns(k, p) {
		own := w.use(w.buffer(bufferKey{kind: scratch, micro: 1 + k, value: len(w.t.code)}, t))
		in.copies = append(in.copies, [2]int{own, i})
		i = own
	}
	in.out = append(in.out, i)
	return nil
}

// call appends a run of a program, with the memory that it needs while it runs.
func (w *tapeWriter) call(in instruction) {
	if n := in.exe.Memory().Arena; n > 0 {
		in.arena = w.use(w.buffer(bufferKey{kind: scratch, value: len(w.t.code)}, bytesType(n)))
	}
	w.t.code = append(w.t.code, in)
}

// donated returns the parameters of a device's program of a part that its results overwrite: the sums of
// gradients.
func (p *part) donated(x *section, params []int) []int {
	var list []int
	for k, number := range params {
		value := p.params[number]
		if value >= x.sumParam(0) && value < len(x.Joint.Params()) {
			list = append(list, k)
		}
	}
	return list
}

// spent returns the parameters of a device's program of a part that nothing reads after it: what the stage's
// forward pass has left for its backward pass alone, or the first half of that for the second.
func (w *tapeWriter) spent(x *section, of partKey, params []bufferKey) []int {
	if of.kind == pipeline.Forward {
		return nil
	}
	read := map[int]bool{}
	for i := range x.Out {
		read[x.Joint.Results()[i].ID()] = true
	}
	if of.kind == pipeline.Input {
		for _, value := range x.parts[partKey{pipeline.Weight, of.turn}].params {
			read[value] = true
		}
	}
	var list []int
	for k, key := range params {
		if key.kind == valueBuffer && key.stage == x.number && key.value >= len(x.Joint.Params()) &&
			!read[key.value] && !w.isOffloaded(key) {
			list = append(list, k)
		}
	}
	return list
}

// update appends the end of the step.
func (w *tapeWriter) update() error {
	p := w.b.updateProgram
	params, results := p.ParamsOf(w.t.device), p.ResultsOf(w.t.device)
	var donated []int
	var takes, makes []bufferKey
	for k, i := range params {
		takes = append(takes, w.role(w.b.update.roles[i]))
		switch takes[k].kind {
		case weightBuffer, slotBuffer, sumBuffer: // the next step's first gradients overwrite the sums
			if !w.isOffloaded(takes[k]) {
				donated = append(donated, k)
			}
		}
	}
	for _, i := range results {
		makes = append(makes, w.role(w.b.update.results[i]))
	}
	in, err := w.newCall(pipeline.Action{Stage: -1}, p, memoryReuse{donated: donated},
		w.offloadedOf(takes, makes))
	if err != nil {
		return err
	}
	for k, key := range takes {
		in.args = append(in.args, w.use(w.buffer(key, in.exe.Func().Params()[k].Type())))
	}
	for k, i := range results {
		if err := w.result(&in, k, makes[k]); err != nil {
			return fmt.Errorf("step: device %d: update: result %d: %w", w.t.device, i, err)
		}
	}
	w.call(in)
	return nil
}

// role returns the buffer of a parameter or result of the update.
func (w *tapeWriter) role(r role) bufferKey {
	switch r.kind {
	case roleWeight:
		return bufferKey{kind: weightBuffer, stage: r.weight}
	case roleSlot:
		return bufferKey{kind: slotBuffer, stage: r.weight, value: r.index}
	case roleSum:
		return bufferKey{kind: sumBuffer, stage: r.stage, value: r.weight}
	case roleScalar:
		return bufferKey{kind: scalarBuffer, value: r.index}
	case roleScale:
		return bufferKey{kind: seedBuffer}
	case roleReport:
		return bufferKey{kind: reportBuffer, value: r.index}
	}
	x := w.section(w.b.c.Schedule.Stages-1, r.index)
	out := 0
	if r.kind == roleCount {
		out = 1
	}
	return w.key(x, r.index, x.Joint.Results()[out].ID())
}
