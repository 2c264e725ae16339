package cpu

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Offloaded lists the parameters and results of a program that are offloaded from a device's memory. A
// parameter is fetched before the first node that reads it, while the previous one is in use, and stays in
// the arena until the last; a parameter that is read only by ops that need pieces of it is not fetched, and
// they fetch the pieces. A result is written out as soon as it is computed.
type Offloaded struct {
	Params, Results []int
	// After holds for each of Results the parameter that it replaces: it is not written out before that was
	// fetched. -1 means none.
	After []int
}

// OffloadStore is the store of offloaded tensors.
type OffloadStore interface {
	// Get fetches a parameter, Put writes a result out. Get may be called from another goroutine than Put.
	Get(param int, into array.Array) error
	Put(result int, a array.Array) error
	// Part fetches bytes of a parameter from an offset on; it may be called from any goroutine.
	Part(param, offset int, into []byte) error
}

// NewOffloadPlan is like NewPlan for a program with offloaded tensors.
func NewOffloadPlan(f *ir.Func, o Options, offloaded Offloaded) (*Executable, error) {
	if err := offloaded.check(f); err != nil {
		return nil, fmt.Errorf("compile %s: %w", f.Name(), err)
	}
	donated, err := donatedOf(f, o)
	if err == nil {
		err = checkSpent(f, o, donated)
	}
	if err != nil {
		return nil, err
	}
	if f, err = fuse(f, o); err != nil {
		return nil, fmt.Errorf("compile %s: %w", f.Name(), err)
	}
	p, err := planMemory(f, donated, o.Spend, offloaded)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", f.Name(), err)
	}
	return &Executable{f: f, plan: p, watch: o.Observe}, nil
}

func (a Offloaded) check(f *ir.Func) error {
	for _, i := range a.Params {
		if n := len(f.Params()) - len(f.Captures()); i < 0 || i >= n {
			return fmt.Errorf("parameter %d is offloaded, of %d parameters", i, n)
		}
	}
	for _, i := range a.Results {
		if n := len(f.Results()); i < 0 || i >= n {
			return fmt.Errorf("result %d is offloaded, of %d results", i, n)
		}
	}
	return nil
}

// transfers is the schedule of fetches and writes, by node. A fetch is started at one node and awaited at
// another.
type transfers struct {
	params, results map[int]bool
	start, arrive   [][]int
	puts            [][]int // after node i-1
}

// scheduleFetches schedules the fetches: each starts with the first use of the parameter fetched before it,
// the first ones at the start.
func (p *planner) scheduleFetches(offloaded Offloaded) {
	n := len(p.f.Nodes())
	v := &p.transfers
	v.params, v.results = setOf(offloaded.Params), setOf(offloaded.Results)
	defer p.scheduleWrites(offloaded)
	v.start, v.arrive, v.puts = make([][]int, n+1), make([][]int, n+1), make([][]int, n+1)
	uses := p.firstUses(offloaded)
	at := slices.Clone(uses)
	slices.Sort(at)
	at = slices.Compact(at)
	for k, i := range offloaded.Params {
		if p.inPieces(i, offloaded) {
			p.places[p.f.Params()[i].ID()] = &place{home: homePieces, index: i, first: -1}
			continue
		}
		first := uses[k]
		begin := 0
		if j, _ := slices.BinarySearch(at, first); j > 0 {
			begin = at[j-1]
		}
		if first == n && p.lastUse[p.f.Params()[i].ID()] < 0 {
			continue // it is not used
		}
		v.start[begin], v.arrive[first] = append(v.start[begin], i), append(v.arrive[first], i)
		p.places[p.f.Params()[i].ID()] = &place{home: homeArena, index: i, first: begin, owned: true,
			last: max(p.lastUse[p.f.Params()[i].ID()], first), bytes: p.f.Params()[i].Type().Bytes()}
	}
}

func setOf(list []int) map[int]bool {
	set := map[int]bool{}
	for _, i := range list {
		set[i] = true
	}
	return set
}

// firstUses returns for each offloaded parameter the first node that reads it; one that is itself a result is
// needed at the start.
func (p *planner) firstUses(offloaded Offloaded) []int {
	first := slices.Repeat([]int{len(p.f.Nodes())}, p.f.NumValues())
	for i, n := range slices.Backward(p.f.Nodes()) {
		for _, v := range n.In() {
			first[v.ID()] = i
		}
	}
	for _, v := range p.f.Results() {
		if v.Node() == nil {
			first[v.ID()] = 0
		}
	}
	list := make([]int, len(offloaded.Params))
	for k, i := range offloaded.Params {
		list[k] = first[p.f.Params()[i].ID()]
	}
	return list
}

// scheduleWrites schedules the writes of results: when they are computed, but not before the parameter that
// they replace was fetched. After that they need memory only if something reads them.
func (p *planner) scheduleWrites(offloaded Offloaded) {
	came := map[int]int{}
	for at, list := range p.transfers.arrive {
		for _, i := range list {
			came[i] = at + 1
		}
	}
	last := lastReads(p.f)
	for k, i := range offloaded.Results {
		v := p.f.Results()[i]
		at := min(max(p.madeAt(v, came), came[offloaded.After[k]]), len(p.f.Nodes()))
		p.transfers.puts[at] = append(p.transfers.puts[at], i)
		last[v.ID()] = max(last[v.ID()], at)
		if !p.keptOnDevice(v) {
			p.lastUse[v.ID()] = last[v.ID()]
		}
	}
}

// keptOnDevice reports whether a value is also a result that is not offloaded.
func (p *planner) keptOnDevice(v *ir.Value) bool {
	for i, r := range p.f.Results() {
		if r == v && !p.transfers.results[i] {
			return true
		}
	}
	return false
}

// madeAt returns the index after the node that computes a value or, for a parameter, the node before which it
// was fetched.
func (p *planner) madeAt(v *ir.Value, came map[int]int) int {
	for v.Node() != nil {
		if _, alias := v.Node().Op().(op.Aliaser); !alias {
			return 1 + slices.Index(p.f.Nodes(), v.Node())
		}
		v = v.Node().In()[0]
	}
	return came[v.ID()]
}

// offloader fetches and writes offloaded tensors in one run.
type offloader struct {
	r        *run
	store    OffloadStore
	inFlight map[int]chan error
	// prefetched holds prefetched pieces for the next piecewise node, predicted from the last run.
	prefetched map[pieceKey]*piece
}

// before is called before each node, and once after the last.
func (v *offloader) before(i int) error {
	at := &v.r.e.plan.transfers
	for _, k := range at.puts[i] {
		if err := v.store.Put(k, v.r.array(v.r.e.f.Results()[k])); err != nil {
			return err
		}
	}
	for _, k := range at.start[i] {
		into, done := v.r.array(v.r.e.f.Params()[k]), make(chan error, 1)
		v.inFlight[k] = done
		go func() { done <- v.store.Get(k, into) }()
	}
	for _, k := range at.arrive[i] {
		if err := v.wait(k); err != nil {
			return err
		}
	}
	return nil
}

func (v *offloader) wait(k int) error {
	done, ok := v.inFlight[k]
	if !ok {
		return nil
	}
	delete(v.inFlight, k)
	return <-done
}

// end waits for pending transfers: the next run reuses their memory.
func (v *offloader) end() {
	for k := range v.inFlight {
		_ = v.wait(k)
	}
	v.awaitPieces()
}
