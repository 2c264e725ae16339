package interp

import (
	"fmt"
	"maps"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
)

// Run checks and runs a program on as many devices as there are lists of operands.
func Run(p *hlo.Program, args [][]array.Array) (results [][]array.Array, err error) {
	if err := p.Verify(); err != nil {
		return nil, err
	}
	m := &machine{devices: len(args)}
	defer func() {
		switch e := recover().(type) {
		case nil:
		case fault:
			results, err = nil, fmt.Errorf("stablehlo: line %d: %w", m.line, e.error)
		default:
			panic(e)
		}
	}()
	env := make([]scope, len(args))
	for d, list := range args {
		env[d] = scope{}
		if len(list) != len(p.Main.Params) {
			return nil, fmt.Errorf("stablehlo: device %d has %d operands: want %d", d, len(list), len(p.Main.Params))
		}
		for i, a := range list {
			t := fromArray(a)
			if !t.Equal(p.Main.Params[i].Type) {
				return nil, fmt.Errorf("stablehlo: operand %d is %v: want %v", i, t.TensorType, p.Main.Params[i].Type)
			}
			env[d][p.Main.Params[i].Name] = t
		}
	}
	for _, list := range m.block(p.Main, env) {
		out := make([]array.Array, len(list))
		for i, t := range list {
			out[i] = t.array()
		}
		results = append(results, out)
	}
	return results, nil
}

// scope holds the values of one device, by name.
type scope map[string]tensor

type machine struct{ devices, line int }

// block runs operations on every device in lockstep and returns the results of each.
func (m *machine) block(b hlo.Block, env []scope) [][]tensor {
	for _, o := range b.Ops {
		m.line = o.Line
		in := make([][]tensor, len(env))
		for d := range env {
			in[d] = make([]tensor, len(o.Operands))
			for i, name := range o.Operands {
				t, ok := env[d][name]
				if !ok {
					fail("%s: value %s is not defined", o.Name, name)
				}
				in[d][i] = t
			}
		}
		if o.Name == "func.return" || o.Name == "stablehlo.return" {
			return in
		}
		for d, list := range m.operation(o, in, env) {
			for i, t := range list {
				if !t.Equal(o.Out[i]) {
					fail("%s: result %d is %v: want %v", o.Name, i, t.TensorType, o.Out[i])
				}
				env[d][o.ResultName(i)] = t
			}
		}
	}
	fail("a block that returns nothing")
	return nil
}

// operation runs one operation on all devices.
func (m *machine) operation(o *hlo.Operation, in [][]tensor, env []scope) [][]tensor {
	name, ok := strings.CutPrefix(o.Name, "stablehlo.")
	if !ok {
		fail("%s: unknown dialect", o.Name)
	}
	if f, ok := collectives[name]; ok {
		return f(m, o, in)
	}
	switch name {
	case "case":
		return m.branch(o, in, env)
	case "while":
		return m.loop(o, in)
	}
	out := make([][]tensor, len(in))
	for d := range in {
		out[d] = m.local(name, o, in[d])
	}
	return out
}

// branch runs on each device the region that it selects, with access to all its values; in lockstep if all
// select the same, so that the region may have collectives.
func (m *machine) branch(o *hlo.Operation, in [][]tensor, env []scope) [][]tensor {
	which, own := make([]int, len(in)), make([]scope, len(in))
	agreed := true
	for d := range in {
		which[d], own[d] = int(in[d][0].i[0]), maps.Clone(env[d])
		if which[d] < 0 || which[d] >= len(o.Regions) {
			which[d] = len(o.Regions) - 1
		}
		agreed = agreed && which[d] == which[0]
	}
	if agreed && len(in) > 0 {
		return m.block(o.Regions[which[0]], own)
	}
	out := make([][]tensor, len(in))
	for d := range in {
		out[d] = m.block(o.Regions[which[d]], own[d:d+1])[0]
	}
	return out
}

