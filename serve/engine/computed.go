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

// computed is a model with packed weights, on the host or on a backend.
type computed interface {
	Config() models.Config
	Limit() int
	Bytes() int
	PageBytes() int
	// Pool returns the host's thread pool, which samples tokens.
	Pool() *kernel.Pool
	Close()
}

// host is a model on the host's CPU.
type host struct {
	model *paged.Model
	step  *paged.Step
}

// device is a model on a backend.
type device struct {
	model *decode.Model
	step  *decode.Step
}

func (d *device) close() {
	if d != nil && d.step != nil {
		d.step.Close()
	}
}

// pack packs the weights of the model for the host or the backend.
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

// begin allocates the pages and the buffers of steps.
func (e *Engine) begin() (err error) {
	c := e.config
	if e.host != nil {
		cache := paged.NewCache(e.host.model, c.Pages)
		go cache.Populate()
		e.host.step = paged.NewStep(e.host.model, cache, max(c.Budget, c.Running))
		return nil
	}
	e.device.step, err = decode.NewStep(e.device.model, c.Pages, c.Running, c.Budget)
	return err
}

// stepRows returns the largest number of tokens in a step.
func (e *Engine) stepRows() int {
	if e.host != nil {
		return e.host.step.Rows()
	}
	return e.device.step.Rows()
}

// results runs the batch and samples the next tokens.
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

// goAhead decides for which sequences the backend itself samples tokens, and for how many steps: several if
// it does so for the whole batch, as far as pages reach.
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
		it.grow(e.pages, (it.computed+n+pageTokens-1)/pageTokens) // or as many pages as there are
		it.ahead = max(1, min(n, len(it.pages)*pageTokens-it.computed))
	}
}

// plain reports whether the backend can sample the item's next token without the host.
func (it *item) plain() bool {
	return it.count == 1 && it.left() == 1 && len(it.draft) == 0 && !it.embed && it.mask == nil &&
		it.sampler.Plain()
}
