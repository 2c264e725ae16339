package bench_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/galley-ml/galley/internal/bench"
)

// TestServe: every token of every stream is counted, and what fails is.
func TestServe(t *testing.T) {
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1)%4 == 0 {
			http.Error(w, "no", http.StatusServiceUnavailable)
			return
		}
		for range 5 {
			fmt.Fprint(w, "data: {\"choices\":[{\"text\":\"x\"}]}\n\n")
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	}))
	defer s.Close()
	r, err := bench.Serve{URL: s.URL, Requests: 20, Clients: 3, Words: 5, Shared: 2,
		Tokens: 5}.Run(context.Background())
	if err != nil || r.Failed != 5 || r.Tokens != 75 || !strings.Contains(r.FirstError, "503") ||
		r.FirstP99 < r.FirstP50 {
		t.Errorf("%+v, %v", r, err)
	}
	s.Close()
	if _, err := (bench.Serve{URL: s.URL, Requests: 2, Clients: 1, Words: 1,
		Tokens: 1}).Run(context.Background()); err == nil {
		t.Error("no server: got no error")
	}
}
