package engine

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/galley-ml/galley/internal/sample"
)

// Sampling configures how tokens are sampled. The zero value is greedy decoding.
type Sampling = sample.Config

// Candidate is a token and its log-probability.
type Candidate = sample.Candidate

// Request is a prompt to continue.
type Request struct {
	// Prompt is the tokens to continue, at least one.
	Prompt []int32
	// Tokens is the largest number of tokens to generate.
	Tokens   int
	Sampling Sampling
	// N is the number of continuations, each sampled with its own random numbers; 0 means 1.
	N int
	// Stop ends a continuation after any of these tokens; StopText before any of these texts, or after it if
	// KeepStop is set.
	Stop     []int32
	StopText []string
	KeepStop bool
	// Priority decides which requests start first and are preempted last: larger ones.
	Priority int
	// Tenant is the owner of the request. Tenants of equal priority get equal shares.
	Tenant string
	// Adapter is the name of the adapter for this request; empty is none.
	Adapter string
	// Salt separates requests that must not learn of each other's prompts by the time of shared prefixes.
	Salt string
	// Deadline is when the request ends with an error; the zero value is never.
	Deadline time.Time
	// Plain disables speculative decoding for the request.
	Plain bool
	// Masks, if not nil, returns the mask of each continuation, which restricts its tokens.
	Masks func() Mask
}

// Mask restricts the tokens of a continuation.
type Mask interface {
	// Allowed returns a bit for each token of the vocabulary that may come next. It does not change until
	// Take.
	Allowed() []uint64
	// Take advances the mask by the chosen token.
	Take(id int32)
	// Done reports whether no token can follow: the continuation then ends as at a stop token.
	Done() bool
}

// Token is one generated token.
type Token struct {
	// Index is the index of the continuation, from 0.
	Index int
	ID    int32
	// Text is the text that can be shown now: whole characters that are no beginning of a stop text.
	Text    string
	LogProb float64
	// Top are the likeliest tokens, if requested.
	Top []Candidate
	// Finish is why the continuation ends with this token; empty if it continues.
	Finish Finish
	// Cached is the number of prompt tokens that were found in cached pages.
	Cached int
	// Queued is how long the continuation waited before its first step.
	Queued time.Duration
}

// Finish is the reason why a continuation ends.
type Finish string

// The reasons: a stop token or text, and the number of tokens or the model's limit.
const (
	FinishStop   Finish = "stop"
	FinishLength Finish = "length"
)

// Errors that a request may end with.
var (
	ErrClosed   = errors.New("engine: closed")
	ErrDraining = errors.New("engine: draining: no further requests are taken")
	ErrFull     = errors.New("engine: too many requests are waiting")
	ErrDeadline = errors.New("engine: the request's deadline has passed")
)

// BadRequest is an error of a request that can never be computed.
type BadRequest struct {
	// Param is the field at fault.
	Param string
	Err   error
}

func (e *BadRequest) Error() string { return "engine: " + e.Err.Error() }
func (e *BadRequest) Unwrap() error { return e.Err }

func bad(param, format string, args ...any) error {
	return &BadRequest{Param: param, Err: fmt.Errorf(format, args...)}
}

// check returns an error if a request is invalid.
func (e *Engine) check(r *Request) error {
	vocab := e.model.Config().Vocab
	if len(r.Prompt) == 0 {
		return bad("prompt", "prompt: it is empty")
	}
	for _, id := range r.Prompt {
		if id < 0 || int(id) >= vocab {
			return bad("prompt", "prompt: token %d: the vocabulary has %d", id, vocab)
		}
	}
	if r.Tokens < 1 {
		return bad("max_tokens", "tokens: got %d, want at least 1", r.Tokens)
	}
	if r.N < 0 || r.N > e.config.Running {
		return bad("n", "n: got %d, want 1 to %d", r.N, e.config.Running)
	}
	if err := r.Sampling.Validate(vocab); err != nil {
		field, _, _ := strings.Cut(err.Error(), ":")
		return &BadRequest{Param: field, Err: err}
	}
	if limit := e.Limit(); len(r.Prompt)+1 > limit {
		return bad("prompt", "prompt: it has %d tokens: the context is %d, of which at least one is generated",
			len(r.Prompt), limit)
	}
	return nil
}
