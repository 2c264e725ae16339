package op

import "github.com/galley-ml/galley/array"

// Piecemeal is an op that reads some operands a piece at a time, a place of their first dim, and only pieces
// that the others call for: the experts that rows chose. Such operands need not be in memory: they are then
// arrays without bytes, and Env.Pieces has what they hold.
type Piecemeal interface {
	Op
	Pieces() []int
}

// PieceSource reads operands that are not in memory.
type PieceSource interface {
	// Has reports whether an operand is one of those.
	Has(operand int) bool
	// Read copies the bytes of an operand from an offset on. It may be called from other goroutines.
	Read(operand, offset int, into []byte) error
}

// PieceError is that of a source.
type PieceError struct{ Err error }

func (e *PieceError) Error() string { return e.Err.Error() }
func (e *PieceError) Unwrap() error { return e.Err }

func (experts) Pieces() []int             { return []int{3, 4} }
func (expertsGrad) Pieces() []int         { return []int{3, 4} }
func (expertsExchange) Pieces() []int     { return []int{3, 4} }
func (expertsExchangeGrad) Pieces() []int { return []int{3, 4} }

// expertPieces brings in the matrices of one expert while another is computed with.
type expertPieces[T floats] struct {
	source PieceSource
	// now and next are two experts' matrices; coming receives when next is there, and is nil where nothing is
	// on its way.
	now, next expertPiece[T]
	coming    chan error
}

// expertPiece is one expert, -1 for none.
type expertPiece[T floats] struct {
	expert       int
	gateUp, down []T
}

// newExpertPieces returns nil where all matrices are in memory.
func newExpertPieces[T floats](env *Env, b *expertBank[T]) *expertPieces[T] {
	if env.Pieces == nil || !env.Pieces.Has(3) && !env.Pieces.Has(4) {
		return nil
	}
	piece := func() expertPiece[T] {
		p := expertPiece[T]{expert: -1}
		if env.Pieces.Has(3) {
			p.gateUp = make([]T, 2*b.inner*b.width)
		}
		if env.Pieces.Has(4) {
			p.down = make([]T, b.out*b.inner)
		}
		return p
	}
	return &expertPieces[T]{source: env.Pieces, now: piece(), next: piece()}
}

// bring has expert e there, and sets out for the next one that rows chose.
func (p *expertPieces[T]) bring(lists [][]int, e int) {
	if p == nil {
		return
	}
	p.wait()
	p.now, p.next = p.next, p.now
	if p.now.expert != e {
		p.check(p.now.read(p.source, e))
	}
	for k := e + 1; k < len(lists); k++ {
		if len(lists[k]) > 0 {
			p.coming = make(chan error, 1)
			go func(to *expertPiece[T], done chan<- error) { done <- to.read(p.source, k) }(&p.next, p.coming)
			return
		}
	}
}

func (p *expertPieces[T]) wait() {
	if p.coming != nil {
		err := <-p.coming
		p.coming = nil
		p.check(err)
	}
}

func (p *expertPieces[T]) check(err error) {
	if err != nil {
		panic(&PieceError{err})
	}
}

// read fills the piece with the matrices of an expert.
func (x *expertPiece[T]) read(s PieceSource, e int) error {
	x.expert = -1
	for k, m := range [][]T{x.gateUp, x.down} {
		if m == nil {
			continue
		}
		bytes := array.FromSlice(m, len(m)).Bytes()
		if err := s.Read(3+k, e*len(bytes), bytes); err != nil {
			return err
		}
	}
	x.expert = e
	return nil
}

// gateUpOf and downOf are the matrices of an expert that has been brought.
func (b *expertBank[T]) gateUpOf(e int) []T {
	if b.pieces != nil && b.pieces.now.gateUp != nil {
		return b.pieces.now.gateUp
	}
	return rowOf(b.gateUp, e, 2*b.inner*b.width)
}

func (b *expertBank[T]) downOf(e int) []T {
	if b.pieces != nil && b.pieces.now.down != nil {
		return b.pieces.now.down
	}
	return rowOf(b.down, e, b.out*b.inner)
}
