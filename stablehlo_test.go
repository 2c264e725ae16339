package galley_test

import (
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/hlo/interp"
	"github.com/galley-ml/galley/internal/lower"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/models"
)

// TestStableHLOSteps: two training steps, written as StableHLO for one device or for a mesh and run by the
// interpreter, have the losses, norms, parameters and state of the CPU.
func TestStableHLOSteps(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes text on one goroutine")
	}
	experts, gpt := smallLlama(), models.Config{Family: "gpt2", Vocab: 24, Hidden: 16, Intermediate: 32,
		Layers: 2, Heads: 4, Positions: 16}
	experts.Family, experts.Experts, experts.ExpertsPerToken = "mixtral", 4, 2
	for _, c := range []struct {
		name       string
		config     models.Config
		mesh, plan string
		extra      []string
	}{
		{"llama", smallLlama(), "", "", nil},
		{"gpt2", gpt, "", "", nil},
		{"mixtral", experts, "", "", nil},
		{"data", smallLlama(), "dp=4", "data", nil},
		{"both", smallLlama(), "dp=2,tp=2", "megatron", nil},
		{"experts", experts, "dp=2,tp=2", "megatron", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, args := stepOf(t, c.config, array.F64, 4, 6)
			one, err := galley.Compile(device(t), p, galley.Options{})
			if err != nil {
				t.Fatal(err)
			}
			run := interpret(t, p)
			if c.mesh != "" {
				m := parseMesh(t, c.mesh)
				run = interpretMany(t, spreadOut(t, p, m, c.plan, c.extra...), m)
			}
			same(t, train(t, p, args, 2, run), train(t, p, args, 2, one.Run), 1e-9)
		})
	}
}

type runner func(args []array.Array) ([]array.Array, error)

func parseModule(t *testing.T, text string, err error) *hlo.Program {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	p, err := hlo.Parse(text)
	if err == nil {
		err = p.Verify()
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// interpret runs a program of one device.
func interpret(t *testing.T, p *galley.Program) runner {
	p, err := pass.Optimize(p)
	if err != nil {
		t.Fatal(err)
	}
	text, err := lower.Module(p, lower.ModuleConfig{})
	module := parseModule(t, text, err)
	return func(args []array.Array) ([]array.Array, error) {
		out, err := interp.Run(module, [][]array.Array{args})
		if err != nil {
			return nil, err
		}
		return out[0], nil
	}
}

// interpretMany runs the programs of all devices as one module, on whole arguments.
func interpretMany(t *testing.T, d *galley.Distributed, m *mesh.Mesh) runner {
	var locals []*galley.Program
	for device := range m.Size() {
		p, err := d.Local(device)
		if err != nil {
			t.Fatal(err)
		}
		locals = append(locals, p)
	}
	text, err := lower.SPMD(locals, lower.ModuleConfig{Config: hlo.Config{Replicas: m.Size()}})
	module := parseModule(t, text, err)
	return func(args []array.Array) ([]array.Array, error) {
		parts := make([][]array.Array, m.Size())
		for i, a := range args {
			at, spec := d.Param(i)
			for device := range parts {
				parts[device] = append(parts[device], cutBox(t, a, at, spec, device))
			}
		}
		out, err := interp.Run(module, parts)
		if err != nil {
			return nil, err
		}
		wholes := make([]array.Array, len(out[0]))
		for i := range wholes {
			at, spec := d.Result(i)
			wholes[i] = array.New(out[0][i].DType(), d.Program().Results()[i].Shape()...)
			for device := range out {
				putBox(t, wholes[i], out[device][i], at, spec, device)
			}
		}
		return wholes, nil
	}
}

// eachOf calls f with the places of a device's elements in the part and in the whole.
func eachOf(t *testing.T, shape array.Shape, m *mesh.Mesh, spec mesh.Spec, device int,
	f func(part, whole int)) array.Shape {
	t.Helper()
	l, err := spec.Layout(m, shape)
	if err != nil {
		t.Fatal(err)
	}
	box, _ := l.Box(device)
	strides, size := shape.Strides(), array.Shape(box.Size)
	for n := range size.Len() {
		at, rest := 0, n
		for d := len(size) - 1; d >= 0; d-- {
			at += (box.Start[d] + rest%size[d]) * strides[d]
			rest /= size[d]
		}
		f(n, at)
	}
	return size
}

func cutBox(t *testing.T, a array.Array, m *mesh.Mesh, spec mesh.Spec, device int) array.Array {
	bytes, size := []byte(nil), a.DType().Size()
	shape := eachOf(t, a.Shape(), m, spec, device, func(_, whole int) {
		bytes = append(bytes, a.Bytes()[whole*size:(whole+1)*size]...)
	})
	part := array.New(a.DType(), shape...)
	copy(part.Bytes(), bytes)
	return part
}

func putBox(t *testing.T, a, part array.Array, m *mesh.Mesh, spec mesh.Spec, device int) {
	size := a.DType().Size()
	eachOf(t, a.Shape(), m, spec, device, func(p, whole int) {
		copy(a.Bytes()[whole*size:(whole+1)*size], part.Bytes()[p*size:(p+1)*size])
	})
}
