package op

import "github.com/galley-ml/galley/array"

// Piecemeal is implemented by ops that read some operands one slice of their first dim at a time, and only
// those slices that other operands select: the experts that rows chose. Such operands need not be in memory:
// they are then arrays without bytes, and Env.Pieces reads them.
type Piecemeal interface {
	Op
	Pieces() []int
}

// PieceSource reads operands that are not in memory.
type PieceSource interface {
	// Has reports whether an operand is not in memory.
	Has(operand int) bool
	// Read copies bytes of an operand, starting at an offset. It may be called from other goroutines.
	Read(operand, offset int, into []byte) error
}

// PieceError is the error of a PieceSource.
type PieceError struct{ Err error }

func (e *PieceError) Error() string { return e.Err.Error() }
func (e *PieceError) Unwrap() error { return e.Err }

func (experts) Pieces() []int             { return []int{3, 4} }
func (expertsGrad) Pieces() []int         { return []int{3, 4} }
func (expertsExchange) Pieces() []int     { return []int{3, 4} }
func (expertsExchangeGrad) Pieces() []int { return []int{3, 4} }

// expertPieces loads the matrices of one expert while another one is computed.
type expertPieces[T floats] struct {
	source PieceSource
	// now and next hold two experts' matrices; coming receives when next has been loaded, and is nil if nothing
	// is being loaded.
	now, next expertPiece[T]
	coming    chan error
}

// expertPiece holds the matrices of one expert; -1 for none.
type expertPiece[T floats] struct {
	expert       int
	gateUp, down []T
}

// newExpertPieces returns nil if all matrices are in memory.
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

// prefetch loads expert e unless it is loaded, and starts to load the next one that rows chose.
func (p *expertPieces[T]) prefetch(lists [][]int, e int) {
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

// read loads the matrices of an expert.
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

// gateUpOf and downOf return the matrices of an expert that has been loaded.
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
