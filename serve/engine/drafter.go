package engine

import (
	"fmt"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/internal/paged"
	"github.com/galley-ml/galley/internal/quant"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// Draft is a smaller model of the same vocabulary, whose draft tokens the engine's model verifies.
type Draft struct {
	Model   models.Model
	Weights string
	// Read and Grouped are as in Config.
	Read    func(p *nn.Param) (array.Array, error)
	Grouped func(p *nn.Param) (m quant.Matrix, ok bool, err error)
}

// drafter computes draft tokens with a draft model. It keeps that model's keys and values in pages of the
// same numbers, and computes them when it first drafts for a sequence: a page that sequences share is then
// written again with the same values.
type drafter struct {
	model *paged.Model
	step  *paged.Step
	pays  payoff
	seqs  []paged.Sequence
	items []*item
	read  bool // the step ran prompts through the draft model
}

// newDrafter packs the draft model; its cache and buffers are allocated by begin.
func newDrafter(c *Config, vocab int) (*drafter, error) {
	if c.Draft == nil {
		return nil, nil
	}
	m, err := paged.New(c.Draft.Model, paged.Config{Weights: packed.Format(c.Draft.Weights), Read: c.Draft.Read,
		Grouped: c.Draft.Grouped, Threads: c.Threads, KV: paged.KVFormat(c.KV)})
	if err != nil {
		return nil, fmt.Errorf("engine: draft: %w", err)
	}
	if n := m.Config().Vocab; n != vocab {
		m.Close()
		return nil, fmt.Errorf("engine: draft: its vocabulary has %d tokens, the model's %d: want one vocabulary",
			n, vocab)
	}
	return &drafter{model: m}, nil
}

func (d *drafter) begin(pages, rows int) {
	if d != nil {
		d.step = paged.NewStep(d.model, paged.NewCache(d.model, pages), rows)
	}
}

func (d *drafter) pageBytes() int {
	if d == nil {
		return 0
	}
	return d.model.PageBytes()
}

func (d *drafter) close() {
	if d != nil {
		d.model.Close()
	}
}

// guess computes item.guesses draft tokens for every item of a batch that has some.
func (d *drafter) guess(batch []item) {
	d.items, d.read = d.items[:0], false
	for i := range batch {
		it := &batch[i]
		it.draft = nil
		if n := d.model.Limit(); n > 0 {
			it.guesses = min(it.guesses, n-len(it.tokens))
		}
		if it.guesses > 0 {
			d.catchUp(it)
			d.items = append(d.items, it)
		}
	}
	for len(d.items) > 0 {
		d.seqs = d.seqs[:0]
		for _, it := range d.items {
			all := it.fed()
			d.seqs = append(
				d.seqs,
				paged.Sequence{Pages: it.pages, Start: it.drafted, Tokens: all[it.drafted:], Want: 1},
			)
			it.drafted = len(all)
		}
		d.take(d.step.Run(d.seqs))
	}
}

// fed returns all tokens for the draft model: those of the sequence, and the draft tokens so far.
func (it *item) fed() []int32 { return append(it.tokens[:len(it.tokens):len(it.tokens)], it.draft...) }

// catchUp runs the sequence's tokens that the draft model has not seen, except the last.
func (d *drafter) catchUp(it *item) {
	for it.drafted < len(it.tokens)-1 {
		d.read = d.read || it.drafted < len(it.tokens)-2
		n := min(len(it.tokens)-1-it.drafted, d.step.Rows())
		d.step.Run(
			[]paged.Sequence{{Pages: it.pages, Start: it.drafted, Tokens: it.tokens[it.drafted : it.drafted+n]}},
		)
		it.drafted += n
	}
}

// take appends the likeliest token to every item's draft, and drops items that have enough.
func (d *drafter) take(logits []float32) {
	vocab, left := d.model.Config().Vocab, d.items[:0]
	for i, it := range d.items {
		it.draft = append(it.draft, likeliest(logits[i*vocab:(i+1)*vocab]))
		if len(it.draft) < it.guesses {
			left = append(left, it)
		}
	}
	d.items = left
}

// likeliest returns the index of the largest logit, the first if several are equal.
func likeliest(logits []float32) int32 {
	best := 0
	for i, x := range logits {
		if x > logits[best] {
			best = i
		}
	}
	return int32(best)
}

// payoff decides whether to draft: it compares the time per token of steps with and without drafts, and
// pauses drafting if it is slower. The first steps, and then one now and then, run without drafts, for the
// comparison.
type payoff struct {
	plain, guessed      float64 // seconds per token
	steps, tried, pause int
}

const (
	// The first payoffFirst steps, and then every payoffEvery-th, run without drafts.
	payoffFirst, payoffEvery = 3, 50
	// payoffPause is the number of steps for which drafting pauses.
	payoffPause = 200
	// payoffTries is the number of steps with drafts before the decision.
	payoffTries = 8
)

// try reports whether the next step uses drafts.
func (p *payoff) try() bool {
	p.steps++
	if p.pause > 0 {
		p.pause--
		return false
	}
	return p.steps > payoffFirst && p.steps%payoffEvery != 0
}

// note records the time of a step and the tokens that it generated.
func (p *payoff) note(guesses bool, took time.Duration, tokens int) {
	if tokens == 0 {
		return
	}
	each := took.Seconds() / float64(tokens)
	if !guesses {
		p.plain = smooth(p.plain, each)
		return
	}
	p.guessed = smooth(p.guessed, each)
	p.tried++
	if p.tried >= payoffTries && p.plain > 0 && p.guessed > p.plain {
		p.guessed, p.tried, p.pause = 0, 0, payoffPause
	}
}
