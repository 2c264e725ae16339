package engine

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/galley-ml/galley/internal/sample"
)

// request is a submitted Request. Generated tokens are in events until the caller reads them: never more than
// the request's number of tokens.
type request struct {
	Request
	ctx  context.Context
	came time.Time
	open int // sequences that have not ended; guarded by the engine's lock

	mu     sync.Mutex
	events []Token
	hidden []float32
	err    error
	over   bool
	notify chan struct{}
}

func newRequest(ctx context.Context, r Request) *request {
	r.N = max(1, r.N)
	return &request{Request: r, ctx: ctx, came: time.Now(), open: r.N, notify: make(chan struct{}, 1)}
}

// tell wakes the goroutine that waits for the request.
func (r *request) tell() {
	select {
	case r.notify <- struct{}{}:
	default:
	}
}

func (r *request) add(t Token, over bool) {
	r.mu.Lock()
	r.events = append(r.events, t)
	r.over = r.over || over
	r.mu.Unlock()
	r.tell()
}

func (r *request) end(err error) {
	r.mu.Lock()
	if !r.over {
		r.over, r.err = true, err
	}
	r.mu.Unlock()
	r.tell()
}

// take returns and removes the tokens generated since the last call.
func (r *request) take() (events []Token, over bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events, r.events = r.events, nil
	return events, r.over, r.err
}

// Generate continues a prompt and yields tokens as they are generated, those of several continuations
// interleaved. If the caller stops, or ctx is done, the request ends. An error is the last element.
func (e *Engine) Generate(ctx context.Context, r Request) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		q, err := e.submit(ctx, r, false)
		if err != nil {
			yield(Token{}, err)
			return
		}
		defer context.AfterFunc(ctx, func() { e.cancel(q, context.Cause(ctx)) })()
		for {
			<-q.notify
			events, over, err := q.take()
			for _, t := range events {
				if !yield(t, nil) {
					e.cancel(q, context.Canceled)
					return
				}
			}
			if over {
				if err != nil {
					yield(Token{}, err)
				}
				return
			}
		}
	}
}

// Embed returns the final hidden state of a prompt's last token, after the model's last norm.
func (e *Engine) Embed(ctx context.Context, r Request) ([]float32, error) {
	r.Tokens = 1
	q, err := e.submit(ctx, r, true)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { e.cancel(q, context.Cause(ctx)) })()
	for {
		<-q.notify
		if _, over, err := q.take(); over {
			return q.hidden, err
		}
	}
}

// submit checks a request and adds its sequences to the queue.
func (e *Engine) submit(ctx context.Context, r Request, embed bool) (*request, error) {
	if err := e.check(&r); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q := newRequest(ctx, r)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return nil, ErrClosed
	case e.failed != nil:
		return nil, e.failed
	case e.draining:
		return nil, ErrDraining
	case e.config.Waiting > 0 && len(e.queue.list)+q.N > e.config.Waiting+max(0,
		e.config.Running-len(e.running)):
		return nil, ErrFull
	}
	adapter, err := e.adapterOf(q.Adapter)
	if err != nil {
		return nil, err
	}
	var first *sequence
	for i := range q.N {
		e.arrivals++
		s := &sequence{request: q, index: i, arrival: e.arrivals, after: first, embed: embed,
			draft: draft{right: 1}, adapter: adapter,
			tokens:  append(make([]int32, 0, len(q.Prompt)+min(q.Tokens, 256)), q.Prompt...),
			sampler: sample.New(q.Sampling, q.Prompt, i), text: newText(e.config.Decode, &q.Request)}
		if q.Masks != nil {
			s.mask = q.Masks()
		}
		if first == nil {
			first = s
		}
		e.queue.enter(q.Tenant)
		e.queue.push(s)
	}
	e.stats.PromptTokens += int64(len(q.Prompt))
	e.wake.Broadcast()
	return q, nil
}

// cancel ends a request. Waiting sequences are removed at once, running ones before the next step.
func (e *Engine) cancel(q *request, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q.end(err)
	for i := len(e.queue.list) - 1; i >= 0; i-- {
		if s := e.queue.list[i]; s.request == q {
			e.queue.remove(s)
			e.finish(s)
		}
	}
	e.wake.Broadcast()
}

// finish releases the pages and counts of a sequence that neither waits nor runs any more.
func (e *Engine) finish(s *sequence) {
	if s.ended {
		return
	}
	s.ended = true
	s.leave(e.pages)
	s.open--
	e.queue.leave(s.Tenant)
	e.wake.Broadcast() // wakes Drain
}

// expired reports whether a request's deadline has passed.
func (q *request) expired(now time.Time) bool { return !q.Deadline.IsZero() && now.After(q.Deadline) }

// gone reports whether a request has ended already.
func (q *request) gone() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.over
}