// loop runs a loop on all devices in lockstep: they must end it together, since it may have collectives.
func (m *machine) loop(o *hlo.Operation, in [][]tensor) [][]tensor {
	line := m.line
	for {
		going := m.block(o.Regions[0], scopes(o.Regions[0], in))
		for _, g := range going {
			if g[0].i[0] != going[0][0].i[0] {
				m.line = line
				fail("%s: devices end the loop at different trips", o.Name)
			}
		}
		if len(going) == 0 || going[0][0].i[0] == 0 {
			return in
		}
		in = m.block(o.Regions[1], scopes(o.Regions[1], in))
	}
}

// scopes returns a scope with a region's parameters for each device.
func scopes(b hlo.Block, in [][]tensor) []scope {
	env := make([]scope, len(in))
	for d, list := range in {
		env[d] = scope{}
		for i, p := range b.Params {
			env[d][p.Name] = list[i]
		}
	}
	return env
}

// local runs an operation without communication.
func (m *machine) local(name string, o *hlo.Operation, in []tensor) []tensor {
	if f, ok := elementwise(name, in); ok {
		return []tensor{f}
	}
	f, ok := operations[name]
	if !ok {
		fail("%s: unknown operation", o.Name)
	}
	return f(m, o, in)
}

// region returns a region as a function of one device's values.
func (m *machine) region(b hlo.Block) func(in []tensor) []tensor {
	if f := simple(b); f != nil {
		return f
	}
	return func(in []tensor) []tensor {
		env := scope{}
		for i, p := range b.Params {
			env[p.Name] = in[i]
		}
		line := m.line
		out := m.block(b, []scope{env})[0]
		m.line = line
		return out
	}
}

// simple returns a region that is one operation on its parameters as a function without scopes; nil if it is
// more.
func simple(b hlo.Block) func(in []tensor) []tensor {
	if len(b.Ops) != 2 || len(b.Params) != 2 || len(b.Ops[1].Operands) != 1 ||
		b.Ops[1].Operands[0] != b.Ops[0].Result {
		return nil
	}
	o := b.Ops[0]
	if len(o.Operands) != 2 || o.Operands[0] != b.Params[0].Name || o.Operands[1] != b.Params[1].Name {
		return nil
	}
	name := strings.TrimPrefix(o.Name, "stablehlo.")
	return func(in []tensor) []tensor {
		t, ok := elementwise(name, in)
		if !ok {
			return operations[name](nil, o, in)
		}
		return []tensor{t}
	}
}

type operation func(m *machine, o *hlo.Operation, in []tensor) []tensor

// operations holds those that run on each device by itself; it is set in init to avoid an initialization
// cycle.
var operations map[string]operation

func init() {
	operations = map[string]operation{
		"constant": func(_ *machine, o *hlo.Operation, _ []tensor) []tensor {
			return []tensor{constant(o.Attr("value").(hlo.DenseAttr))}
		},
		"optimization_barrier": func(_ *machine, _ *hlo.Operation, in []tensor) []tensor { return in },
		"compare":              compare, "convert": convert, "bitcast_convert": bitcast, "select": selectOp,
		"clamp": clamp, "is_finite": isFinite,
		"broadcast_in_dim": broadcast, "reshape": reshape, "transpose": transpose, "iota": iota, "slice": slice,
		"pad":         pad,
		"concatenate": concatenate, "reverse": reverse, "dynamic_slice": dynamicSlice,
		"dynamic_update_slice": dynamicUpdateSlice,
		"reduce":               reduce, "reduce_window": reduceWindow, "select_and_scatter": selectAndScatter,
		"sort":        sortOp,
		"dot_general": dotGeneral, "convolution": convolution, "gather": gather, "scatter": scatter,
		"custom_call": customCall,
	}
}

// ints returns the integers of an attribute.
func ints(o *hlo.Operation, name string) []int {
	xs, err := hlo.IntsOf(o.Attr(name))
	if err != nil {
		fail("%s: %s: %v", o.Name, name, err)
	}
	return xs
}

func number(o *hlo.Operation, name string) int { return ints(o, name)[0] }

// fields returns a list in a struct attribute; empty if it is omitted.
func fields(o *hlo.Operation, attr, name string) []int {
	a := o.Attr(attr).(hlo.StructAttr).Field(name)
	if a == nil {
		return nil
	}
	xs, err := hlo.IntsOf(a)
	if err != nil {
		fail("%s: %s: %v", o.Name, name, err)
	}
	return xs
}
