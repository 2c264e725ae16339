package step

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// remote runs the programs of a step's device on a backend. The step's memory stays on the host: operands are
// copied to the backend and results back.
type remote struct {
	b    backend.Backend
	exes map[*cpu.Executable]backend.Executable
}

// remotes returns the backend of each device that has one, by the ranks of the pipeline.
func (p *Plan) remotes(ranks []backend.Backend) (map[int]*remote, error) {
	list := map[int]*remote{}
	if len(ranks) > len(p.Meshes) {
		return nil, fmt.Errorf("step: backends of %d ranks: the pipeline has %d", len(ranks), len(p.Meshes))
	}
	for rank, b := range ranks {
		if b == nil {
			continue
		}
		devices := []backend.Backend{b}
		if g, ok := b.(backend.Group); ok {
			devices = g.Devices()
		}
		for i, id := range p.Meshes[rank].Devices() {
			list[id] = &remote{devices[i%len(devices)], map[*cpu.Executable]backend.Executable{}}
		}
	}
	return list, nil
}

// runs reports whether the backend computes a program: programs with communication run on the host.
func (r *remote) runs(e *cpu.Executable) bool {
	return r != nil && !slices.ContainsFunc(e.Func().Nodes(), func(n *ir.Node) bool {
		_, meets := n.Op().(op.Collective)
		return meets
	})
}

// run computes a program's results from args.
func (r *remote) run(e *cpu.Executable, args, results []array.Array) error {
	exe, ok := r.exes[e]
	if !ok {
		var err error
		if exe, err = r.b.Compile(e.Func(), backend.Options{}); err != nil {
			return fmt.Errorf("%s: %w", r.b.Name(), err)
		}
		r.exes[e] = exe
	}
	in := make([]backend.Buffer, len(args))
	for i, a := range args {
		b, err := r.b.Put(a)
		if err != nil {
			return err
		}
		defer b.Free()
		in[i] = b
	}
	out, err := exe.Run(in)
	if err != nil {
		return fmt.Errorf("%s: %w", r.b.Name(), err)
	}
	for i, b := range out {
		a, err := b.Read()
		if err != nil {
			return fmt.Errorf("%s: %w", r.b.Name(), err)
		}
		copy(results[i].Bytes(), a.Bytes())
		b.Free()
	}
	return nil
}

// close releases the programs; the backend belongs to the caller.
func (r *remote) close() {
	for _, e := range r.exes {
		e.Close()
	}
}
