package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/galley-ml/galley/serve"
	"github.com/galley-ml/galley/serve/engine"
)

var (
	stormTime    = flag.Duration("storm", 2*time.Second, "how long TestStorm lasts")
	stormClients = flag.Int("clients", 60, "how many clients TestStorm has at once")
)

// TestStorm: many clients at once, of which a third leaves in the middle, a tenth reads slowly and some send
// nonsense. Every answer that is complete is that of its own prompt; in the end every page is free, no
// goroutine is left and no memory is held that was not before.
func TestStorm(t *testing.T) {
	before := runtime.NumGoroutine()
	func() {
		m := newModel(t, "small", engine.Config{Running: 16, Pages: 200, Budget: 64, Context: 256})
		s, err := serve.New(serve.Config{Models: []*serve.Model{m}, Heartbeat: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		web := &http.Server{Handler: s}
		go web.Serve(l)
		defer web.Close()
		st := newStorm(t, "http://"+l.Addr().String())
		held := heap()
		st.run(*stormClients, *stormTime)
		if err := s.Drain(context.Background()); err != nil {
			t.Fatal(err)
		}
		if x := m.Engine.Stats(); x.UsedPages != 0 || x.Running != 0 || x.Waiting != 0 {
			t.Errorf("in the end: %+v", x)
		}
		t.Logf("%d answers, %d left, %d refused", st.complete.Load(), st.left.Load(), st.refused.Load())
		if st.complete.Load() == 0 || st.left.Load() == 0 || st.refused.Load() == 0 {
			t.Error("the storm had not all kinds of clients")
		}
		if now := heap(); now > held+stormHeap {
			t.Errorf("%d bytes of heap, %d before", now, held)
		}
	}()
	for range 100 {
		if runtime.NumGoroutine() <= before+2 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

// stormHeap is what the heap may have more after a storm: buffers of connections that are kept.
const stormHeap = 16 << 20

// heap returns the bytes that are still referred to.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what pools kept from the last one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// storm is clients that know what every prompt is answered with.
type storm struct {
	t                       *testing.T
	url                     string
	client                  *http.Client
	want                    []string
	complete, left, refused atomic.Int64
}

func newStorm(t *testing.T, url string) *storm {
	s := &storm{t: t, url: url, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	for i := range 20 {
		text, err := s.ask(context.Background(), i, false, 0)
		if err != nil {
			t.Fatal(err)
		}
		s.want = append(s.want, text)
	}
	return s
}

func (s *storm) run(clients int, d time.Duration) {
	defer s.client.CloseIdleConnections()
	end := time.Now().Add(d)
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(c), 1))
			for time.Now().Before(end) && !s.t.Failed() {
				s.one(r, c)
			}
		})
	}
	wg.Wait()
}

// one is one request of a client.
func (s *storm) one(r *rand.Rand, c int) {
	i := r.IntN(len(s.want))
	switch r.IntN(12) {
	case 0: // nonsense, and too much of it
		a, err := s.client.Post(s.url+"/v1/completions", "application/json",
			strings.NewReader([]string{"{", `{"prompt": 1.5}`, strings.Repeat("x", 5<<20)}[r.IntN(3)]))
		if err == nil {
			io.Copy(io.Discard, a.Body)
			a.Body.Close()
			if a.StatusCode < 400 {
				s.t.Errorf("nonsense: got %d", a.StatusCode)
			}
		}
		s.refused.Add(1)
	case 1, 2, 3, 4:
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(30))*time.Millisecond)
		s.ask(ctx, i, r.IntN(2) == 0, 0)
		cancel()
		s.left.Add(1)
	default:
		slow := time.Duration(0)
		if c%10 == 0 {
			slow = time.Millisecond
		}
		got, err := s.ask(context.Background(), i, r.IntN(2) == 0, slow)
		if err != nil || got != s.want[i] {
			s.t.Errorf("prompt %d: got %q, %v, want %q", i, got, err, s.want[i])
		}
		s.complete.Add(1)
	}
}

// ask returns the text that a prompt is answered with. A slow reader waits before each line.
func (s *storm) ask(ctx context.Context, i int, stream bool, slow time.Duration) (string, error) {
	body := fmt.Sprintf(`{"prompt": "prompt number %d", "max_tokens": %d, "seed": %d, "stream": %v}`, i, 10+i, i,
		stream)
	r, err := http.NewRequestWithContext(ctx, "POST", s.url+"/v1/completions", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	a, err := s.client.Do(r)
	if err != nil {
		return "", err
	}
	defer a.Body.Close()
	if a.StatusCode != 200 {
		text, _ := io.ReadAll(a.Body)
		return "", fmt.Errorf("%d %s", a.StatusCode, text)
	}
	var out strings.Builder
	lines := bufio.NewScanner(a.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		time.Sleep(slow)
		text, _ := strings.CutPrefix(lines.Text(), "data: ")
		var e struct{ Choices []struct{ Text string } }
		if json.Unmarshal([]byte(text), &e) == nil && len(e.Choices) > 0 {
			out.WriteString(e.Choices[0].Text)
		}
	}
	return out.String(), lines.Err()
}
