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

// program is an executable by its name. On several devices it has copies of the tensors that it captured, by
// device: it takes them as arguments behind the others.
type program struct {
	backend.Executable
	r      *Executor
	name   string
	copies [][]backend.Buffer
}

// Run returns what runs, and adds the copies to the arguments of each device.
func (p *program) Run(args []backend.Buffer) ([]backend.Buffer, error) {
	p.r.doing.runs(p.name)
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

// Close gives the copies back, too.
func (p *program) Close() error {
	free(p.copies)
	p.copies = nil
	return p.Executable.Close()
}

// compile makes a program on whole tensors ready for the devices.
func (r *Executor) compile(p *ir.Func, at layouts, donate []int) (backend.Executable, error) {
	end := r.doing.begin("compile " + p.Name())
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

// copy brings every device a tensor that the program captured.
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

// uncaptured returns a program that takes what it captured as its last parameters, whole on every device.
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

// inputs is arrays that a run is given: those from lo up to hi are the batch, and are as batches do; every
// device has the others whole.
type inputs struct {
	arrays []array.Array
	lo, hi int
}

// spec is how an array of the inputs is laid out.
func (r *Executor) inputSpec(in inputs, k int) mesh.Spec {
	a := in.arrays[k]
	if r.group == nil || k < in.lo || k >= in.hi {
		return mesh.Whole(len(a.Shape()))
	}
	return r.group.Batch(ir.TypeOf(a)).Spec
}
