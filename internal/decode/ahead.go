package decode

import (
	"cmp"
	"math"
	"sync"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/sample"
)

// MostAhead is the most steps of one execution. Starting an execution takes some tenths of a millisecond,
// which is then a small part of it, and a new request does not wait long.
const MostAhead = 8

// Row is a sequence that is continued by Ahead.
type Row struct {
	// Pages have space for Steps tokens after the Start tokens whose keys and values they hold.
	Pages []int32
	Start int
	// Token is the token at position Start.
	Token int32
	// Steps is the number of tokens wanted.
	Steps int
	// Sampler chooses the tokens; it must be Plain.
	Sampler *sample.Sampler
}

// Ahead runs one step for all rows, or MostAhead steps if any row wants more, in one execution: tokens are
// sampled on the backend and fed to the next step. It returns each row's tokens.
func (s *Step) Ahead(rows []Row) ([][]sample.Choice, error) {
	results := make([][]sample.Choice, 0, len(rows))
	for len(rows) > 0 {
		n := min(len(rows), s.rows)
		list, err := s.ahead(rows[:n])
		if err != nil {
			return nil, err
		}
		results, rows = append(results, list...), rows[n:]
	}
	return results, nil
}

func (s *Step) ahead(rows []Row) ([][]sample.Choice, error) {
	vocab := s.model.Config().Vocab
	b := bucket{rows: atLeast(len(rows), 1, s.rows), steps: 1}
	pages := 1
	var configs []sample.Config
	for _, r := range rows {
		c := r.Sampler.Config()
		configs = append(configs, c)
		b.sampling = b.sampling.with(c, vocab)
		pages = max(pages, pagesFor(r.Start+r.Steps))
		if r.Steps > 1 {
			b.steps = MostAhead
		}
	}
	b.pages = atLeast(pages, 4, s.pages)
	out, err := s.run(b, append(s.aheadInputs(b, rows), knobValues(configs, b.rows, vocab)...)...)
	if err != nil {
		return nil, err
	}
	var ids array.Array
	var both sync.WaitGroup // concurrently: each copy waits some tenths of a millisecond
	both.Go(func() { ids, err = out[0].Read() })
	logProbs, failed := read(out[1])
	both.Wait()
	out[0].Free()
	if err = cmp.Or(err, failed); err != nil {
		return nil, err
	}
	return choices(b, rows, array.Data[int32](ids), logProbs)
}

// choices returns the tokens [steps, rows] by row.
func choices(b bucket, rows []Row, ids []int32, logProbs []float32) ([][]sample.Choice, error) {
	results := make([][]sample.Choice, len(rows))
	for i, r := range rows {
		for j := range r.Steps {
			p := float64(logProbs[j*b.rows+i])
			if math.IsNaN(p) {
				return nil, sample.ErrNaN
			}
			results[i] = append(results[i],
				sample.Choice{Candidate: sample.Candidate{ID: ids[j*b.rows+i], LogProb: p}})
		}
	}
	return results, nil
}

// aheadInputs returns the inputs of a bucket's program except for the sampling parameters.
func (s *Step) aheadInputs(b bucket, rows []Row) []array.Array {
	first := make([]int32, b.rows)
	positions, slots := make([]int32, b.steps*b.rows), make([]int32, b.steps*b.rows)
	uniform := make([]float32, b.steps*b.rows)
	at := func(i int) Row {
		if i < len(rows) {
			return rows[i]
		}
		return Row{}
	}
	for i := range b.rows {
		r := at(i)
		first[i] = r.Token
		for j := range b.steps {
			k := j*b.rows + i
			slots[k] = s.place(r.Pages, r.Start+j, j < r.Steps)
			positions[k] = s.position(b, r.Start+j)
			if j < r.Steps {
				uniform[k] = min(float32(r.Sampler.Uniform()), 1-1.0/(1<<24))
			}
		}
	}
	return []array.Array{
		s.tables(b.rows, b.pages, func(i int) []int32 { return at(i).Pages }), array.FromSlice(first, b.rows),
		array.FromSlice(positions, b.steps, b.rows), array.FromSlice(slots, b.steps, b.rows),
		array.FromSlice(uniform, b.steps, b.rows),
	}
}
