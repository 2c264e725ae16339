package cpu

import (
	"slices"
	"sync"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// inPieces reports whether all ops that read an offloaded parameter can read it piecewise.
func (p *planner) inPieces(param int, offloaded Offloaded) bool {
	v := p.f.Params()[param]
	if slices.Contains(offloaded.After, param) || v.DType().Compute() != v.DType() || p.lastUse[v.ID()] < 0 {
		return false
	}
	same := map[*ir.Value]bool{v: true}
	for _, n := range p.f.Nodes() {
		for k, x := range n.In() {
			if !same[x] {
				continue
			}
			if _, alias := n.Op().(op.Aliaser); alias && n.In()[0] == x {
				same[n.Out()[0]] = true
			} else if o, ok := n.Op().(op.Piecemeal); !ok || !slices.Contains(o.Pieces(), k) {
				return false
			}
		}
	}
	return !slices.ContainsFunc(p.f.Results(), func(r *ir.Value) bool { return same[r] })
}

// pieceKey is an operand of a node.
type pieceKey struct{ node, operand int }

// piece is bytes of a parameter that are prefetched for a node.
type piece struct {
	offset int
	bytes  []byte
	done   chan error
}

// pieces is what an executable has learned about its piecewise nodes: the piece that each read first the
// last time. Routers choose similarly from one batch to the next, so it is prefetched while earlier nodes
// compute.
type pieces struct {
	mu    sync.Mutex
	first map[pieceKey][2]int // offset and length
}

// nodePieces is the PieceSource of one node in one run.
type nodePieces struct {
	v     *offloader
	node  int
	mu    sync.Mutex
	asked [8]bool
}

// Has reports whether an operand of the node is offloaded.
func (s *nodePieces) Has(operand int) bool {
	n := s.v.r.e.f.Nodes()[s.node]
	return s.v.r.e.plan.places[n.In()[operand].ID()].home == homePieces
}

// Read copies bytes of an operand: prefetched ones, or others fetched now.
func (s *nodePieces) Read(operand, offset int, into []byte) error {
	key := pieceKey{s.node, operand}
	s.mu.Lock()
	first := !s.asked[operand%len(s.asked)]
	s.asked[operand%len(s.asked)] = true
	ahead := s.v.prefetched[key]
	s.mu.Unlock()
	if first {
		s.v.r.e.pieces.learn(key, offset, len(into))
		if ahead != nil {
			err := <-ahead.done
			if ahead.done <- err; err == nil && ahead.offset == offset && len(ahead.bytes) == len(into) {
				copy(into, ahead.bytes)
				return nil
			}
		}
	}
	return s.v.part(key, offset, into)
}

// part copies bytes of the parameter that an operand is.
func (v *offloader) part(key pieceKey, offset int, into []byte) error {
	at := v.r.e.plan.places[v.r.e.f.Nodes()[key.node].In()[key.operand].ID()]
	return v.store.Part(at.index, offset, into)
}

func (p *pieces) learn(key pieceKey, offset, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first == nil {
		p.first = map[pieceKey][2]int{}
	}
	p.first[key] = [2]int{offset, bytes}
}

// fetch prefetches what the first piecewise node from an index on will probably read, as in the last run.
func (v *offloader) fetch(from int) {
	e := v.r.e
	for i := from; i < len(e.f.Nodes()); i++ {
		o, ok := e.f.Nodes()[i].Op().(op.Piecemeal)
		if !ok {
			continue
		}
		v.prefetched = map[pieceKey]*piece{}
		for _, k := range o.Pieces() {
			key := pieceKey{i, k}
			e.pieces.mu.Lock()
			last, known := e.pieces.first[key]
			e.pieces.mu.Unlock()
			if !known {
				continue
			}
			x := &piece{offset: last[0], bytes: make([]byte, last[1]), done: make(chan error, 1)}
			v.prefetched[key] = x
			go func() { x.done <- v.part(key, x.offset, x.bytes) }()
		}
		return
	}
}

// awaitPieces waits for pieces in flight.
func (v *offloader) awaitPieces() {
	for _, x := range v.prefetched {
		x.done <- <-x.done
	}
	v.prefetched = nil
}

// piecesOf returns the source of a node's operands; nil if it has none.
func (r *run) piecesOf(i int, n *ir.Node) op.PieceSource {
	if _, ok := n.Op().(op.Piecemeal); !ok || r.offloader == nil {
		return nil
	}
	return &nodePieces{v: r.offloader, node: i}
}
