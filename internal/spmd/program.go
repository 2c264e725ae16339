package spmd

import (
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Program is a program for the devices of one or several meshes. Decisions that are common to all devices
// have been made; the programs of single devices are built on request. It is not safe for concurrent use.
type Program struct {
	f        *ir.Func
	main     *mesh.Mesh
	meshes   []*mesh.Mesh
	layouts  []op.Layout
	steps    []step
	results  []convert
	inserted []Inserted
	features []feature
	locals   map[string]*ir.Func
}

// step is one node with the conversions before and after it.
type step struct {
	node   *ir.Node
	how    *decision
	before []convert // one for each operand
	after  []convert // one for each result
}

// convert reshards a version of a value.
type convert struct {
	from, to op.Layout
	legs     []leg
}

// leg is moves on one mesh, or one move between two.
type leg struct {
	from, to *mesh.Mesh
	moves    []Move
}

// Global returns the program that was partitioned.
func (p *Program) Global() *ir.Func { return p.f }

// Mesh returns the default mesh of values.
func (p *Program) Mesh() *mesh.Mesh { return p.main }

// Crosses reports whether the program's values are on several meshes, so that its devices do not all run the
// same nodes.
func (p *Program) Crosses() bool { return len(p.meshes) > 1 }

// Devices returns the devices of all meshes, in order.
func (p *Program) Devices() []int {
	var all []int
	for _, m := range p.meshes {
		all = append(all, m.Devices()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Param returns the layout of a parameter.
func (p *Program) Param(i int) op.Layout { return p.layouts[p.f.Params()[i].ID()] }

// Result returns the layout of a result.
func (p *Program) Result(i int) op.Layout { return p.results[i].to }

// ParamsOf returns the numbers of the parameters of a device's program: those whose mesh contains it.
func (p *Program) ParamsOf(device int) []int {
	var list []int
	for i := range p.f.Params() {
		if p.Param(i).Mesh.Contains(device) {
			list = append(list, i)
		}
	}
	return list
}

// ResultsOf returns the numbers of the results that a device's program returns.
func (p *Program) ResultsOf(device int) []int {
	var list []int
	for i := range p.results {
		if p.Result(i).Mesh.Contains(device) {
			list = append(list, i)
		}
	}
	return list
}

// Inserted returns the communication, in program order.
func (p *Program) Inserted() []Inserted { return p.inserted }

// ParamSpec returns the Spec of a parameter, on any mesh.
func (p *Program) ParamSpec(i int) mesh.Spec { return p.Param(i).Spec }

// ResultSpec returns the Spec of a result, on any mesh.
func (p *Program) ResultSpec(i int) mesh.Spec { return p.Result(i).Spec }

// How returns how a node of the program, by its number, runs: the required layouts of its operands and the
// resulting ones of its results.
func (p *Program) How(node int) (need, give []mesh.Spec) {
	d := p.steps[node].how
	return d.need, d.give
}
