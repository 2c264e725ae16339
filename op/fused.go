package op

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"weak"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// Fused returns a program as one op: a loop over rows and columns that keeps intermediate values in registers
// or cache. Its results have the same bits as running the program node by node.
func Fused(body *ir.Func) Op {
	return fused{held: held{fusedOf(body)}, Body: body.String()}
}

// FusedBody returns the program of an op that Fused made.
func FusedBody(o ir.Op) (*ir.Func, bool) {
	f, ok := o.(fused)
	if !ok {
		return nil, false
	}
	body, err := parseBody(f.Body)
	return body, err == nil
}

// parseBody parses a body. Its errors name line and column within the op's text, which is a single line.
func parseBody(text string) (*ir.Func, error) {
	f, err := ir.Parse(text, Lookup)
	if bad := (*ir.SyntaxError)(nil); errors.As(err, &bad) {
		return nil, fmt.Errorf("body, line %d, column %d: %w", bad.Line, bad.Column, bad.Err)
	}
	if err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	return f, nil
}

// held keeps the prepared program alive as long as the op. It is not an attribute.
type held struct{ program *fusedProgram }

type fused struct {
	held
	Body string
}

func (fused) Name() string { return "fused" }
func (fused) halfNative()  {}
func (o fused) NumResults(int) int {
	if f, err := parseBody(o.Body); err == nil {
		return len(f.Results())
	}
	return 1
}

// on returns the program specialised to operands of these types.
func (o fused) on(in []Type) (*fusedProgram, error) {
	if p := o.program; p != nil && p.takes(in) {
		return p, nil
	}
	f, err := parseBody(o.Body)
	if err != nil {
		return nil, err
	}
	if len(in) != len(f.Params()) {
		return nil, fmt.Errorf("body takes %d operands: got %d", len(f.Params()), len(in))
	}
	for _, n := range f.Nodes() {
		if _, nested := n.Op().(fused); nested {
			return nil, fmt.Errorf("body has a fused op in it: its nodes must be in the body itself")
		}
	}
	b := ir.NewBuilder(f.Name())
	args := make([]*Tensor, len(in))
	for i, t := range in {
		args[i] = b.Param("", t)
	}
	if f, err = b.Build(f.Replay(b, args, nil)...); err != nil {
		return nil, err
	}
	return fusedOf(f), nil
}

func (o fused) Infer(in []Type) ([]Type, error) {
	p, err := o.on(in)
	if err != nil {
		return nil, err
	}
	return typesOfValues(p.f.Results()), nil
}

func (o fused) Decompose(in []*Tensor) []*Tensor {
	f, err := parseBody(o.Body)
	if err != nil {
		return slices.Repeat([]*Tensor{ir.Invalid(in[0].Scope(), err)}, o.NumResults(len(in)))
	}
	return f.Replay(in[0].Scope(), in, nil)
}

func (o fused) VJP(in, _, dout []*Tensor) []*Tensor { return vjpByParts(o, in, dout) }

// Rule returns Unknown, because fusion happens after programs have been split.
func (fused) Rule(in []Type) mesh.Rule { return mesh.Unknown }

// Work counts reading operands and writing results once.
func (o fused) Work(in, out []Type) Work {
	w := Work{Bytes: moved(in, out)}
	p, err := o.on(in)
	if err != nil {
		return w
	}
	for _, n := range p.f.Nodes() {
		w.Flops += n.Op().(Op).Work(typesOfValues(n.In()), typesOfValues(n.Out())).Flops
	}
	return w
}

// InPlace returns, for each result, an operand that is not read any more when the result is written.
func (o fused) InPlace() []int {
	p := o.program
	if p == nil {
		f, err := parseBody(o.Body)
		if err != nil {
			return nil
		}
		p = fusedOf(f)
	}
	return p.over
}

