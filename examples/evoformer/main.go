// Command evoformer trains a block of AlphaFold's Evoformer by branch parallelism: the branch of sequences
// runs on one device, the branch of pairs at the same time on another, and they meet at the end of the block.
// Once annotations say so, and once the planner finds it. The losses are those of one device.
//
// With -time it takes steps of a larger block and compares their time with that of data parallelism, where a
// device has a sample of its own: predicted and measured.
package main

import (
	"flag"
	"fmt"
	"log"
	"strings"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/distribute"
	"github.com/galley-ml/galley/dtensor"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

const (
	sequences, residues = 6, 12
	steps               = 4
	rate                = 0.05
)

var small = Config{MSA: 16, Pair: 12, Heads: 2, Dim: 8, Triangle: 8, Outer: 4, Expand: 2}

func main() {
	timed := flag.Bool("time", false, "compare times in place of losses")
	flag.Parse()
	f := run
	if *timed {
		f = compare
	}
	if err := f(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	host := galley.CPU(galley.Config{})
	defer host.Close()
	w, err := dtensor.NewWorld(host, 2)
	if err != nil {
		return err
	}
	defer w.Close()
	first, err := mesh.Parse("x=1")
	if err != nil {
		return err
	}
	second, err := mesh.Parse("x=1@[1]")
	if err != nil {
		return err
	}
	b := branches{world: w, first: first, second: first, config: small, sequences: sequences, residues: residues}
	one, err := b.train()
	if err != nil {
		return err
	}
	b.second = second
	two, err := b.train()
	if err != nil {
		return err
	}
	b.planned = &distribute.Prices{Flop: 1e-9, Memory: 1e-10} // slow devices, fast messages
	found, err := b.train()
	if err != nil {
		return err
	}
	for i := range one {
		fmt.Printf(
			"step %d  one device %.6f  two branches %.6f  found by the planner %.6f\n",
			i,
			one[i],
			two[i],
			found[i],
		)
	}
	return nil
}

// branches is where the two branches of a block run: that of sequences on the first mesh, that of pairs on
// the second, which may be the same.
type branches struct {
	world         *dtensor.World
	first, second *mesh.Mesh
	config        Config
	// sequences and residues are those of a sample, of which a batch has only one.
	sequences, residues int
	// planned, where not nil, leaves it to the planner what runs where, by these prices; plan is told.
	planned *distribute.Prices
	plan    distribute.BranchPlan
}

// train takes some steps and is their losses.
func (b *branches) train() ([]float64, error) {
	e, state, err := b.compile()
	if err != nil {
		return nil, err
	}
	return repeat(e, state)
}

// compile returns the step and what it begins with.
func (b *branches) compile() (*distribute.Executable, []*galley.Tensor, error) {
	in := nn.NewInit(nn.Config{Scope: b.world, Seed: 5, DType: array.F64})
	block := NewBlock(in, b.config)
	if in.Err() != nil {
		return nil, nil, in.Err()
	}
	params := in.Params()
	state := append(nn.Values(params), b.input(1, b.sequences, b.residues, b.config.MSA),
		b.input(2, b.residues, b.residues, b.config.Pair))
	var types []galley.Type
	for i, x := range state {
		state[i] = x.Detach()
		types = append(types, x.Type())
	}
	p, err := galley.Trace(
		"step",
		types,
		func(in []*galley.Tensor) []*galley.Tensor { return b.step(block, params, in) },
	)
	if err != nil {
		return nil, nil, err
	}
	next := map[int]int{}
	for i := range params {
		next[1+i] = i
	}
	if b.planned != nil {
		c := distribute.BranchConfig{Meshes: [2]*mesh.Mesh{b.first, b.second}, Next: next, Prices: *b.planned}
		if p, b.plan, err = distribute.Branches(p, c); err != nil {
			return nil, nil, err
		}
	}
	d, err := galley.Distribute(p, galley.DistributeConfig{Mesh: b.first, Next: next})
	if err != nil {
		return nil, nil, err
	}
	e, err := d.Compile(b.world, distribute.Options{})
	return e, state, err
}

// repeat runs the compiled step again and again.
func repeat(e *distribute.Executable, state []*galley.Tensor) (losses []float64, err error) {
	for i, x := range state {
		if state[i], err = e.Place(i, x); err != nil {
			return nil, err
		}
	}
	for range steps {
		out, err := e.RunSharded(state)
		if err != nil {
			return nil, err
		}
		loss, err := galley.Read(out[0])
		if err != nil {
			return nil, err
		}
		losses = append(losses, loss.At(0))
		copy(state, out[1:])
	}
	return losses, nil
}

// input returns numbers to begin with.
func (b *branches) input(stream uint64, shape ...int) *galley.Tensor {
	return op.Normal(b.world, op.Key{Seed: 9, Stream: stream}, array.F64, shape)
}

// step returns the loss of a block and its parameters after a step of gradient descent. Each branch's
// parameters are with it; what the branches tell each other is moved, and its gradient comes back by itself.
func (b *branches) step(block *Block, params []*nn.Param, in []*galley.Tensor) []*galley.Tensor {
	weights := in[:len(params)]
	placed := make([]*galley.Tensor, len(params))
	for i, p := range params {
		at := b.second
		if strings.HasPrefix(p.Name, "msa_") || strings.HasPrefix(p.Name, "outer.") {
			at = b.first
		}
		placed[i] = b.on(weights[i], at)
	}
	defer nn.Bind(params, placed)()
	m, z := in[len(params)], in[len(params)+1]
	msa := block.Sequences(b.on(m, b.first), b.on(z, b.first))
	pair := block.Pairs(b.on(z, b.second))
	pair = op.Add(pair, b.on(block.outer.forward(msa), b.second))
	loss := op.Add(b.on(op.Mean(op.Square(msa)), b.second), op.Mean(op.Square(pair)))
	out := []*galley.Tensor{loss}
	for i, g := range op.GradOnce([]*galley.Tensor{loss}, nil, weights) {
		out = append(out, op.Sub(weights[i].Detach(), op.MulScalar(g, rate)))
	}
	return out
}

// on returns a tensor on a mesh, or where the planner will put it.
func (b *branches) on(x *galley.Tensor, m *mesh.Mesh) *galley.Tensor {
	if b.planned != nil {
		return x
	}
	return dtensor.Shard(x, m)
}
