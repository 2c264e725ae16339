package serve

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/galley-ml/galley/serve/engine"
)

// newID returns a random id for an answer.
func newID(prefix string) string {
	var b [12]byte
	rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}

// event is a token of one of several requests, or an error.
type event struct {
	request int
	engine.Token
	err error
}

// generate submits all requests to the engine. The channel is closed when all have ended, or ctx is done.
func generate(ctx context.Context, m *Model, requests []engine.Request) <-chan event {
	out, done := make(chan event, 16), make(chan struct{}, len(requests))
	for i, r := range requests {
		go func() {
			defer func() { done <- struct{}{} }()
			for t, err := range m.Engine.Generate(ctx, r) {
				select {
				case out <- event{i, t, err}:
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	go func() {
		for range requests {
			<-done
		}
		close(out)
	}()
	return out
}

// usage counts tokens as OpenAI's usage object does.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// answer is one choice of an answer, while it is generated.
type answer struct {
	text   string
	tokens []engine.Token
	finish engine.Finish
}

// writer writes an answer, at once or as a stream of tokens.
type writer interface {
	// begin and end write the start and end of a stream; token writes a token of one choice.
	begin(s *stream) error
	token(s *stream, choice int, t engine.Token) error
	end(s *stream, u *usage) error
	// whole returns the complete answer with all choices.
	whole(choices []answer, u usage) any
}

// answerRequests runs requests in the engine and writes their answer.
func (s *Server) answerRequests(w http.ResponseWriter, r *http.Request, m *Model, p *params,
	requests []engine.Request, to writer) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	u := usage{}
	n := 0
	for _, q := range requests {
		u.Prompt += len(q.Prompt)
		n += q.N
	}
	events := generate(ctx, m, requests)
	c := collector{server: s, metrics: m.metrics, began: time.Now(), choices: make([]answer, n),
		each:  requests[0].N,
		usage: u, last: make([]time.Time, n), cached: make([]bool, len(requests))}
	if p.Stream {
		withUsage := p.StreamOptions != nil && p.StreamOptions.IncludeUsage
		c.stream(ctx, w, events, to, withUsage)
		return
	}
	c.collect(w, events, to)
}

// collector collects the tokens of one answer.
type collector struct {
	server  *Server
	metrics *modelMetrics
	began   time.Time
	choices []answer
	each    int // the number of choices of each request
	usage   usage
	last    []time.Time
	cached  []bool
	left    int
}

// add records a token and returns the index of its choice.
func (c *collector) add(e event) int {
	now, i := time.Now(), e.request*c.each+e.Index
	a := &c.choices[i]
	if len(a.tokens) == 0 {
		c.metrics.firstToken.observe(now.Sub(c.began).Seconds())
		c.metrics.queued.observe(e.Queued.Seconds())
	} else {
		c.metrics.gap.observe(now.Sub(c.last[i]).Seconds())
	}
	c.last[i] = now
	a.tokens, a.text = append(a.tokens, e.Token), a.text+e.Text
	c.usage.Completion++
	if !c.cached[e.request] {
		c.cached[e.request] = true
		c.usage.Details.Cached += e.Cached
	}
	if e.Finish != "" {
		a.finish = e.Finish
		c.metrics.finished(string(e.Finish))
		c.metrics.whole.observe(now.Sub(c.began).Seconds())
	}
	c.usage.Total = c.usage.Prompt + c.usage.Completion
	return i
}

func (c *collector) collect(w http.ResponseWriter, events <-chan event, to writer) {
	for e := range events {
		if e.err != nil {
			c.metrics.failed(e.err)
			fail(w, e.err)
			return
		}
		c.add(e)
	}
	for _, a := range c.choices {
		if a.finish == "" { // the client has disconnected
			c.metrics.finished("abort")
			return
		}
	}
	deadline(w, c.server.config.WriteTimeout)
	write(w, http.StatusOK, to.whole(c.choices, c.usage))
}
