package commtest

import (
	"fmt"
	"math/rand/v2"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
)

// step is one collective of a random program: its members, its kind, and the seed of its arrays.
type step struct {
	ranks []int
	kind  comm.Kind
	dtype array.DType
	by    comm.Reduce
	root  int
	seed  int
}

// Program is a list of collectives on random groups. Each rank starts the ones that it is a member of, in the
// order of the list, and waits for them at random times. Since starting never blocks, no such program can
// deadlock.
type Program struct {
	steps []step
	seed  uint64
}

// RandomProgram makes a program for a world of n ranks. Equal arguments give equal programs.
func RandomProgram(seed uint64, n, steps int) Program {
	rng := rand.New(rand.NewPCG(seed, 1))
	p := Program{seed: seed}
	for i := range steps {
		ranks := rng.Perm(n)[:1+rng.IntN(n)]
		s := step{ranks: ranks, kind: comm.Kind(rng.IntN(len(comm.Kinds()))), root: rng.IntN(len(ranks)), seed: i}
		s.dtype = array.DTypes()[rng.IntN(len(array.DTypes()))]
		for s.by = comm.Any; !s.by.Takes(s.dtype) || s.by == comm.Mean; {
			s.by = comm.Reduces()[rng.IntN(len(comm.Reduces()))]
		}
		p.steps = append(p.steps, s)
	}
	return p
}

// String prints one line for each step.
func (p Program) String() string {
	text := ""
	for _, s := range p.steps {
		text += fmt.Sprintf("%v %v %v root %d ranks %v\n", s.kind, s.dtype, s.by, s.root, s.ranks)
	}
	return text
}

// pendingStep is a started collective and its expected result.
type pendingStep struct {
	what    string
	pending *comm.Pending
	want    array.Array
}

func (p pendingStep) wait() error {
	got, err := p.pending.Wait()
	if err != nil || !p.want.IsValid() {
		return err
	}
	return same(p.what, got, p.want)
}

// Run runs the rank's part of the program and checks every result.
func (p Program) Run(c comm.Comm) error {
	rng := rand.New(rand.NewPCG(p.seed, uint64(2+c.ID())))
	var open []pendingStep
	for i, s := range p.steps {
		g, err := c.Group(s.ranks)
		if err != nil {
			continue // not a member
		}
		pending, want := s.start(g)
		if pending == nil {
			continue
		}
		open = append(open, pendingStep{fmt.Sprintf("step %d: %v on rank %d", i, s.kind, c.ID()), pending, want})
		for len(open) > 0 && rng.IntN(3) == 0 {
			k := rng.IntN(len(open))
			if err := open[k].wait(); err != nil {
				return err
			}
			open[k] = open[len(open)-1]
			open = open[:len(open)-1]
		}
	}
	for _, o := range open {
		if err := o.wait(); err != nil {
			return err
		}
	}
	return nil
}

// start starts the step on one member and returns the expected result; nil if the member takes no part.
func (s step) start(g *comm.Group) (*comm.Pending, array.Array) {
	k, pos, none := g.Size(), g.Pos(), array.Array{}
	sizes := unevenSizes(k, s.seed)
	var alike, uneven []array.Array
	for i := range k {
		alike = append(alike, Input(s.dtype, s.seed, i, sum(sizes), 3))
		uneven = append(uneven, Input(s.dtype, s.seed, i, sizes[i], 3))
	}
	switch s.kind {
	case comm.AllReduce:
		return g.StartAllReduce(none, alike[pos], s.by), reduced(s.by, alike)
	case comm.ReduceScatter:
		return g.StartReduceScatter(none, alike[pos], s.by, 0, sizes), parts(reduced(s.by, alike), 0, sizes)[pos]
	case comm.AllGather:
		return g.StartAllGather(none, uneven[pos], 0), joined(0, uneven)
	case comm.Gather:
		want := none
		if pos == s.root {
			want = joined(0, uneven)
		}
		return g.StartGather(none, uneven[pos], 0, s.root), want
	case comm.AllToAll:
		return g.StartAllToAll(none, alike[pos], 0, sizes, 1), exchanged(alike, 0, 1, pos,
			func(int) []int { return sizes })
	case comm.AllToAllV:
		return g.StartAllToAllV(none, alike[pos], sizes), exchanged(alike, 0, 0, pos,
			func(int) []int { return sizes })
	case comm.Broadcast:
		return g.StartBroadcast(none, alike[pos], s.root), alike[s.root]
	case comm.Scatter:
		return g.StartScatter(none, alike[pos], 0, sizes, s.root), parts(alike[s.root], 0, sizes)[pos]
	case comm.Permute:
		return s.startPermute(g, uneven)
	case comm.Send, comm.Recv:
		return s.startMessage(g, alike)
	}
	return g.StartBarrier(), none
}

// startPermute starts a Permute that shifts by the root's position.
func (s step) startPermute(g *comm.Group, xs []array.Array) (*comm.Pending, array.Array) {
	k := g.Size()
	var pairs []comm.Pair
	for i := range k {
		pairs = append(pairs, comm.Pair{Source: i, Target: (i + s.root) % k})
	}
	return g.StartPermute(array.Array{}, xs[g.Pos()], pairs), xs[(g.Pos()+k-s.root)%k]
}

// startMessage sends from the root to the next position; it does nothing in a group of one.
func (s step) startMessage(g *comm.Group, xs []array.Array) (*comm.Pending, array.Array) {
	k := g.Size()
	to := (s.root + 1) % k
	switch {
	case k == 1:
	case g.Pos() == s.root:
		return g.StartSend(xs[s.root], to, s.seed%2), array.Array{}
	case g.Pos() == to:
		return g.StartRecv(array.New(s.dtype, xs[s.root].Shape()...), s.root, s.seed%2), xs[s.root]
	}
	return nil, array.Array{}
}

func programChecks() []check {
	return []check{{"programs", []int{2, 3, 4, 8}, func(c comm.Comm) error {
		for seed := range 20 {
			if err := RandomProgram(uint64(seed), c.Size(), 12).Run(c); err != nil {
				return fmt.Errorf("program %d: %w", seed, err)
			}
		}
		return nil
	}}}
}
