package step

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
)

// WholeConfig is a step that devices run as whole programs, each on its shards: one program with forward,
// backward and update, or one per micro-batch that accumulates gradients, and an update.
type WholeConfig struct {
	Kind Kind
	// Backend is whether a backend's compiler gets the programs as they are.
	Backend bool
	Mesh    *mesh.Mesh
	Weights []State
	// Inputs holds the tensors of a micro-batch, for each kind of micro-batch; Variant is the kind of each.
	Inputs  [][]ir.Type
	Variant []int
	// Scalars holds the types of a step's scalar inputs.
	Scalars []ir.Type
	Calls   []Call
}

// Call is a program that all devices run, one call after the other.
type Call struct {
	// When is the call's place in the step; a call for a micro-batch has its number.
	When  When
	Micro int
	// Part is the global program, Local what a device runs of it.
	Part  *Part
	Local func(device int) (*ir.Func, error)
	// Donated lists the parameters that results overwrite, Params and Results what passes in and out.
	Donated         []int
	Params, Results []Piece
	// Of, if set, returns which of all those a device's program has.
	Of func(device int) (params, results []int)
}

// on returns the call as a device makes it, with the numbers of its parameters in the global program.
func (x Call) on(device int) (Call, []int) {
	if x.Of == nil {
		all := make([]int, len(x.Params))
		for i := range all {
			all[i] = i
		}
		return x, all
	}
	all, given := x, x.Donated
	params, results := x.Of(device)
	x.Params, x.Results, x.Donated = nil, nil, nil
	for k, i := range params {
		x.Params = append(x.Params, all.Params[i])
		if slices.Contains(given, i) {
			x.Donated = append(x.Donated, k)
		}
	}
	for _, i := range results {
		x.Results = append(x.Results, all.Results[i])
	}
	return x, params
}

// When is the place of a call in a step.
type When int

// A call is the whole step, or for a micro-batch; before those one makes zeros to accumulate into, after them
// one updates the weights.
const (
	OfMicro  When = 0
	AtUpdate When = -1
	AsWhole  When = -2
	AtBegin  When = -3
)

// whenWords is how plans write them.
var whenWords = map[int]string{int(AtUpdate): "update", int(AsWhole): "step", int(AtBegin): "begin"}

// Piece is something that passes between the calls of a step.
type Piece struct{ key bufferKey }

// WeightPiece returns a weight, SlotPiece what the optimizer keeps for it, SumPiece the sum of its gradients.
func WeightPiece(weight int) Piece     { return Piece{bufferKey{kind: weightBuffer, stage: weight}} }
func SlotPiece(weight, slot int) Piece { return Piece{bufferKey{slotBuffer, weight, 0, slot}} }
func SumPiece(weight int) Piece        { return Piece{bufferKey{kind: sumBuffer, value: weight}} }

// ScalarPiece returns a scalar input of the step, ReportPiece one that it reports, TotalPiece one that is
// summed over micro-batches.
func ScalarPiece(i int) Piece { return Piece{bufferKey{kind: scalarBuffer, value: i}} }
func ReportPiece(i int) Piece { return Piece{bufferKey{kind: reportBuffer, value: i}} }
func TotalPiece(i int) Piece  { return Piece{bufferKey{kind: valueBuffer, value: i}} }

// InputPiece returns a tensor of a micro-batch, ResultPiece one that a forward pass returns for it.
func InputPiece(micro, i int) Piece  { return Piece{bufferKey{inputBuffer, 0, micro, i}} }
func ResultPiece(micro, i int) Piece { return Piece{bufferKey{resultBuffer, 0, micro, i}} }

// PartOn returns a program that one device runs as it is.
func PartOn(f *ir.Func, m *mesh.Mesh) *Part {
	x := &Part{Func: f, Meshes: slices.Repeat([]*mesh.Mesh{m}, f.NumValues())}
	for _, t := range typesOf(f) {
		x.Specs = append(x.Specs, mesh.Whole(len(t.Shape)))
	}
	for _, v := range f.Results() {
		x.ResultSpecs = append(x.ResultSpecs, mesh.Whole(len(v.Shape())))
	}
	return x
}

// PartOf returns a program that the devices of a mesh run, each on its part.
func PartOf(p *spmd.Program) *Part { return partOf(p) }

// NewWhole returns the plan of a step that devices run as whole programs. Each has a tape, whose memory is
// that of devices which take and return whole arrays; the additional memory of a backend's compiler is not
// known here.
func NewWhole(c WholeConfig) (*Plan, error) {
	if len(c.Calls) == 0 || len(c.Variant) == 0 {
		return nil, fmt.Errorf("step: no programs, or no micro-batches: want some")
	}
	defer fault.Pass("plan of the step", c.Calls[0].Part.Func)
	p := &Plan{
		Kind:     c.Kind,
		Whole:    true,
		Backend:  c.Backend,
		Meshes:   []*mesh.Mesh{c.Mesh},
		Inputs:   c.Inputs,
		Variant:  c.Variant,
		Scalars:  c.Scalars,
		Weights:  c.Weights,
		Stages:   []Stage{{}},
		Schedule: &pipeline.Schedule{Name: "whole", Stages: 1, Micros: len(c.Variant), Place: []int{0}},
	}
	var actions []pipeline.Action
	for m := range c.Variant {
		actions = append(actions, pipeline.Action{Kind: pipeline.Forward, Micro: m})
	}
	p.Schedule.Ranks = [][]pipeline.Action{actions}
	for _, x := range c.Calls {
		p.listWhole(x)
	}
	numbers := map[programKey]int{}
	for _, device := range c.Mesh.Devices() {
		w := &tapeWriter{t: &tape{device: device, whole: true}, at: map[bufferKey]int{}}
		for _, x := range c.Calls {
			if err := p.tapeWhole(w, x, numbers); err != nil {
				return nil, err
			}
		}
		w.t.pack()
		p.add(w.t)
	}
	return p, p.match()
}