func (o fused) Eval(env *Env, in, out []array.Array) {
	types := make([]Type, len(in))
	for i, a := range in {
		types[i] = ir.TypeOf(a)
	}
	p, err := o.on(types)
	if err != nil {
		panic("op: fused body that does not read: " + err.Error())
	}
	p.run(env, in, out)
}

func (o fused) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref { return emitAsIs(o, w, in) }

func (fused) Samples() []Sample {
	norm := "func body(%0: f32[5,7], %1: f32[7]) {\n  %2 = square %0\n  %3 = mean{dims=[1] count=7} %2\n" +
		"  %4 = rsqrt %3\n  %5 = reshape{shape=[5,1]} %4\n  %6 = mul %0 %5\n  %7 = mul %6 %1\n  return %7 %4\n}\n"
	slope := "func body(%0: f32[3,40], %1: f32[3,40]) {\n  %2 = tanh %0\n  %3 = mul %2 %1\n" +
		"  %4 = sum{dims=[0]} %3\n  return %3 %4\n}\n"
	sum := "func body(%0: f32[5,7], %1: f32[5,7]) {\n  %2 = square %0\n  %3 = add %1 %2\n  return %3\n}\n"
	return []Sample{
		{Op: fused{Body: norm}, In: []Arg{f32(5, 7), f32(7)}},
		{Op: fused{Body: sum}, In: []Arg{f32(5, 7), f32(5, 7)}},
		{Op: fused{Body: slope}, In: []Arg{f32(3, 40), f32(3, 40)}},
	}
}

// programs caches the prepared programs of bodies in use, by their text without source positions.
var programs = struct {
	sync.Mutex
	byText map[string]weak.Pointer[fusedProgram]
}{byText: map[string]weak.Pointer[fusedProgram]{}}

// fusedOf returns a prepared program, shared by all ops with the same body.
func fusedOf(f *ir.Func) *fusedProgram {
	key := withoutPlaces(f)
	if !LoopsCompiled() { // a test may ask for strips of what runs as code elsewhere
		key = "strips " + key
	}
	programs.Lock()
	defer programs.Unlock()
	if p := programs.byText[key].Value(); p != nil {
		return p
	}
	for old, p := range programs.byText {
		if p.Value() == nil {
			delete(programs.byText, old)
		}
	}
	p := newFusedProgram(f)
	programs.byText[key] = weak.Make(p)
	return p
}

// withoutPlaces returns a program's text without source positions.
func withoutPlaces(f *ir.Func) string {
	var b strings.Builder
	for line := range strings.Lines(f.String()) {
		line, _, _ = strings.Cut(line, "  # ")
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return b.String()
}

// FusedHow describes how a fused op runs: as generated code, as strips, or node by node, with the reason.
func FusedHow(o ir.Op) string {
	f, ok := o.(fused)
	if !ok || f.program == nil {
		return ""
	}
	switch p := f.program; {
	case p.code != nil:
		return "code"
	case p.plan != nil:
		return "strips: " + p.why.Error()
	default:
		return "node by node: " + p.why.Error()
	}
}

// FusedSize returns the size in bytes of a fused op's machine code.
func FusedSize(o ir.Op) int {
	f, ok := o.(fused)
	if !ok || f.program == nil {
		return 0
	}
	size := 0
	for _, c := range f.program.code {
		if size += c.code.Size(); c.past != nil {
			size += c.past.Size()
		}
	}
	return size
}

// Label returns an op's name, followed in brackets, for a fused op, by the names of its first ops.
func Label(o ir.Op) string {
	body, ok := FusedBody(o)
	if !ok {
		return o.Name()
	}
	var names []string
	for _, n := range body.Nodes() {
		l, _ := loopOfNode(n)
		if l.Kind == LoopConstant || l.Kind == LoopSame {
			continue
		}
		if len(names) == labelOps {
			names = append(names, "…")
			break
		}
		names = append(names, n.Op().Name())
	}
	return o.Name() + "(" + strings.Join(names, " ") + ")"
}

// labelOps is the number of ops that a label names.
const labelOps = 6
