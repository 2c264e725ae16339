package runtime_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm/inproc"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/internal/runtime"
	"github.com/galley-ml/galley/internal/seed"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

var (
	programs = flag.Int("programs", 300, "random programs that are compared with one device")
	first    = flag.Int("first", 0, "number of the first random program")
	flows    = flag.Bool("flow", true, "loops and choices among the ops of random programs")
)

// worlds is the meshes of one program: one alone, parts of one, and meshes that share devices or do not.
var worlds = [][]string{
	{"x=2"}, {"x=4"}, {"x=2,y=2"}, {"x=3"}, {"x=6"}, {"x=2,y=3"},
	{"x=2,y=2", "y=2@[1,2]"}, {"x=2@[0,1]", "y=2@[2,3]"}, {"x=3@[0,1,2]", "x=2,y=2"},
	{"x=4", "y=4@[3,2,1,0]", "z=2@[0,2]"},
	{"x=2,y=2,z=2"}, {"x=2", "y=3@[1,2,3]"},
}

// TestPrograms: random programs, annotated at random, compute on meshes what they compute on one device,
// eagerly, as one static program, and some as a search lays them, results and gradients.
func TestPrograms(t *testing.T) {
	n := *programs
	if testing.Short() {
		n = min(n, 100)
	}
	const lanes = 4
	for lane := range lanes {
		t.Run(fmt.Sprint(lane), func(t *testing.T) {
			t.Parallel()
			for i := *first + lane; i < *first+n; i += lanes {
				if err := tryProgram(uint64(i)); err != nil {
					t.Errorf("program %d (-args -first %d -programs 1): %v", i, i, err)
				}
			}
		})
	}
}

// tryProgram runs one program in all ways; a panic is an error like any other.
func tryProgram(number uint64) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	c := newCase(number)
	want, err := c.alone()
	if err != nil {
		return fmt.Errorf("one device: %w", err)
	}
	host := cpu.NewDevice(cpu.Config{Threads: 1})
	defer host.Close()
	w, err := inproc.New(8)
	if err != nil {
		return err
	}
	s := runtime.NewSession(host, w)
	defer s.Close()
	got, err := c.eager(s)
	if err == nil {
		err = c.compare(got, want)
	}
	if err != nil {
		return fmt.Errorf("eager: %w", err)
	}
	if got, err = c.static(s); err == nil {
		err = c.compare(got, want)
	}
	if err != nil {
		return fmt.Errorf("static: %w", err)
	}
	if len(c.meshes) > 1 || c.meshes[0].Size() > 4 || number%10 != 0 {
		return nil
	}
	if got, err = c.searched(s); err == nil {
		err = c.compare(got, want)
	}
	if err != nil {
		return fmt.Errorf("searched: %w", err)
	}
	return nil
}

// program is one random program; its parameters' values are kept by number.
type program struct {
	seed   uint64
	dtype  array.DType
	meshes []*mesh.Mesh
	args   []array.Array
}

func newCase(seed uint64) *program {
	rng := rand.New(rand.NewPCG(seed, 1))
	c := &program{seed: seed, dtype: array.F64}
	if rng.IntN(4) == 0 {
		c.dtype = array.F32
	}
	for _, text := range worlds[rng.IntN(len(worlds))] {
		m, err := mesh.Parse(text)
		if err != nil {
			panic(err)
		}
		c.meshes = append(c.meshes, m)
	}
	return c
}

func (c *program) gen() *gen {
	return &gen{rng: rand.New(rand.NewPCG(c.seed, 2)), dtype: c.dtype, meshes: c.meshes}
}

// arg returns the value of the next parameter.
func (c *program) arg(i int, shape array.Shape) array.Array {
	if i == len(c.args) {
		a, rng := array.New(c.dtype, shape...), rand.New(rand.NewPCG(c.seed, uint64(100+i)))
		for k := range a.Len() {
			a.Set(k, rng.Float64()*2-1)
		}
		c.args = append(c.args, a)
	}
	return c.args[i]
}

// trace returns the program with its gradients, and the annotations of its parameters; plain leaves
// annotations out.
func (c *program) trace(plain bool) (*ir.Func, []layout, error) {
	b, g := ir.NewBuilder("main"), c.gen()
	var layouts []layout
	var params []*op.Tensor
	g.param = func(shape array.Shape, at layout) *op.Tensor {
		a := c.arg(len(params), shape)
		layouts = append(layouts, at)
		params = append(params, b.Param(fmt.Sprintf("p%d", len(params)), ir.TypeOf(a)))
		return params[len(params)-1]
	}
	g.lay = func(x *op.Tensor, at layout) *op.Tensor {
		if plain || at.mesh == nil {
			return x
		}
		return op.Constrain(x, at.mesh, at.sharding)
	}
	results := c.finish(g, &params)
	f, err := b.Build(results...)
	if err == nil && c.seed%2 == 0 && !plain {
		f, err = pass.Optimize(f)
	}
	return f, layouts, err
}

