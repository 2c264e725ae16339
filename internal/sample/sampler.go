package sample

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/galley-ml/galley/internal/kernel"
)

// Sampler chooses the tokens of one sequence.
type Sampler struct {
	config    Config
	draws     *rand.Rand
	prompted  map[int32]bool
	generated map[int32]int
}

// New makes a sampler of a sequence that begins with a prompt. Of a request's several sequences each has its
// own number.
func New(c Config, prompt []int32, number int) *Sampler {
	s := &Sampler{config: c, draws: rand.New(rand.NewPCG(c.Seed, uint64(number))), generated: map[int32]int{}}
	if c.Repetition != 0 && c.Repetition != 1 {
		s.prompted = map[int32]bool{}
		for _, id := range prompt {
			s.prompted[id] = true
		}
	}
	return s
}

// Candidate is a token and its log-probability.
type Candidate struct {
	ID      int32
	LogProb float64
}

// Choice is a token that was chosen. Its log-probability and those of the likeliest tokens are the model's
// own, before penalties, temperature and cuts.
type Choice struct {
	Candidate
	Top []Candidate
}

// ErrNaN is that logits are not numbers.
var ErrNaN = errors.New("logits are not numbers: the model's weights or its input are broken")

// ErrNone is that every token is forbidden.
var ErrNone = errors.New("no token may come next: biases and the grammar forbid all")

// Choose picks a token by logits, which it changes. Where allowed is not nil, tokens whose bit is not set are
// never chosen.
func (s *Sampler) Choose(logits []float32, allowed []uint64) (Choice, error) {
	best := argmax(logits)
	if best < 0 {
		return Choice{}, ErrNaN
	}
	lse := float64(kernel.LogSumExpRow(logits))
	var out Choice
	raw := logits[best]
	if s.config.Top > 0 {
		for _, c := range s.likeliest(logits) {
			out.Top = append(out.Top, Candidate{int32(c.id), float64(c.logit) - lse})
		}
	}
	if s.changes() || allowed != nil {
		kept := buffers.Get().(*buffer)
		kept.raw = append(kept.raw[:0], logits...)
		s.penalise(logits)
		forbid(logits, allowed)
		if best = argmax(logits); math.IsInf(float64(logits[best]), -1) {
			return Choice{}, ErrNone
		}
		id := s.pick(logits, best)
		out.Candidate = Candidate{int32(id), float64(kept.raw[id]) - lse}
		buffers.Put(kept)
	} else {
		id := s.pick(logits, best)
		if id != best {
			raw = logits[id]
		}
		out.Candidate = Candidate{int32(id), float64(raw) - lse}
	}
	s.generated[out.ID]++
	return out, nil
}

// Config returns how the sampler chooses.
func (s *Sampler) Config() Config { return s.config }

// Plain reports whether a token's logits and Uniform are all that the next choice depends on, and all that is
// asked of it: whoever has the logits may then choose.
func (s *Sampler) Plain() bool { return !s.changes() && s.config.Top == 0 }

// Uniform returns the number from 0 to less than 1 that decides the next draw, where a token is drawn.
func (s *Sampler) Uniform() float64 {
	if s.config.Temperature == 0 {
		return 0
	}
	return s.draws.Float64()
}

// buffer is memory that samplers share.
type buffer struct {
	raw  []float32
	heap []candidate
}

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// argmax returns the first of the largest, -1 where there is none that is a number.
func argmax(x []float32) int {
	best := -1
	for i, v := range x {
		if v != v {
			return -1
		}
		if best < 0 || v > x[best] {
			best = i
		}
	}
	return best
}

// changes reports whether anything changes the logits themselves.
func (s *Sampler) changes() bool {
	c := s.config
	return s.prompted != nil || c.Presence != 0 || c.Frequency != 0 || len(c.Bias) > 0
}

func (s *Sampler) penalise(logits []float32) {
	c := s.config
	if s.prompted != nil {
		for id := range s.prompted {
			repeat(&logits[id], c.Repetition)
		}
	}
	for id, n := range s.generated {
		if s.prompted != nil && !s.prompted[id] {
			repeat(&logits[id], c.Repetition)
		}
		logits[id] -= float32(c.Presence + c.Frequency*float64(n))
	}
	for id, b := range c.Bias {
		if b <= -100 {
			logits[id] = float32(math.Inf(-1))
			continue
		}
		logits[id] += float32(b)
	}
}

func repeat(x *float32, by float64) {
	if *x > 0 {
		*x = float32(float64(*x) / by)
		return
	}
	*x = float32(float64(*x) * by)
}

// forbid clears what is not allowed.
func forbid(logits []float32, allowed []uint64) {
	if allowed == nil {
		return
	}
	for i := range logits {
		if i/64 >= len(allowed) || allowed[i/64]>>(i%64)&1 == 0 {
			logits[i] = float32(math.Inf(-1))
		}
	}
}

// pick takes the likeliest token or draws one.
func (s *Sampler) pick(logits []float32, best int) int {
	if s.config.Temperature == 0 {
		return best
	}
	return s.draw(logits, logits[best])
}