// listWhole adds the part of a call to the plan's, once.
func (p *Plan) listWhole(x Call) {
	x.Part.Stage = int(x.When)
	if x.When == OfMicro {
		x.Part.Variant = p.Variant[x.Micro]
	}
	if !slices.Contains(p.Parts, x.Part) {
		p.Parts = append(p.Parts, x.Part)
	}
	if p.Kind == ForwardPass && x.When == OfMicro && len(p.Results) <= x.Part.Variant {
		var list []Result
		for i, v := range x.Part.Func.Results() {
			list = append(list, Result{v.Type(), x.Part.ResultSpecs[i]})
		}
		p.Results = append(p.Results, list)
	}
}

// tapeWhole appends a call to a tape. Equal programs are shared.
func (p *Plan) tapeWhole(w *tapeWriter, x Call, numbers map[programKey]int) error {
	f, err := x.Local(w.t.device)
	if err != nil {
		return err
	}
	x, which := x.on(w.t.device)
	k := programKey{f: f, donated: fmt.Sprint(x.Donated)}
	if _, ok := numbers[k]; !ok {
		numbers[k] = len(p.programs)
		if err := p.compile(f, memoryReuse{donated: x.Donated}, cpu.Offloaded{}); err != nil {
			return err
		}
	}
	in := instruction{
		action:  pipeline.Action{Stage: int(x.When), Kind: pipeline.Forward, Micro: x.Micro},
		kind:    call,
		program: numbers[k],
		exe:     p.programs[numbers[k]].exe,
		arena:   -1,
	}
	if len(x.Params) != len(f.Params()) || len(x.Results) != len(f.Results()) {
		return fmt.Errorf("step: %s takes %d tensors and returns %d: got %d and %d", f.Name(), len(f.Params()),
			len(f.Results()), len(x.Params), len(x.Results))
	}
	for i, piece := range x.Params {
		if err := w.take(&in, p.Meshes[0], x.Part, which[i], piece); err != nil {
			return err
		}
	}
	for i, piece := range x.Results {
		w.give(&in, i, piece)
	}
	w.call(in)
	return nil
}

// take gives a call an argument, parameter i of the global program. Inputs of a micro-batch are loaded.
func (w *tapeWriter) take(in *instruction, m *mesh.Mesh, part *Part, i int, piece Piece) error {
	b := w.use(w.buffer(piece.key, in.exe.Func().Params()[len(in.args)].Type()))
	in.args = append(in.args, b)
	if piece.key.kind != inputBuffer {
		return nil
	}
	v := part.Func.Params()[i]
	l, err := part.Specs[v.ID()].Layout(m, v.Shape())
	if err != nil {
		return err
	}
	box, _ := l.Box(w.t.device)
	in.loads = append(in.loads, load{buffer: b, batch: piece.key.value, box: box})
	return nil
}

// give assigns memory to a result: that of the parameter that it overwrites, or an array of its own, which
// then replaces the other.
func (w *tapeWriter) give(in *instruction, i int, piece Piece) {
	t := in.exe.Func().Results()[i].Type()
	to := w.use(w.buffer(piece.key, t))
	if p := slices.Index(in.args, to); p >= 0 && !in.exe.Overwrites(i, p) && !in.exe.Returns(i, p) {
		own := w.use(w.buffer(bufferKey{kind: scratch, micro: 1 + i, value: len(w.t.code)}, t))
		in.copies = append(in.copies, [2]int{own, to})
		to = own
	}
	in.out = append(in.out, to)
}

// wholeMemory returns the memory of a device that takes and returns whole arrays: what a run holds beside the
// largest of its programs counts once.
func (t *tape) wholeMemory() Memory {
	var m Memory
	within := make([]int, len(t.code))
	for i := range t.buffers {
		b := &t.buffers[i]
		switch n := b.t.Bytes(); b.key.kind {
		case weightBuffer:
			m.Weights += n
		case slotBuffer:
			m.Slots += n
		case sumBuffer:
			m.Sums += n
		case scratch:
			if b.first < len(within) {
				within[b.first] += n
			}
		default:
			m.Step += n
		}
	}
	if len(within) > 0 {
		m.Step += slices.Max(within)
	}
	return m
}

// wholeExchanges returns the communication of one device in a stage of a plan of whole programs, or in its
// update.
func (p *Plan) wholeExchanges(stage int) (list []spmd.Communication) {
	counts, order := map[*Part]int{}, []*Part{}
	for _, in := range p.tapes[p.Meshes[0].Devices()[0]].code {
		x := p.wholePart(in.action)
		if x == nil || (x.Stage == int(AtUpdate)) != (stage < 0) {
			continue
		}
		if counts[x]++; counts[x] == 1 {
			order = append(order, x)
		}
	}
	for _, x := range order {
		list = append(list, p.calls(x, counts[x])...)
	}
	return list
}

// wholePart returns the part that a call is of.
func (p *Plan) wholePart(a pipeline.Action) *Part {
	i := slices.IndexFunc(p.Parts, func(x *Part) bool {
		return x.Stage == a.Stage && (a.Stage < 0 || x.Variant == p.Variant[a.Micro])
	})
	if i < 0 {
		return nil
	}
	return p.Parts[i]
}
