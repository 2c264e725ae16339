package main

import (
	"fmt"
	"math"
	"os"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/internal/paged"
	"github.com/galley-ml/galley/internal/quant"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// inputs holds the Hessian of each matrix's inputs over the calibration text.
type inputs map[inputPlace]*quant.Hessian

type inputPlace struct {
	param string
	part  int
}

// calibrate runs a calibration text through the unquantized model and returns its matrices' inputs.
func (c *quantizeCmd) calibrate(m models.Model, read func(p *nn.Param) (array.Array, error),
	t textTokenizer) (inputs, error) {
	text := data.MobyDick()
	if c.Calibrate != "" {
		b, err := os.ReadFile(c.Calibrate)
		if err != nil {
			return nil, err
		}
		text = string(b)
	}
	ids := t.Encode(text)
	if c.Calibrate == "" { // excludes the part that galley eval reads
		ids = ids[:int(heldFrom*float64(len(ids)))]
	}
	if err := inVocabulary(ids, m.Config().Vocab); err != nil {
		return nil, fmt.Errorf("--calibrate: %w", err)
	}
	seen := inputs{}
	p, err := paged.New(m, paged.Config{Read: read, Watch: func(p *nn.Param, part int, x []float32, rows int) {
		at := inputPlace{p.Name, part}
		if seen[at] == nil {
			seen[at] = quant.NewHessian(len(x) / rows)
		}
		seen[at].Add(x, rows)
	}})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return seen, c.runText(p, ids)
}

// runText runs windows through the model that are spread evenly over the text.
func (c *quantizeCmd) runText(p *paged.Model, ids []int32) error {
	n := c.Window
	if limit := p.Limit(); limit > 0 {
		n = min(n, limit)
	}
	count := min(c.Windows, len(ids)/n)
	if count == 0 {
		return fmt.Errorf("--calibrate: a text of %d tokens: want at least %d", len(ids), n)
	}
	pages := (n + paged.PageTokens - 1) / paged.PageTokens
	q := paged.Sequence{Pages: make([]int32, pages)}
	for i := range q.Pages {
		q.Pages[i] = int32(i)
	}
	step, tell := paged.NewStep(p, paged.NewCache(p, pages), n), progressPrinter()
	for i := range count {
		tell("calibrating", i, count)
		at := i * (len(ids) / count)
		q.Tokens = ids[at : at+n]
		step.Run([]paged.Sequence{q})
	}
	return nil
}

// compensated quantizes a matrix so that later columns compensate for the errors of earlier ones (GPTQ). A
// matrix that no token reached, such as an unused expert, is rounded to the nearest.
func (in inputs) compensated(p *nn.Param, part int, w []float32, out, width int,
	c quant.Config) (quant.Matrix, error) {
	h := in[inputPlace{p.Name, part}]
	if h == nil {
		return quant.Round(c, w, out, width), nil
	}
	m, err := quant.Compensate(c, w, out, width, h)
	if err != nil {
		return m, fmt.Errorf("parameter %q: %w", p.Name, err)
	}
	for _, s := range m.Scales {
		if math.IsNaN(float64(s)) || math.IsInf(float64(s), 0) {
			return m, fmt.Errorf("parameter %q: its values are not finite numbers", p.Name)
		}
	}
	return m, nil
}

// squares returns the mean squares of a matrix's inputs; nil if no token of the text reached it.
func (in inputs) squares(p *nn.Param, part int) []float64 {
	h := in[inputPlace{p.Name, part}]
	if h == nil {
		return nil
	}
	return h.Squares()
}
