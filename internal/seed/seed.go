package seed

import (
	"fmt"
	"math"
	"slices"

	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
)

// Config says what to find seeds for.
type Config struct {
	Mesh   *mesh.Mesh
	Prices spmd.Prices
	// Next is, for each result that becomes a parameter of the next run, that parameter's number.
	Next map[int]int
	// Given is annotations of parameters by value ID: closed dims are so, open ones may be split further.
	Given map[int]mesh.Sharding
	// Memory is the bytes that parameters and optimizer states may take on a device; 0 is no limit.
	Memory float64
	// Rounds bounds how long messages are passed; 0 is 100.
	Rounds int
}

// Result is the layout a program should have.
type Result struct {
	// Specs is the layout of every value, by ID: what spmd.Partition takes.
	Specs []mesh.Spec
	// Seeds is what of it the parameters say, as annotations for shard.Infer; what inference makes of them may
	// cost more.
	Seeds map[int]mesh.Sharding
	// Time is the seconds of the labelling in the sum over pairs, Bound what no labelling is below.
	Time, Bound float64
	// Price is what the partitioned program costs.
	Price Price
	// Held is the bytes of parameters on a device.
	Held float64
	// Variables and Labels are the size of the problem after repeated layers were put together.
	Variables, Labels int
}

// Gap returns how far the labelling may be from the best, as a part of it.
func (r *Result) Gap() float64 { return (r.Time - r.Bound) / r.Time }

// Price is what a run of a partitioned program costs on the first device, in seconds.
type Price struct{ Compute, Communication float64 }

// Total returns all of it: nothing overlaps.
func (p Price) Total() float64 { return p.Compute + p.Communication }

// Find finds the layout the values of a program should have, forward and backward together.
func Find(f *ir.Func, c Config) (*Result, error) {
	defer fault.Pass("search of layouts", f)
	if c.Mesh == nil {
		return nil, fmt.Errorf("seeds of %s: want a mesh", f.Name())
	}
	if c.Rounds == 0 {
		c.Rounds = 100
	}
	p, err := newProblem(f, c)
	if err != nil {
		return nil, err
	}
	x, time, bound, err := p.solve()
	if err != nil {
		return nil, err
	}
	r := &Result{Time: time, Bound: bound, Held: p.heldBy(x), Specs: p.place(x), Seeds: map[int]mesh.Sharding{},
		Variables: len(x)}
	for _, u := range p.field.unary {
		r.Labels += len(u)
	}
	for _, v := range f.Params() {
		r.Seeds[v.ID()] = mesh.Closed(r.Specs[v.ID()])
	}
	r.Price, err = PriceOf(f, r.Specs, c)
	return r, err
}

// solve finds a labelling that fits into memory: bytes of parameters get a price, which is raised until they
// do. The bound of the priced problem, less the price of the memory there is, bounds the problem with the
// limit.
func (p *problem) solve() (x []int, time, bound float64, err error) {
	x, time, bound = p.field.solve(p.c.Rounds)
	if p.c.Memory == 0 || p.heldBy(x) <= p.c.Memory {
		return x, time, bound, nil
	}
	low, high := 0.0, 1e-12
	var fits []int
	for ; high < 1 && fits == nil; high *= 8 {
		if y, b := p.priced(high); p.heldBy(y) <= p.c.Memory {
			fits, bound = y, max(bound, b)
			break
		}
		low = high
	}
	if fits == nil {
		return nil, 0, 0, fmt.Errorf("seeds of %s: parameters and states need %.4g bytes a device, split as far "+
			"as the mesh %v allows: %.4g are available",
			p.f.Name(), p.leastHeld(), p.c.Mesh, p.c.Memory)
	}
	best := p.field.energy(fits)
	for range 12 {
		mid := math.Sqrt(max(low, 1e-15) * high)
		y, b := p.priced(mid)
		bound = max(bound, b)
		if p.heldBy(y) > p.c.Memory {
			low = mid
			continue
		}
		high = mid
		if e := p.field.energy(y); e < best {
			fits, best = y, e
		}
	}
	return fits, best, bound, nil
}

// priced solves the problem with a price in seconds for every byte of parameters.
func (p *problem) priced(price float64) ([]int, float64) {
	priced := *p.field
	priced.unary = make([][]float64, len(p.field.unary))
	for v, u := range p.field.unary {
		priced.unary[v] = u
		if held := p.held[v]; held != nil {
			priced.unary[v] = make([]float64, len(u))
			for l := range u {
				priced.unary[v][l] = u[l] + price*held[l]
			}
		}
	}
	x, _, bound := priced.solve(p.c.Rounds)
	return x, bound - price*p.c.Memory
}

func (p *problem) heldBy(x []int) float64 {
	total := 0.0
	for v := range x {
		if held := p.held[v]; held != nil {
			total += held[x[v]]
		}
	}
	return total
}

func (p *problem) leastHeld() float64 {
	total := 0.0
	for v := range p.field.unary {
		if held := p.held[v]; held != nil {
			total += held[argmin(held)]
		}
	}
	return total
}

// place returns the layout of every value under a labelling.
func (p *problem) place(x []int) []mesh.Spec {
	specs := make([]mesh.Spec, p.f.NumValues())
	for id, class := range p.classes.value {
		if v := p.valueVar[class]; v >= 0 {
			specs[id] = p.specs[v][x[v]]
		}
	}
	for i, n := range p.f.Nodes() {
		v := p.nodeVar[p.classes.node[i]]
		for j, y := range n.In() {
			if need := p.labels[v][x[v]].need[j]; p.valueVar[p.classes.value[y.ID()]] < 0 &&
				p.moves(y, specs[y.ID()], need) {
				specs[y.ID()] = need
			}
		}
		for j, y := range n.Out() {
			if p.valueVar[p.classes.value[y.ID()]] < 0 {
				specs[y.ID()] = p.labels[v][x[v]].give[j]
			}
		}
	}
	return specs
}

// moves reports whether devices communicate to bring a value from one Spec to another.
func (p *problem) moves(v *ir.Value, from, to mesh.Spec) bool {
	moves, _, err := p.routes.router.Reshard(v.Type(), from, to)
	return err == nil && slices.ContainsFunc(moves, func(m spmd.Move) bool { return !m.Kind.Local() })
}

// PriceOf returns what a program costs whose values have the layout that Specs say, by ID.
func PriceOf(f *ir.Func, specs []mesh.Spec, c Config) (Price, error) {
	results := make([]mesh.Spec, len(f.Results()))
	for i, v := range f.Results() {
		results[i] = specs[v.ID()].With()
		if k, ok := c.Next[i]; ok {
			results[i] = specs[f.Params()[k].ID()]
		}
	}
	program, err := spmd.Partition(f, specs, c.Mesh, spmd.Config{Prices: c.Prices, Results: results})
	if err != nil {
		return Price{}, err
	}
	var p Price
	for _, x := range program.Inserted() {
		p.Communication += x.Move.Cost.Time
	}
	p.Compute, err = program.Computing(c.Mesh.Devices()[0], c.Prices)
	return p, err
}
