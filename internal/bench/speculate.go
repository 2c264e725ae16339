package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/serve/engine"
)

// SpeculateResult is the speed of a repetitive text with and without guesses, measured in turns.
type SpeculateResult struct {
	Weights  string  `json:"weights"`
	Threads  int     `json:"threads"`
	Guesses  int     `json:"guesses"`
	Plain    float64 `json:"plain_tokens_per_s"`
	Guessing float64 `json:"guessing_tokens_per_s"`
	Right    float64 `json:"share_of_guesses_right"`
	Ratio    float64 `json:"ratio"`
	// CPURatio is the ratio of the processor times of a token, which other load affects less.
	CPURatio float64 `json:"cpu_ratio"`
}

func (r SpeculateResult) String() string {
	return fmt.Sprintf(
		"%-5s %d guesses: %7.1f tokens/s, without %7.1f: ratio %.2f, by processor time %.2f; "+
			"%.0f%% of the guesses were right",
		r.Weights,
		r.Guesses,
		r.Guessing,
		r.Plain,
		r.Ratio,
		r.CPURatio,
		100*r.Right,
	)
}

// Speculate times c.Runs tokens of a model whose text repeats itself: random weights with zeros for
// attention's output, so that each token determines the next. Everything is computed nevertheless.
func Speculate(c DecodeConfig, guesses int) (SpeculateResult, error) {
	out := SpeculateResult{Weights: c.Weights, Threads: c.Threads, Guesses: guesses}
	m, err := models.New(c.Model, nn.Config{})
	if err != nil {
		return out, err
	}
	repeating := func(p *nn.Param) (array.Array, error) {
		a, err := noise(p)
		if strings.HasSuffix(p.Name, "o_proj.weight") {
			clear(a.Bytes())
		}
		return a, err
	}
	e, err := engine.New(m, engine.Config{Weights: c.Weights, Read: repeating, Threads: c.Threads, Running: 1,
		Context: 4096, Speculate: guesses})
	if err != nil {
		return out, err
	}
	defer e.Close()
	text, err := warm(e, c.Model.Vocab)
	if err != nil {
		return out, err
	}
	before := e.Stats()
	var cpu [2]float64 // without guesses, and with
	for range 3 {
		for _, g := range []int{0, guesses} {
			began := CPUSeconds()
			speed, err := tokenSpeed(e, text, c.Runs, g)
			if err != nil {
				return out, err
			}
			cpu[min(1, g)] += CPUSeconds() - began
			if g > 0 {
				out.Guessing = max(out.Guessing, speed)
			} else {
				out.Plain = max(out.Plain, speed)
			}
		}
	}
	after := e.Stats()
	if n := after.Guessed - before.Guessed; n > 0 {
		out.Right = float64(after.GuessedRight-before.GuessedRight) / float64(n)
	}
	out.Ratio = out.Guessing / out.Plain
	if cpu[1] > 0 {
		out.CPURatio = cpu[0] / cpu[1]
	}
	return out, nil
}

// warm returns a text that has begun to repeat itself: its last token occurred before.
func warm(e *engine.Engine, vocab int) ([]int32, error) {
	text, seen := []int32{1}, map[int32]int{}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for t, err := range e.Generate(ctx, engine.Request{Prompt: text, Tokens: 3000}) {
		if err != nil {
			return nil, err
		}
		text = append(text, t.ID)
		if seen[t.ID]++; seen[t.ID] == 3 {
			return text, nil
		}
	}
	return nil, fmt.Errorf(
		"the text does not repeat itself within %d tokens: want a vocabulary below %d",
		len(text),
		vocab,
	)
}

// tokenSpeed returns the tokens per second after the first: the prompt is in the KV cache by then.
func tokenSpeed(e *engine.Engine, text []int32, tokens, guesses int) (float64, error) {
	var began time.Time
	n := 0
	r := engine.Request{Prompt: text, Tokens: tokens + 1, Plain: guesses == 0}
	for _, err := range e.Generate(context.Background(), r) {
		if err != nil {
			return 0, err
		}
		if n++; n == 1 {
			began = time.Now()
		}
	}
	return float64(n-1) / time.Since(began).Seconds(), nil
}
