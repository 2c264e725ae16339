package decode

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/paged"
)

// Step processes tokens of many sequences, with pages on the backend. It is for one goroutine.
type Step struct {
	model    *Model
	pages    int // those for sequences; one more is for padding rows
	rows     int
	most     int // the most tokens of a chunk
	pools    []backend.Buffer
	programs map[bucket]backend.Executable
	inputs   map[bucket][]input
	hidden   [][]float32 // of the rows whose logits were requested last
}

// NewStep allocates pages, for steps of up to rows sequences and chunks of up to most tokens.
func NewStep(m *Model, pages, rows, most int) (*Step, error) {
	s := &Step{model: m, pages: pages, rows: rows, most: max(most, rows),
		programs: map[bucket]backend.Executable{}, inputs: map[bucket][]input{}}
	for _, t := range m.poolTypes(pages + 1) {
		b, err := m.b.Put(array.New(t.DType, t.Shape...))
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("%d pages of %d bytes: %w: want fewer", pages, m.PageBytes(), err)
		}
		s.pools = append(s.pools, b)
	}
	return s, nil
}

// Rows returns the most tokens of a step.
func (s *Step) Rows() int { return s.most }

// Close releases pages and programs.
func (s *Step) Close() {
	for _, b := range s.pools {
		b.Free()
	}
	for _, list := range s.inputs {
		for _, in := range list {
			in.free()
		}
	}
	for _, e := range s.programs {
		e.Close()
	}
	s.pools, s.programs, s.inputs = nil, nil, nil
}

// run runs a bucket's program on its inputs and returns its results other than the pools.
func (s *Step) run(b bucket, inputs ...array.Array) ([]backend.Buffer, error) {
	exe := s.programs[b]
	if exe == nil {
		var err error
		if exe, err = s.model.compile(b, s.pages+1); err != nil {
			return nil, err
		}
		s.programs[b] = exe
	}
	args := append(append([]backend.Buffer(nil), s.model.weights...), s.pools...)
	kept, err := s.put(b, inputs)
	if err != nil {
		return nil, err
	}
	for _, in := range kept {
		args = append(args, in.on)
	}
	out, err := exe.Run(args)
	if err != nil {
		return nil, err
	}
	n := len(s.pools)
	s.pools = out[:n:n]
	return out[n:], nil
}

// atLeast returns the first of from, from·4, from·16 and so on that is at least n, limited to most.
func atLeast(n, from, most int) int {
	size := from
	for size < n {
		size *= 4
	}
	return max(n, min(size, most))
}

// place returns the slot of a sequence's token at a position; beyond its pages, and for padding rows, it is
// in the unused page.
func (s *Step) place(pages []int32, position int, real bool) int32 {
	if !real || position/paged.PageTokens >= len(pages) {
		return int32(s.pages * paged.PageTokens)
	}
	return pages[position/paged.PageTokens]*paged.PageTokens + int32(position%paged.PageTokens)
}

// position returns the position of a token, limited to those that the bucket allows, for padding tokens.
func (s *Step) position(b bucket, p int) int32 {
	most := b.pages * paged.PageTokens
	if n := s.model.limit; n > 0 {
		most = min(most, n)
	}
	return int32(min(p, most-1))
}

// tables returns the page tables of sequences as one array.
func (s *Step) tables(rows, pages int, of func(i int) []int32) array.Array {
	table := make([]int32, rows*pages)
	for i := range table {
		table[i] = int32(s.pages)
	}
	for i := range rows {
		list := of(i)
		copy(table[i*pages:(i+1)*pages], list[:min(len(list), pages)])
	}
	return array.FromSlice(table, rows, pages)
}

// pagesFor returns the number of pages for the given number of tokens.
func pagesFor(tokens int) int { return (tokens + paged.PageTokens - 1) / paged.PageTokens }

// read copies floats to the host.
func read(b backend.Buffer) ([]float32, error) {
	defer b.Free()
	a, err := b.Read()
	if err != nil {
		return nil, err
	}
	return array.Data[float32](a), nil
}
