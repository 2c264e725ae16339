package distribute

import (
	"fmt"
	"maps"
	"slices"

	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/layout"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/internal/runtime"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Prices are the costs of communication and computation; Link is that of one mesh axis.
type (
	Prices = spmd.Prices
	Link   = spmd.Link
)

// Strictness says how to treat communication that no annotation asked for.
type Strictness = spmd.Strictness

// Implicit communication is listed, or fails with an *UnaskedError.
const (
	AllowUnasked  = spmd.Allow
	ForbidUnasked = spmd.Forbid
)

// Config has the mesh and the requested shardings of a program's tensors. Whatever it leaves out is inferred.
type Config struct {
	// Mesh is the default mesh of all values.
	Mesh *mesh.Mesh
	// Annotations request shardings by parameter name; the first match wins. An annotation that matches
	// nothing is an error.
	Annotations []mesh.Annotation
	// Params and Results request shardings by index. Params take precedence over Annotations.
	Params, Results map[int]mesh.Sharding
	// Next has, for each result that becomes a parameter of the next run, the index of that parameter: the
	// result is returned in its sharding. StepNext returns that of a training step.
	Next map[int]int
	// Choice selects inference or search for values without annotations.
	Choice Choice
	Strict Strictness
	Prices Prices
}

// StepNext returns, by result index, which parameter each result of a TraceStep program is the next value of.
// The loss and the norm have none.
func StepNext(p *ir.Func) map[int]int {
	next := map[int]int{}
	for i := 2; i < len(p.Results()); i++ {
		next[i] = i - 2
	}
	return next
}

// Program is a program with a sharding for every value and a local program for every device.
type Program struct {
	config   Config
	f        *ir.Func
	inferred *shard.Result
	program  *spmd.Program
	search   *SearchReport
}

// New infers the sharding of every value and partitions the program into one per device. The program is
// optimised first; parameters and results keep their order.
func New(p *ir.Func, c Config) (d *Program, err error) {
	defer fault.Recover(p.Name(), &err)
	if c.Mesh == nil {
		return nil, fmt.Errorf("distribute %s: want a mesh", p.Name())
	}
	if p, err = pass.Optimize(p); err != nil {
		return nil, err
	}
	asked, err := layout.Asked(p, c.Mesh, c.Annotations, c.Params)
	if err == nil {
		err = c.checkResults(p)
	}
	if err != nil {
		return nil, fmt.Errorf("distribute %s: %w", p.Name(), err)
	}
	d = &Program{config: c, f: p}
	if err = d.infer(asked); err != nil {
		return nil, err
	}
	if err = d.partition(); err != nil {
		return nil, err
	}
	if list := d.Unasked(); c.Strict == ForbidUnasked && len(list) > 0 {
		return nil, &UnaskedError{list}
	}
	return d, nil
}

// checkResults refuses what is said of results that there are not.
func (c Config) checkResults(p *ir.Func) error {
	for _, i := range slices.Sorted(maps.Keys(c.Results)) {
		if i < 0 || i >= len(p.Results()) {
			return fmt.Errorf("sharding of result %d: it has %d", i, len(p.Results()))
		}
	}
	for _, i := range slices.Sorted(maps.Keys(c.Next)) {
		k := c.Next[i]
		if i < 0 || i >= len(p.Results()) || k < 0 || k >= len(p.Params()) {
			return fmt.Errorf("result %d becomes parameter %d: it has %d results and %d parameters", i, k,
				len(p.Results()), len(p.Params()))
		}
		if r, q := p.Results()[i].Type(), p.Params()[k].Type(); !r.Equal(q) {
			return fmt.Errorf("result %d becomes parameter %d: got %v, want %v", i, k, r, q)
		}
	}
	return nil
}

func (d *Program) infer(asked map[int]mesh.Sharding) (err error) {
	if d.config.Choice == Searched {
		return d.find(asked)
	}
	results := make([]mesh.Sharding, len(d.f.Results()))
	for i, s := range d.config.Results {
		results[i] = s
	}
	d.inferred, err = shard.Infer(d.f, shard.Config{Mesh: d.config.Mesh, Values: asked, Results: results})
	return err
}

func (d *Program) partition() (err error) {
	asked := d.constrained()
	results := make([]mesh.Spec, len(d.f.Results()))
	if d.search != nil {
		copy(results, d.inferred.Results)
	}
	for i := range d.config.Results {
		asked[d.f.Results()[i].ID()] = true
		results[i] = d.inferred.Results[i]
	}
	for i, k := range d.config.Next {
		param, result := d.f.Params()[k].ID(), d.f.Results()[i].ID()
		if _, said := d.config.Results[i]; !said && d.inferred.Meshes[param].Equal(d.inferred.Meshes[result]) {
			results[i] = d.inferred.Specs[param]
		}
	}
	d.program, err = spmd.Partition(d.f, d.inferred.Specs, d.config.Mesh, spmd.Config{
		Prices: d.config.Prices, Asked: asked, Meshes: d.inferred.Meshes, Results: results,
	})
	return err
}

// constrained is, by value, whether a constraint is what it is laid out so for.
func (d *Program) constrained() []bool {
	asked := make([]bool, d.f.NumValues())
	for _, n := range d.f.Nodes() {
		if _, ok := n.Op().(op.Constrainer); !ok {
			continue
		}
		in, out := n.In()[0].ID(), n.Out()[0].ID()
		asked[out] = true
		asked[in] = asked[in] || d.inferred.Specs[in].Equal(d.inferred.Specs[out])
	}
	return asked
}

// Program returns the optimised global program, whose value IDs the other methods use.
func (d *Program) Program() *ir.Func { return d.f }

// Mesh returns the device mesh.
func (d *Program) Mesh() *mesh.Mesh { return d.config.Mesh }

// Specs returns the sharding of every value, by ID.
func (d *Program) Specs() []mesh.Spec { return d.inferred.Specs }

// Meshes returns the mesh of every value, by ID.
func (d *Program) Meshes() []*mesh.Mesh { return d.inferred.Meshes }

// Reasons returns, by ID, why every value has its sharding: annotations first, then inferences in order.
func (d *Program) Reasons() [][]string { return d.inferred.Reasons }

// Param returns the sharding in which a parameter is passed.
func (d *Program) Param(i int) (*mesh.Mesh, mesh.Spec) {
	at := d.program.Param(i)
	return at.Mesh, at.Spec
}

// Result returns the sharding in which a result is returned.
func (d *Program) Result(i int) (*mesh.Mesh, mesh.Spec) {
	at := d.program.Result(i)
	return at.Mesh, at.Spec
}

// Local returns the program of one device; devices whose programs are equal share it.
func (d *Program) Local(device int) (p *ir.Func, err error) {
	defer fault.Recover(d.f.Name(), &err)
	return d.program.Local(device)
}

// Memory plans the memory of one device's program without allocating it. Parameters named by Next are updated
// in place.
func (d *Program) Memory(device int) (m cpu.Memory, err error) {
	defer fault.Recover(d.f.Name(), &err)
	local, err := d.program.Local(device)
	if err != nil {
		return m, err
	}
	var donated []int
	given := slices.Collect(maps.Values(d.config.Next))
	for k, i := range d.program.ParamsOf(device) {
		if slices.Contains(given, i) {
			donated = append(donated, k)
		}
	}
	return cpu.MemoryOf(local, cpu.Options{Donate: donated})
}

// Executable is a distributed program, compiled for the devices of a world.
type Executable = runtime.Executable

// Options configures Compile.
type Options = runtime.CompileConfig

// Compile plans the memory of every device once; devices with equal programs share the plan.
func (d *Program) Compile(w *runtime.Session, o Options) (e *Executable, err error) {
	defer fault.Recover(d.f.Name(), &err)
	return w.Compile(d.program, o)
}

// Plans returns the names of the built-in sets of annotations.
func Plans() []string { return layout.Plans() }

// PlanAnnotations returns a built-in set of annotations for a training step of one of the models' families:
//
//	data      the batch by axis dp, its sequences by cp, experts by ep, which then cuts the batch, too
//	megatron  also the heads, the inner width and the vocabulary by axis tp: column, row and vocabulary parallel
//	none      nothing
//
// Axes that the mesh lacks are left out, as is what the program has no parameters for.
func PlanAnnotations(name string, p *ir.Func, m *mesh.Mesh) ([]mesh.Annotation, error) {
	return layout.Plan(name, p, m)
}
