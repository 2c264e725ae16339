package bench

import (
	"fmt"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/decode"
	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/internal/paged"
	"github.com/galley-ml/galley/internal/sample"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// BackendDecodeResult is tokens by the second on a backend.
type BackendDecodeResult struct {
	Weights   string  `json:"weights"`
	Backend   string  `json:"backend"`
	Sequences int     `json:"sequences"`
	Bytes     int     `json:"bytes"`
	Compile   float64 `json:"compile_s"`
	Prefill   float64 `json:"prefill_tokens_per_s"`
	Tokens    float64 `json:"tokens_per_s"`
	// Steps is the number of steps of an execution, MS the milliseconds of one of them.
	Steps int     `json:"steps"`
	MS    float64 `json:"ms_per_step"`
	// Share is the share of the given bandwidth with which a step reads the weights; 0 if none was given.
	Share float64 `json:"share_of_read,omitempty"`
}

func (r BackendDecodeResult) String() string {
	text := fmt.Sprintf("%-5s %s, %d sequence(s): compiled in %.1f s, prefill %7.1f tokens/s, "+
		"decode %7.1f tokens/s; %.1f MB a step in %.2f ms, %d steps an execution", r.Weights, r.Backend,
		r.Sequences, r.Compile,
		r.Prefill, r.Tokens, float64(r.Bytes)/1e6, r.MS, r.Steps)
	if r.Share > 0 {
		text += fmt.Sprintf(", %.2f of the bandwidth", r.Share)
	}
	return text
}

// DecodeOn times a model on a backend with the given memory bandwidth in GB/s; 0 means unknown. Runs
// executions of several steps are timed, and the median counts.
func DecodeOn(b backend.Backend, c DecodeConfig, bandwidth float64) (BackendDecodeResult, error) {
	out := BackendDecodeResult{Weights: c.Weights, Backend: b.Name(), Sequences: c.Sequences,
		Steps: decode.MostAhead}
	if c.Read == nil {
		c.Read = noise
		c.Model.DType = array.BF16
	}
	m, err := models.New(c.Model, nn.Config{})
	if err != nil {
		return out, err
	}
	d, err := decode.New(m, decode.Config{Backend: b, Weights: packed.Format(c.Weights), Read: c.Read,
		Grouped: c.Grouped, KV: paged.KVBF16, Threads: c.Threads})
	if err != nil {
		return out, err
	}
	defer d.Close()
	r := newDecodingOn(c)
	if r.step, err = decode.NewStep(d, len(r.rows)*len(r.rows[0].Pages), c.Sequences, c.Prompt); err != nil {
		return out, err
	}
	defer r.step.Close()
	start := time.Now() // the first of each compiles
	if err := r.prompts(); err != nil {
		return out, err
	}
	if err := r.ahead(); err != nil {
		return out, err
	}
	out.Compile = time.Since(start).Seconds()
	prefill, err := measure(0, 1, r.prompts)
	if err != nil {
		return out, err
	}
	steps, err := measure(0, c.Runs, r.ahead)
	if err != nil {
		return out, err
	}
	out.Bytes, out.MS = d.StepBytes(), steps.MedianMS/decode.MostAhead
	out.Prefill = float64(c.Prompt*c.Sequences) / prefill.BestMS * 1e3
	out.Tokens = float64(c.Sequences) / out.MS * 1e3
	if bandwidth > 0 {
		out.Share = float64(out.Bytes) / out.MS / 1e6 / bandwidth
	}
	return out, nil
}

// decodingOn is growing sequences on a backend.
type decodingOn struct {
	step   *decode.Step
	prompt []int32
	rows   []decode.Row
}

func newDecodingOn(c DecodeConfig) *decodingOn {
	each := (c.Prompt+(c.Runs+1)*decode.MostAhead)/paged.PageTokens + 1
	r := &decodingOn{prompt: make([]int32, c.Prompt)}
	for i := range r.prompt {
		r.prompt[i] = int32(31 * i % c.Model.Vocab)
	}
	for i := range c.Sequences {
		row := decode.Row{Start: c.Prompt, Token: int32(i % c.Model.Vocab), Steps: decode.MostAhead,
			Sampler: sample.New(sample.Config{}, nil, 0)}
		for j := range each {
			row.Pages = append(row.Pages, int32(i*each+j))
		}
		r.rows = append(r.rows, row)
	}
	return r
}

// prompts computes the prompts, one after the other.
func (r *decodingOn) prompts() error {
	for _, row := range r.rows {
		if _, err := r.step.Run([]paged.Sequence{{Pages: row.Pages, Tokens: r.prompt, Want: 1}}); err != nil {
			return err
		}
	}
	return nil
}

// ahead computes some tokens of each.
func (r *decodingOn) ahead() error {
	list, err := r.step.Ahead(r.rows)
	for i, choices := range list {
		r.rows[i].Start, r.rows[i].Token = r.rows[i].Start+len(choices), choices[len(choices)-1].ID
	}
	return err
}
