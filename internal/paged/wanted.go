package paged

import "github.com/galley-ml/galley/internal/kernel"

// Of the last layer all tokens need keys and values, for later steps, but only those whose logits are wanted
// need the rest. A prompt wants one, or none if more of it follows.

// attendWanted leaves the attention to tokens whose logits are wanted.
func (s *Step) attendWanted(seqs []Sequence) {
	s.tasks = s.tasks[:0]
	end := 0
	for i := range seqs {
		q := &seqs[i]
		end += len(q.Tokens)
		s.attendRange(end-q.Want, end, q.Pages)
	}
}

// attendRange adds the attention of rows lo to hi of a sequence, in tasks of attendRows.
func (s *Step) attendRange(lo, hi int, pages []int32) {
	for ; lo < hi; lo += attendRows {
		s.tasks = append(s.tasks, attendTask{lo, min(attendRows, hi-lo), pages})
	}
}

// keepWanted reduces the step to the rows whose logits are wanted: of x, of h and of attention's output, with
// so many columns.
func (s *Step) keepWanted(seqs []Sequence, columns int) {
	s.count, s.adapted = 0, s.adapted[:0]
	end := 0
	for i := range seqs {
		q := &seqs[i]
		end += len(q.Tokens)
		first := s.count
		for from := end - q.Want; from < end; from++ {
			moveRow(s.x, s.count, from, s.model.config.Hidden)
			moveRow(s.h, s.count, from, s.model.config.Hidden)
			moveRow(s.attended, s.count, from, columns)
			s.count++
		}
		s.noteAdapter(q.Adapter, first)
	}
}

// moveRow copies a row to a place before it.
func moveRow(x []float32, to, from, columns int) {
	if to != from {
		copy(x[to*columns:(to+1)*columns], x[from*columns:(from+1)*columns])
	}
}

// logitsOf computes the logits of the step's rows.
func (s *Step) logitsOf() []float32 {
	m, rows, hidden := s.model, s.count, s.model.config.Hidden
	s.rows(rows, hidden, func(i int) {
		m.norm.row(s.h[i*hidden:(i+1)*hidden], s.x[i*hidden:(i+1)*hidden])
	})
	logits := grown(&s.logits, rows*m.head.out())
	s.adapted = s.adapted[:0] // no adapter updates the head
	s.multiply(m.head, logits, s.h[:rows*hidden], rows)
	n := m.config.Vocab
	logits = s.join(&s.logitsAll, logits, rows, n)
	if m.logitScale != 1 {
		s.rows(rows, n, func(i int) {
			kernel.MulScalar(logits[i*n:(i+1)*n], logits[i*n:(i+1)*n], m.logitScale)
		})
	}
	if m.cap != 0 {
		s.rows(rows, n, func(i int) { capped(logits[i*n:(i+1)*n], m.cap) })
	}
	return logits
}
