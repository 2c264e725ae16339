package serve

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

func digests(keys []string) (out [][32]byte) {
	for _, k := range keys {
		out = append(out, sha256.Sum256([]byte(k)))
	}
	return out
}

// admitted returns a handler that passes only requests with a valid key, within the key's rate limit.
func (s *Server) admitted(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key, ok := s.key(r)
		if !ok {
			w.Header().Set("WWW-Authenticate", "Bearer")
			fail(w, newError(http.StatusUnauthorized, "invalid_request_error",
				"want Authorization: Bearer KEY with a key of this server").at("", "invalid_api_key"))
			return
		}
		if wait := s.rates.take(key, time.Now()); wait > 0 {
			e := newError(http.StatusTooManyRequests, "requests", "more than %v requests a second", s.config.Rate).
				at("", "rate_limit_exceeded")
			e.retry = int(math.Ceil(wait.Seconds()))
			fail(w, e)
			return
		}
		if err := s.receive(w, r); err != nil {
			fail(w, err)
			return
		}
		next(w, r)
	}
}

// receive reads the whole body of a request, up to the size limit, and within a time limit.
func (s *Server) receive(w http.ResponseWriter, r *http.Request) error {
	c := http.NewResponseController(w)
	c.SetReadDeadline(time.Now().Add(s.config.WriteTimeout)) // an error means that deadlines are not supported
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.config.Body))
	c.SetReadDeadline(time.Time{})
	if err != nil {
		return readError(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	return nil
}

// key returns the index of a request's key. All keys are compared, each in constant time.
func (s *Server) key(r *http.Request) (int, bool) {
	if len(s.keys) == 0 {
		return 0, true
	}
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	digest, found := sha256.Sum256([]byte(given)), -1
	for i, k := range s.keys {
		if subtle.ConstantTimeCompare(k[:], digest[:]) == 1 {
			found = i
		}
	}
	return found, ok && found >= 0
}

// tenant returns the tenant of a request: its key and the user that it names.
func (s *Server) tenant(r *http.Request, user string) string {
	key, _ := s.key(r)
	return fmt.Sprintf("%d/%s", key, user)
}

// rates limits the requests of each key by a token bucket that holds one second's requests.
type rates struct {
	limit float64
	mu    sync.Mutex
	left  map[int]float64
	last  map[int]time.Time
}

// take counts a request; if there were too many, it returns how long the client must wait.
func (r *rates) take(key int, now time.Time) time.Duration {
	if r.limit <= 0 {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left == nil {
		r.left, r.last = map[int]float64{}, map[int]time.Time{}
	}
	most := max(1, r.limit)
	left := most
	if last, ok := r.last[key]; ok {
		left = min(most, r.left[key]+now.Sub(last).Seconds()*r.limit)
	}
	r.last[key] = now
	if left < 1 {
		r.left[key] = left
		return time.Duration((1 - left) / r.limit * float64(time.Second))
	}
	r.left[key] = left - 1
	return 0
}

// read decodes a request's JSON; an unknown field is an error.
func read(r *http.Request, to any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return readError(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return badRequest("the request goes on after its JSON object")
	}
	return nil
}

func readError(err error) error {
	var large *http.MaxBytesError
	var kind *json.UnmarshalTypeError
	var api *apiError
	switch {
	case errors.As(err, &large), errors.As(err, &api):
		return err
	case errors.As(err, &kind):
		return badRequest("%s: got a %s, want %s", kind.Field, kind.Value, kind.Type).at(kind.Field, "")
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if field, ok := strings.CutPrefix(text, "unknown field "); ok {
		return badRequest("unrecognized request argument: %s", field).at(strings.Trim(field, `"`),
			"unknown_parameter")
	}
	return badRequest("the request is not JSON: %s", text)
}

// cors sets the CORS headers for allowed origins and answers preflight requests; it reports whether the
// request was one.
func (s *Server) cors(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || !slices.Contains(s.config.Origins, origin) && !slices.Contains(s.config.Origins, "*") {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
	h.Set("Access-Control-Max-Age", "3600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
