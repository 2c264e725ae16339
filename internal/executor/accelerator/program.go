package accelerator

import (
	"errors"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// program is an executable with a name. On several devices it holds copies of the tensors that the program
// captured, by device, and passes them as its last arguments.
type program struct {
	backend.Executable
	r      *Executor
	name   string
	copies [][]backend.Buffer
}

// Run runs the program with the copies added to the arguments of each device.
func (p *program) Run(args []backend.Buffer) ([]backend.Buffer, error) {
	p.r.inFlight.setProgram(p.name)
	if len(p.copies) == 0 {
		return p.Executable.Run(args)
	}
	n := len(args) / len(p.copies)
	var all []backend.Buffer
	for d, list := range p.copies {
		all = append(append(all, args[d*n:(d+1)*n]...), list...)
	}
	return p.Executable.Run(all)
}

// Close releases the program and the copies.
func (p *program) Close() error {
	free(p.copies)
	p.copies = nil
	return p.Executable.Close()
}

// compile compiles a program on whole tensors for the devices.
func (r *Executor) compile(p *ir.Func, at layouts, donate []int) (backend.Executable, error) {
	end := r.inFlight.begin("compile " + p.Name())
	defer end()
	if r.group == nil {
		p, err := r.c.OptimizeLocal(p)
		if err != nil {
			return nil, err
		}
		exe, err := r.b.Compile(p, cpu.Options{Donate: donate})
		return &program{Executable: exe, r: r, name: p.Name()}, err
	}
	captured := p.Captures()
	p, at, err := uncaptured(p, at)
	if err != nil {
		return nil, err
	}
	exe, err := r.group.compile(p, at, donate)
	if err != nil {
		return nil, err
	}
	out := &program{Executable: exe, r: r, name: p.Name()}
	for _, x := range captured {
		if err := out.copy(x); err != nil {
			return nil, errors.Join(err, out.Close())
		}
	}
	return out, nil
}

// copy copies a captured tensor to every device.
func (p *program) copy(x *op.Tensor) error {
	a, err := cpu.Read(x)
	if err != nil {
		return err
	}
	list, err := p.r.group.put(a, mesh.Whole(len(a.Shape())))
	if p.copies == nil {
		p.copies = make([][]backend.Buffer, len(list))
	}
	for d, b := range list {
		p.copies[d] = append(p.copies[d], b)
	}
	return err
}

// uncaptured turns the captured tensors of a program into its last parameters, replicated on every device.
func uncaptured(p *ir.Func, at layouts) (*ir.Func, layouts, error) {
	if len(p.Captures()) == 0 {
		return p, at, nil
	}
	b := ir.NewBuilder(p.Name())
	var args []*op.Tensor
	for _, v := range p.Params() {
		args = append(args, b.Param(v.Name(), v.Type()))
	}
	own, err := b.Build(p.Replay(b, args, nil)...)
	if err != nil {
		return nil, at, err
	}
	at.params = slices.Clone(at.params)
	for _, v := range own.Params()[len(at.params):] {
		at.params = append(at.params, mesh.Closed(mesh.Whole(len(v.Shape()))))
	}
	return own, at, nil
}

// inputs is the host arrays of a run: those from lo up to hi are the batch, with its layout; the others are
// replicated.
type inputs struct {
	arrays []array.Array
	lo, hi int
}

// inputSpec returns the layout of array k of the inputs.
func (r *Executor) inputSpec(in inputs, k int) mesh.Spec {
	a := in.arrays[k]
	if r.group == nil || k < in.lo || k >= in.hi {
		return mesh.Whole(len(a.Shape()))
	}
	return r.group.Batch(ir.TypeOf(a)).Spec
}
