package models

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
)

// GenerateConfig configures generation.
type GenerateConfig struct {
	// Tokens is the maximal number of generated tokens.
	Tokens int
	// Temperature divides the logits before a token is drawn; 0 means greedy decoding.
	Temperature float64
	// TopK restricts draws to the k most likely tokens; 0 means all.
	TopK int
	// TopP restricts draws to the most likely tokens that together have this probability; 0 means all.
	TopP float64
	// Seed is that of the random draws.
	Seed uint64
	// Stop ends generation after any of these tokens.
	Stop []int32
}

func (c GenerateConfig) validate() error {
	switch {
	case c.Tokens < 0:
		return fmt.Errorf("tokens: got %d, want 0 or more", c.Tokens)
	case c.Temperature < 0 || math.IsNaN(c.Temperature) || math.IsInf(c.Temperature, 0):
		return fmt.Errorf("temperature: got %v, want 0 or more", c.Temperature)
	case c.TopK < 0:
		return fmt.Errorf("top-k: got %d, want 0 or more", c.TopK)
	case !(c.TopP >= 0 && c.TopP <= 1):
		return fmt.Errorf("top-p: got %v, want 0 to 1", c.TopP)
	}
	return nil
}

// Generate continues prompt, encoded tokens, one token at a time, with the values that m's parameters have at
// the start. It ends after an error.
func Generate(m Model, prompt []int32, c GenerateConfig) iter.Seq2[int32, error] {
	return func(yield func(int32, error) bool) {
		g, err := newGenerator(m, prompt, c)
		next := prompt
		for i := 0; err == nil && i < c.Tokens; i++ {
			var token int32
			if token, err = g.step(next); err != nil {
				break
			}
			if !yield(token, nil) || slices.Contains(c.Stop, token) {
				return
			}
			next = []int32{token}
		}
		if err != nil {
			yield(0, fmt.Errorf("generate: %w", err))
		}
	}
}

type generator struct {
	model  Model
	host   Host
	cache  *Cache
	config GenerateConfig
	draws  *rand.Rand
}

func newGenerator(m Model, prompt []int32, c GenerateConfig) (*generator, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	if len(prompt) == 0 {
		return nil, fmt.Errorf("prompt: it is empty")
	}
	vocab := m.Config().Vocab
	for _, id := range prompt {
		if id < 0 || int(id) >= vocab {
			return nil, fmt.Errorf("prompt: token %d: the vocabulary has %d", id, vocab)
		}
	}
	frozen, err := Freeze(m)
	if err != nil {
		return nil, err
	}
	host, ok := frozen.Params()[0].Value.Scope().(Host)
	if !ok {
		return nil, fmt.Errorf("the model is traced: want an eager one")
	}
	return &generator{
		model: frozen, host: host, config: c,
		cache: NewCache(frozen, len(prompt)+c.Tokens),
		draws: rand.New(rand.NewPCG(c.Seed, 0)),
	}, nil
}

// step feeds tokens to the model and chooses the next one.
func (g *generator) step(tokens []int32) (int32, error) {
	logits, err := cpu.Read(g.model.Decode(g.host.Tensor(array.FromSlice(tokens, 1, len(tokens))), g.cache))
	if err != nil {
		return 0, err
	}
	token, err := g.choose(logits.Float64s())
	return int32(token), err
}

// choose picks a token by its logits.
func (g *generator) choose(logits []float64) (int, error) {
	best := 0
	for i, x := range logits {
		if math.IsNaN(x) {
			return 0, fmt.Errorf("logits are not numbers")
		}
		if x > logits[best] {
			best = i
		}
	}
	if g.config.Temperature == 0 {
		return best, nil
	}
	return g.draw(logits), nil
}

// draw samples one of the most likely tokens.
func (g *generator) draw(logits []float64) int {
	order := make([]int, len(logits))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(logits[b], logits[a]) })
	if k := g.config.TopK; k > 0 {
		order = order[:min(k, len(order))]
	}
	weights, total := make([]float64, len(order)), 0.0
	for i, token := range order {
		weights[i] = math.Exp((logits[token] - logits[order[0]]) / g.config.Temperature)
		total += weights[i]
	}
	if p := g.config.TopP; p > 0 {
		total = keepTop(&weights, p*total)
	}
	at := g.draws.Float64() * total
	for i, w := range weights {
		if at -= w; at < 0 {
			return order[i]
		}
	}
	return order[len(weights)-1]
}

// keepTop truncates weights after the first ones that together reach enough, and returns their sum.
func keepTop(weights *[]float64, enough float64) float64 {
	sum := 0.0
	for i, w := range *weights {
		if sum += w; sum >= enough {
			*weights = (*weights)[:i+1]
			break
		}
	}
	return sum
}
