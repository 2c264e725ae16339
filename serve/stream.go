package serve

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// stream writes server-sent events. It ends if the client takes too long to read one.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	begun   bool
	quiet   bool // the API ends its streams itself, without [DONE]
}

// deadline limits the time for the client to read the next write.
func deadline(w http.ResponseWriter, d time.Duration) {
	http.NewResponseController(w).
		SetWriteDeadline(time.Now().Add(d))
	// an error means that deadlines are not supported
}

// send writes one event.
func (s *stream) send(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.line("data: " + string(text))
}

func (s *stream) line(text string) error {
	if !s.begun {
		s.begun = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
		s.w.WriteHeader(http.StatusOK)
	}
	deadline(s.w, s.timeout)
	if _, err := s.w.Write([]byte(text + "\n\n")); err != nil {
		return err
	}
	return s.control.Flush()
}

// stream writes tokens as they are generated, and a comment if there is none for long. It writes nothing
// before the first token, so that an error can still have its status code.
func (c *collector) stream(
	ctx context.Context,
	w http.ResponseWriter,
	events <-chan event,
	to writer,
	withUsage bool,
) {
	s := &stream{w: w, control: http.NewResponseController(w), timeout: c.server.config.WriteTimeout}
	beat := time.NewTicker(c.server.config.Heartbeat)
	defer beat.Stop()
	var err error
	for err == nil {
		select {
		case e, ok := <-events:
			if !ok {
				c.finish(s, to, withUsage)
				return
			}
			if err = c.pass(s, e, to); err != nil && e.err != nil {
				return
			}
		case <-beat.C:
			err = s.line(": waiting")
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	c.metrics.finished("abort") // the client has disconnected, or is too slow
}

// pass writes one event to the stream.
func (c *collector) pass(s *stream, e event, to writer) error {
	if e.err != nil {
		c.metrics.failed(e.err)
		if !s.begun {
			fail(s.w, e.err)
		} else if err := s.send(asError(e.err)); err != nil {
			return err
		}
		return e.err
	}
	if c.left == 0 {
		c.left = len(c.choices)
		if err := to.begin(s); err != nil {
			return err
		}
	}
	return to.token(s, c.add(e), e.Token)
}

// finish ends a stream whose choices are all complete; otherwise the client has disconnected.
func (c *collector) finish(s *stream, to writer, withUsage bool) {
	for _, a := range c.choices {
		if a.finish == "" {
			c.metrics.finished("abort")
			return
		}
	}
	var u *usage
	if withUsage {
		u = &c.usage
	}
	if to.end(s, u) == nil && !s.quiet {
		s.line("data: [DONE]")
	}
}
