package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Config configures a Server.
type Config struct {
	// Models are the models that requests may name; the first is the default.
	Models []*Model
	// Keys are the accepted bearer tokens; none means no authentication.
	Keys []string
	// Body is the maximum size of a request in bytes; 0 means 4 MiB.
	Body int64
	// Tokens is the maximum number of tokens that a request may generate; 0 means what the context allows.
	Tokens int
	// Rate is the maximum number of requests per second and key; 0 means no limit.
	Rate float64
	// Heartbeat is how long a stream may be silent before a comment is sent; 0 means 15 s.
	Heartbeat time.Duration
	// WriteTimeout is how long a client may take to read one piece of an answer before its request is
	// cancelled; 0 means 30 s.
	WriteTimeout time.Duration
	// Adapters is the directory of adapters that may be loaded while the server runs; empty means none.
	Adapters string
	// Origins are the web origins that may call the API (CORS); empty means only our own page.
	Origins []string
}

// Server is an http.Handler. It is safe for concurrent use.
type Server struct {
	config  Config
	keys    [][32]byte
	mux     *http.ServeMux
	rates   rates
	metrics *metrics
	start   time.Time

	mu     sync.Mutex
	models []*Model
	ready  bool
}

// New creates a server that owns the models and closes them.
func New(c Config) (*Server, error) {
	if len(c.Models) == 0 {
		return nil, errors.New("serve: no model")
	}
	if c.Body == 0 {
		c.Body = 4 << 20
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = 15 * time.Second
	}
	if c.WriteTimeout == 0 {
		c.WriteTimeout = 30 * time.Second
	}
	s := &Server{config: c, keys: digests(c.Keys), models: c.Models, ready: true, start: time.Now(),
		rates: rates{limit: c.Rate}, metrics: newMetrics()}
	for i, m := range c.Models {
		for _, other := range c.Models[:i] {
			if other.Name == m.Name {
				return nil, fmt.Errorf("serve: two models are called %q", m.Name)
			}
		}
		m.metrics = s.metrics.of(m)
	}
	s.route()
	return s, nil
}

func (s *Server) route() {
	s.mux = http.NewServeMux()
	open := func(pattern string, h http.HandlerFunc) { s.mux.HandleFunc(pattern, h) }
	keyed := func(pattern string, h http.HandlerFunc) { s.mux.HandleFunc(pattern, s.admitted(h)) }
	open("GET /{$}", s.page)
	open("GET /health", s.health)
	open("GET /ready", s.readiness)
	open("GET /metrics", s.exposition)
	keyed("GET /v1/models", s.listModels)
	keyed("GET /v1/models/{name...}", s.oneModel)
	keyed("POST /v1/completions", s.completions)
	keyed("POST /v1/chat/completions", s.chat)
	keyed("POST /v1/responses", s.responses)
	keyed("POST /v1/embeddings", s.embeddings)
	keyed("POST /v1/load_lora_adapter", s.loadAdapter)
	keyed("POST /v1/unload_lora_adapter", s.unloadAdapter)
	keyed("POST /tokenize", s.tokenize)
	keyed("POST /detokenize", s.detokenize)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(
			w,
			notFound("no %s %s here: see /v1/models, /v1/completions, /v1/chat/completions", r.Method, r.URL.Path),
		)
	})
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.cors(w, r) {
		return
	}
	s.mux.ServeHTTP(w, r)
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, map[string]string{"status": "ok"})
}

// readiness reports whether the server accepts requests.
func (s *Server) readiness(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	ready := s.ready
	s.mu.Unlock()
	if !ready {
		fail(w, unavailable("the server is draining: it takes no further requests"))
		return
	}
	write(w, http.StatusOK, map[string]string{"status": "ready"})
}

// model returns a model by its name, or that of one of its adapters; the empty name is the first.
func (s *Server) model(name string) (*Model, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.models {
		if m.has(name) {
			m.users.Add(1)
			return m, nil
		}
	}
	return nil, notFound("model %q: it is not served here: see /v1/models", name).at("model", "model_not_found")
}

// Replace serves m in place of the model with its name, and closes the old one after its last request.
func (s *Server) Replace(m *Model) error {
	if old, err := s.model(m.Name); err == nil {
		err = m.adopt(old)
		old.users.Done()
		if err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, old := range s.models {
		if old.Name == m.Name {
			m.metrics = s.metrics.of(m)
			s.models[i] = m
			go func() {
				old.users.Wait()
				old.Engine.Close()
			}()
			return nil
		}
	}
	return fmt.Errorf("serve: no model is called %q", m.Name)
}

// Drain rejects new requests and waits until the current ones are answered, or ctx is done.
func (s *Server) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.ready = false
	models := s.models
	s.mu.Unlock()
	for _, m := range models {
		if err := m.Engine.Drain(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the models.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.models {
		m.Engine.Close()
	}
}
