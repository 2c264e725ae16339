package engine

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/decode"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/internal/paged"
	"github.com/galley-ml/galley/models"
)

// computed is a model with its weights, on the host or on a backend.
type computed interface {
	Config() models.Config
	Limit() int
	Bytes() int
	PageBytes() int
	// Pool is the host's threads, which choose tokens.
	Pool() *kernel.Pool
	Close()
}

// host is the model on this machine's processor.
type host struct {
	model *paged.Model
	step  *paged.Step
}

// device is the model on a backend.
type device struct {
	model *decode.Model
	step  *decode.Step
}

func (d *device) close() {
	if d != nil && d.step != nil {
		d.step.Close()
	}
}

// pack makes the model ready, where it is computed.
func (e *Engine) pack(m models.Model, c Config) error {
	if c.Backend == nil {
		model, err := paged.New(m, paged.Config{Weights: packed.Format(c.Weights), Read: c.Read,
			Grouped: c.Grouped, Threads: c.Threads, TP: c.TP, KV: paged.KVFormat(c.KV)})
		if err == nil {
			e.host, e.model = &host{model: model}, model
		}
		return err
	}
	switch {
	case c.TP > 1:
		return fmt.Errorf("tp %d: a model on a backend is on one device: want 1", c.TP)
	case c.Draft != nil:
		return fmt.Errorf("draft: a model on a backend has none yet: guesses come from the text itself")
	}
	model, err := decode.New(m, decode.Config{Backend: c.Backend, Weights: packed.Format(c.Weights),
		Read: c.Read, Grouped: c.Grouped, KV: paged.KVFormat(c.KV), Threads: c.Threads})
	if err == nil {
		e.device, e.model = &device{model: model}, model
	}
	return err
}

// begin takes the memory of pages and steps.
func (e *Engine) begin() (err error) {
	c := e.config
	if e.host != nil {
		e.host.step = paged.NewStep(e.host.model, paged.NewCache(e.host.model, c.Pages), max(c.Budget, c.Running))
		return nil
	}
	e.device.step, err = decode.NewStep(e.device.model, c.Pages, c.Running, c.Budget)
	return err
}

// stepRows returns how many tokens a step takes at most.
func (e *Engine) stepRows() int {
	if e.host != nil {
		return e.host.step.Rows()
	}
	return e.device.step.Rows()
}

// results computes the batch and chooses tokens.
func (e *Engine) results() ([]result, error) {
	if e.host != nil {
		logits := e.host.step.Run(e.gather(e.batch))
		return e.choose(e.batch, logits, e.host.step.Row), nil
	}
	step := e.device.step
	slices.SortStableFunc(e.batch, func(a, b item) int { return a.ahead - b.ahead })
	n := 0
	for n < len(e.batch) && e.batch[n].ahead == 0 {
		n++
	}
	var results []result
	if n > 0 {
		logits, err := step.Run(e.gather(e.batch[:n]))
		if err != nil {
			return nil, err
		}
		results = e.choose(e.batch[:n], logits, step.Row)
	}
	var rows []decode.Row
	for _, it := range e.batch[n:] {
		rows = append(rows, decode.Row{Pages: it.pages, Start: it.computed, Token: it.tokens[it.computed],
			Steps: it.ahead, Sampler: it.sampler})
	}
	list, err := step.Ahead(rows)
	for _, choices := range list {
		results = append(results, result{choices: choices})
	}
	return results, err
}

// goAhead decides which sequences a backend continues by itself, and for how many steps: several where no
// other is computed, as far as pages reach.
func (e *Engine) goAhead() {
	if e.device == nil {
		return
	}
	most := decode.MostAhead
	for i := range e.batch {
		if it := &e.batch[i]; it.plain() {
			it.ahead = 1
		} else {
			most = 1
		}
	}
	for i := range e.batch {
		it := &e.batch[i]
		if it.ahead == 0 || most == 1 {
			continue
		}
		n := min(most, it.Tokens-it.generated(), e.Limit()-len(it.tokens))
		it.grow(e.pages, (it.computed+n+pageTokens-1)/pageTokens) // or what there is
		it.ahead = max(1, min(n, len(it.pages)*pageTokens-it.computed))
	}
}

// plain reports whether the host is of no use to choose the item's next token.
func (it *item) plain() bool {
	return it.count == 1 && it.left() == 1 && len(it.draft) == 0 && !it.embed && it.mask == nil &&
		it.sampler.Plain()
}
