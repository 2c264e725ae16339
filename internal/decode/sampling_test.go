package decode_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/galley-ml/galley/internal/decode"
	"github.com/galley-ml/galley/internal/paged"
	"github.com/galley-ml/galley/internal/paged/pagedtest"
	"github.com/galley-ml/galley/internal/sample"
	"github.com/galley-ml/galley/nn"
)

// TestDraws: what a program draws for rows of different configurations is what the host draws of the same
// logits with the same seeds, and has the same log-probabilities.
func TestDraws(t *testing.T) {
	m := pagedtest.Model(t, "llama", nn.Config{Scope: session(t), Seed: 3})
	configs := []sample.Config{{}, {Temperature: 1}, {Temperature: 0.7, TopK: 5}, {Temperature: 1.3, TopP: 0.8},
		{Temperature: 1, TopK: 20, TopP: 0.5}, {Temperature: 2, MinP: 0.2}, {Temperature: 1, TopK: 500},
		{Temperature: 0.5, MinP: 0.1, TopK: 3, TopP: 0.99}}
	r := rand.New(rand.NewPCG(4, 4))
	for len(configs) > 0 {
		p := newPair(t, m)
		batch := configs[:min(4, len(configs))]
		configs = configs[len(batch):]
		var rows []decode.Row
		var want [][]sample.Choice
		for i, c := range batch {
			c.Seed = r.Uint64()
			prompt, pages := random(r, 3+i), []int32{int32(i), int32(4 + i)}
			p.run(t, 2e-3, paged.Sequence{Pages: pages, Tokens: prompt})
			rows = append(rows, decode.Row{Pages: pages, Start: len(prompt), Token: 9,
				Steps: decode.MostAhead - i, Sampler: sample.New(c, nil, 0)})
			want = append(want, p.drawn(t, rows[i], sample.New(c, nil, 0)))
		}
		got, err := p.device.Ahead(rows)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if !slices.EqualFunc(got[i], want[i], func(a, b sample.Choice) bool {
				return a.ID == b.ID && math.Abs(a.LogProb-b.LogProb) < 1e-3
			}) {
				t.Errorf("%+v: got %v, want %v", batch[i], got[i], want[i])
			}
		}
	}
}

// drawn returns the tokens that the host draws for a row.
func (p pair) drawn(t *testing.T, r decode.Row, s *sample.Sampler) (list []sample.Choice) {
	t.Helper()
	for i := range r.Steps {
		next := paged.Sequence{Pages: r.Pages, Start: r.Start + i, Tokens: []int32{r.Token}, Want: 1}
		c, err := s.Choose(p.host.Run([]paged.Sequence{next}), nil)
		if err != nil {
			t.Fatal(err)
		}
		list, r.Token = append(list, c), c.ID
	}
	return list
}