// finish returns the program's results and the gradients of the sum of their squares.
func (c *program) finish(g *gen, params *[]*op.Tensor) []*op.Tensor {
	results := g.run()
	var loss *op.Tensor
	for _, r := range results {
		if !r.DType().IsFloat() {
			continue
		}
		one := g.lay(op.SumSquares(op.Tanh(r)), layout{c.meshes[0], mesh.Closed(mesh.Whole(0))})
		if loss == nil {
			loss = one
		} else {
			loss = op.Add(loss, one)
		}
	}
	if loss == nil {
		return results
	}
	return append(append(results, loss), op.Grad([]*op.Tensor{loss}, nil, *params)...)
}

func (c *program) alone() ([]array.Array, error) {
	f, _, err := c.trace(true)
	if err != nil {
		return nil, err
	}
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
	e, err := d.Compile(f, cpu.Options{})
	if err != nil {
		return nil, err
	}
	return e.Run(c.args)
}

func (c *program) eager(s *runtime.Session) ([]array.Array, error) {
	g := c.gen()
	var params []*op.Tensor
	g.lay = func(x *op.Tensor, at layout) *op.Tensor { return op.Constrain(x, at.mesh, at.sharding) }
	g.param = func(shape array.Shape, at layout) *op.Tensor {
		x := s.Tensor(c.arg(len(params), shape))
		if at.mesh != nil {
			x = g.lay(x, at)
		}
		if x.Err() == nil {
			x = x.Track()
		}
		params = append(params, x)
		return x
	}
	var out []array.Array
	for i, r := range c.finish(g, &params) {
		a, err := runtime.Read(r)
		if err != nil {
			return nil, fmt.Errorf("result %d: %w", i, err)
		}
		out = append(out, a)
	}
	return out, nil
}

func (c *program) static(s *runtime.Session) ([]array.Array, error) {
	f, given, meshes, err := c.annotated()
	if err != nil {
		return nil, err
	}
	r, err := shard.Infer(f, shard.Config{Mesh: c.meshes[0], Values: given, Meshes: meshes})
	if err != nil {
		return nil, err
	}
	return c.partitioned(s, f, r.Specs, r.Meshes)
}

// searched is like static with whatever a search finds where annotations say nothing.
func (c *program) searched(s *runtime.Session) ([]array.Array, error) {
	f, given, _, err := c.annotated()
	if err != nil {
		return nil, err
	}
	r, err := seed.Find(f, seed.Config{Mesh: c.meshes[0], Given: given, Rounds: 5})
	if err != nil {
		return nil, err
	}
	return c.partitioned(s, f, r.Specs, slices.Repeat(c.meshes, f.NumValues()))
}

// annotated returns the program with annotations by value.
func (c *program) annotated() (*ir.Func, map[int]mesh.Sharding, map[int]*mesh.Mesh, error) {
	f, layouts, err := c.trace(false)
	given, meshes := map[int]mesh.Sharding{}, map[int]*mesh.Mesh{}
	for i, at := range layouts {
		if err == nil && at.mesh != nil {
			given[f.Params()[i].ID()], meshes[f.Params()[i].ID()] = at.sharding, at.mesh
		}
	}
	return f, given, meshes, err
}

func (c *program) partitioned(
	s *runtime.Session, f *ir.Func, specs []mesh.Spec, meshes []*mesh.Mesh,
) ([]array.Array, error) {
	config := spmd.Config{Meshes: meshes, Results: c.returned(f, meshes)}
	p, err := spmd.Partition(f, specs, c.meshes[0], config)
	if err != nil {
		return nil, err
	}
	e, err := s.Compile(p, runtime.CompileConfig{})
	if err != nil {
		return nil, err
	}
	return e.Run(c.args)
}

// returned returns how results are asked for, some of them anyhow.
func (c *program) returned(f *ir.Func, meshes []*mesh.Mesh) []mesh.Spec {
	rng, list := rand.New(rand.NewPCG(c.seed, 3)), make([]mesh.Spec, len(f.Results()))
	for i, v := range f.Results() {
		if v.DType().IsFloat() && rng.IntN(3) == 0 {
			g := &gen{rng: rng, meshes: []*mesh.Mesh{meshes[v.ID()]}}
			list[i] = g.draw(len(v.Shape())).sharding.Spec
		}
	}
	return list
}

// compare holds results to those of one device.
func (c *program) compare(got, want []array.Array) error {
	if len(got) != len(want) {
		return fmt.Errorf("got %d results, want %d", len(got), len(want))
	}
	tolerance := 1e-9
	if c.dtype == array.F32 {
		tolerance = 2e-3
	}
	for i, w := range want {
		if !got[i].Shape().Equal(w.Shape()) || got[i].DType() != w.DType() {
			return fmt.Errorf("result %d: got %v, want %v", i, ir.TypeOf(got[i]), ir.TypeOf(w))
		}
		for k := range w.Len() {
			x, y := got[i].At(k), w.At(k)
			both := math.IsNaN(x) && math.IsNaN(y)
			if e := math.Abs(x - y); !both && !(e <= tolerance*max(1, math.Abs(y))) {
				return fmt.Errorf("result %d of %d: element %d: got %v, want %v", i, len(want), k, x, y)
			}
		}
	}
	return nil
}
