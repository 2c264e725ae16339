package cpu

import (
	"slices"
	"sync"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// inPieces reports whether all that reads a parameter that is away can do so piece by piece.
func (p *planner) inPieces(param int, away Away) bool {
	v := p.f.Params()[param]
	if slices.Contains(away.After, param) || v.DType().Compute() != v.DType() || p.lastUse[v.ID()] < 0 {
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

// piece is bytes of a parameter that are fetched before a node asks for them.
type piece struct {
	offset int
	bytes  []byte
	done   chan error
}

// pieces is what an executable has learned of its piecemeal nodes: the piece that each asked for first the
// last time. Routers choose alike from one batch to the next, so it is fetched while the nodes before are
// computed.
type pieces struct {
	mu    sync.Mutex
	first map[pieceKey][2]int // offset and length
}

// nodePieces is the source of one node in one run.
type nodePieces struct {
	v     *visitor
	node  int
	mu    sync.Mutex
	asked [8]bool
}

// Has reports whether an operand of the node is away.
func (s *nodePieces) Has(operand int) bool {
	n := s.v.r.e.f.Nodes()[s.node]
	return s.v.r.e.plan.places[n.In()[operand].ID()].home == homePieces
}

// Read copies bytes of an operand: those that were fetched ahead, or others now.
func (s *nodePieces) Read(operand, offset int, into []byte) error {
	key := pieceKey{s.node, operand}
	s.mu.Lock()
	first := !s.asked[operand%len(s.asked)]
	s.asked[operand%len(s.asked)] = true
	ahead := s.v.ahead[key]
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
func (v *visitor) part(key pieceKey, offset int, into []byte) error {
	at := v.r.e.plan.places[v.r.e.f.Nodes()[key.node].In()[key.operand].ID()]
	return v.elsewhere.Part(at.index, offset, into)
}

func (p *pieces) learn(key pieceKey, offset, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first == nil {
		p.first = map[pieceKey][2]int{}
	}
	p.first[key] = [2]int{offset, bytes}
}

// fetch sets out for what the first piecemeal node from one on will ask for, by what it asked for last.
func (v *visitor) fetch(from int) {
	e := v.r.e
	for i := from; i < len(e.f.Nodes()); i++ {
		o, ok := e.f.Nodes()[i].Op().(op.Piecemeal)
		if !ok {
			continue
		}
		v.ahead = map[pieceKey]*piece{}
		for _, k := range o.Pieces() {
			key := pieceKey{i, k}
			e.pieces.mu.Lock()
			last, known := e.pieces.first[key]
			e.pieces.mu.Unlock()
			if !known {
				continue
			}
			x := &piece{offset: last[0], bytes: make([]byte, last[1]), done: make(chan error, 1)}
			v.ahead[key] = x
			go func() { x.done <- v.part(key, x.offset, x.bytes) }()
		}
		return
	}
}

// settle waits for pieces that are on their way.
func (v *visitor) settle() {
	for _, x := range v.ahead {
		x.done <- <-x.done
	}
	v.ahead = nil
}

// piecesOf returns the source of a node's operands; nil where it is none that has one.
func (r *run) piecesOf(i int, n *ir.Node) op.PieceSource {
	if _, ok := n.Op().(op.Piecemeal); !ok || r.visitor == nil {
		return nil
	}
	return &nodePieces{v: r.visitor, node: i}
}
