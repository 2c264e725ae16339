package decode

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/paged"
)

// fewTokens is the most new tokens of a sequence that is batched with others; one with more runs in a program
// of its own.
const fewTokens = 8

// leastChunk is the smallest chunk size that programs are compiled for.
const leastChunk = 16

// Run processes sequences as paged.Step.Run does, and returns the requested logits, in order.
func (s *Step) Run(seqs []paged.Sequence) ([]float32, error) {
	s.hidden = s.hidden[:0]
	results := make([][]float32, len(seqs))
	hidden := make([][]float32, len(seqs))
	var few []int
	for i, q := range seqs {
		if len(q.Tokens) <= fewTokens {
			few = append(few, i)
			continue
		}
		if err := s.chunk(seqs, []int{i}, results, hidden); err != nil {
			return nil, err
		}
	}
	for len(few) > 0 {
		n := min(len(few), s.rows)
		if err := s.chunk(seqs, few[:n], results, hidden); err != nil {
			return nil, err
		}
		few = few[n:]
	}
	var logits []float32
	width := s.model.Config().Hidden
	for i, q := range seqs {
		logits = append(logits, results[i]...)
		for j := range q.Want {
			s.hidden = append(s.hidden, hidden[i][j*width:(j+1)*width])
		}
	}
	return logits, nil
}

// Row returns the hidden state, after the last norm, of the i-th row whose logits were requested.
func (s *Step) Row(i int) []float32 { return s.hidden[i] }

// chunk processes some of the sequences together, each as a row of one program.
func (s *Step) chunk(seqs []paged.Sequence, which []int, results, hidden [][]float32) error {
	seq, pages, wanted := 1, 1, 0
	for _, i := range which {
		q := seqs[i]
		seq, pages = max(seq, len(q.Tokens)), max(pages, pagesFor(q.Start+len(q.Tokens)))
		wanted += q.Want
	}
	b := bucket{rows: atLeast(len(which), 1, s.rows), pages: atLeast(pages, 4, s.pages), seq: 1}
	switch {
	case seq > fewTokens:
		b.rows, b.seq = 1, atLeast(seq, leastChunk, s.most)
	case seq > 1:
		b.seq = fewTokens
	}
	b.wanted = atLeast(wanted, 1, b.rows*b.seq)
	out, err := s.run(b, s.chunkInputs(b, seqs, which)...)
	if err != nil {
		return err
	}
	if wanted == 0 {
		out[0].Free()
		out[1].Free()
		return nil
	}
	h, err := read(out[0])
	if err != nil {
		return err
	}
	logits, err := read(out[1])
	if err != nil {
		return err
	}
	width, vocab := s.model.Config().Hidden, s.model.Config().Vocab
	for _, i := range which {
		n := seqs[i].Want
		results[i], hidden[i] = logits[:n*vocab], h[:n*width]
		logits, h = logits[n*vocab:], h[n*width:]
	}
	return nil
}

// chunkInputs returns the inputs of a bucket's program.
func (s *Step) chunkInputs(b bucket, seqs []paged.Sequence, which []int) []array.Array {
	ids, positions := make([]int32, b.rows*b.seq), make([]int32, b.rows*b.seq)
	slots, wanted := make([]int32, b.rows*b.seq), make([]int32, 0, b.wanted)
	at := func(row int) paged.Sequence {
		if row < len(which) {
			return seqs[which[row]]
		}
		return paged.Sequence{}
	}
	for row := range b.rows {
		q := at(row)
		for j := range b.seq {
			i := row*b.seq + j
			positions[i] = s.position(b, q.Start+j)
			slots[i] = s.place(q.Pages, q.Start+j, j < len(q.Tokens))
			if j < len(q.Tokens) {
				ids[i] = q.Tokens[j]
			}
		}
		for j := len(q.Tokens) - q.Want; j < len(q.Tokens); j++ {
			wanted = append(wanted, int32(row*b.seq+j))
		}
	}
	return []array.Array{
		s.tables(b.rows, b.pages, func(i int) []int32 { return at(i).Pages }),
		array.FromSlice(ids, b.rows, b.seq), array.FromSlice(positions, b.rows, b.seq),
		array.FromSlice(slots, b.rows*b.seq), array.FromSlice(wanted[:b.wanted], b.wanted),
	}
}
