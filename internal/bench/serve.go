package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Serve is a load test of a server with OpenAI's API.
type Serve struct {
	// URL is the server's, without /v1. Key and Model may be empty; the server then chooses the model.
	URL, Key, Model string
	// Requests is the number of requests, Clients how many run at once.
	Requests, Clients int
	// Rate is the requests sent a second; 0 means as fast as clients can.
	Rate float64
	// Words is the number of words of a prompt, Shared the length of the prefix that all prompts share.
	Words, Shared int
	// Tokens is the number of tokens generated for each.
	Tokens int
	// Goal is the most time to the first token for a request to count as good; 0 counts all.
	Goal time.Duration
	Seed uint64
}

// ServeResult is the clients' measurements. Times are in milliseconds.
type ServeResult struct {
	Requests, Failed            int
	Tokens                      int
	Seconds, TokensPerSecond    float64
	FirstP50, FirstP99          float64
	GapP50, GapP99              float64
	WholeP50, WholeP99          float64
	GoodPerSecond, AllPerSecond float64
	FirstError                  string `json:",omitempty"`
}

func (r ServeResult) String() string {
	s := fmt.Sprintf("%d requests, %d failed, %.1f s: %.1f tokens/s, %.2f requests/s, %.2f of them good\n"+
		"first token p50 %.1f ms, p99 %.1f ms; gap p50 %.1f ms, p99 %.1f ms; whole p50 %.0f ms, p99 %.0f ms",
		r.Requests, r.Failed, r.Seconds, r.TokensPerSecond, r.AllPerSecond, r.GoodPerSecond, r.FirstP50, r.FirstP99,
		r.GapP50, r.GapP99, r.WholeP50, r.WholeP99)
	if r.FirstError != "" {
		s += "\nfirst error: " + r.FirstError
	}
	return s
}

// served is one request as measured by its client.
type served struct {
	first, whole time.Duration
	gaps         []time.Duration
	tokens       int
	err          error
}

// Run sends the requests. It returns an error if none of them was answered.
func (c Serve) Run(ctx context.Context) (ServeResult, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: c.Clients}}
	defer client.CloseIdleConnections()
	work, out := make(chan int), make([]served, c.Requests)
	began := time.Now()
	var wg sync.WaitGroup
	for range c.Clients {
		wg.Go(func() {
			for i := range work {
				out[i] = c.one(ctx, client, i)
			}
		})
	}
	for i := range c.Requests {
		if c.Rate > 0 {
			time.Sleep(time.Until(began.Add(time.Duration(float64(i) / c.Rate * float64(time.Second)))))
		}
		work <- i
	}
	close(work)
	wg.Wait()
	return c.sum(out, time.Since(began))
}

// prompt returns words with the prefix that all prompts share.
func (c Serve) prompt(i int) string {
	words := make([]string, c.Words)
	common, own := rand.New(rand.NewPCG(c.Seed, 0)), rand.New(rand.NewPCG(c.Seed, uint64(i)+1))
	for j := range words {
		r := own
		if j < c.Shared {
			r = common
		}
		words[j] = fmt.Sprintf("w%d", r.IntN(1000))
	}
	return strings.Join(words, " ")
}

func (c Serve) one(ctx context.Context, client *http.Client, i int) (s served) {
	ask := map[string]any{"prompt": c.prompt(i), "max_tokens": c.Tokens, "stream": true, "temperature": 0,
		"ignore_eos": true}
	if c.Model != "" {
		ask["model"] = c.Model
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return served{err: err}
	}
	r, err := http.NewRequestWithContext(ctx, "POST", c.URL+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		return served{err: err}
	}
	r.Header.Set("Content-Type", "application/json")
	if c.Key != "" {
		r.Header.Set("Authorization", "Bearer "+c.Key)
	}
	began := time.Now()
	a, err := client.Do(r)
	if err != nil {
		return served{err: err}
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(a.Body, 500))
		return served{err: fmt.Errorf("%s: %s", a.Status, bytes.TrimSpace(text))}
	}
	s.follow(a.Body, began)
	return s
}

// follow records the times of a stream's events.
func (s *served) follow(body io.Reader, began time.Time) {
	lines, last, done := bufio.NewScanner(body), began, false
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !ok:
			continue
		case text == "[DONE]":
			done = true
			continue
		case strings.HasPrefix(text, `{"error"`):
			s.err = errors.New(text)
			return
		}
		now := time.Now()
		if s.tokens++; s.tokens == 1 {
			s.first = now.Sub(began)
		} else {
			s.gaps = append(s.gaps, now.Sub(last))
		}
		last = now
	}
	s.whole = time.Since(began)
	if s.err = lines.Err(); s.err == nil && !done {
		s.err = errors.New("a stream ended before its end")
	}
}

func (c Serve) sum(all []served, took time.Duration) (ServeResult, error) {
	r := ServeResult{Requests: len(all), Seconds: took.Seconds()}
	var first, gaps, whole []time.Duration
	good := 0
	for _, s := range all {
		if s.err != nil {
			if r.Failed++; r.FirstError == "" {
				r.FirstError = s.err.Error()
			}
			continue
		}
		r.Tokens += s.tokens
		first, gaps, whole = append(first, s.first), append(gaps, s.gaps...), append(whole, s.whole)
		if c.Goal == 0 || s.first <= c.Goal {
			good++
		}
	}
	if len(first) == 0 {
		return r, fmt.Errorf("no request was answered: %s", r.FirstError)
	}
	r.TokensPerSecond = float64(r.Tokens) / r.Seconds
	r.AllPerSecond, r.GoodPerSecond = float64(len(first))/r.Seconds, float64(good)/r.Seconds
	r.FirstP50, r.FirstP99 = percentile(first, 50), percentile(first, 99)
	r.GapP50, r.GapP99 = percentile(gaps, 50), percentile(gaps, 99)
	r.WholeP50, r.WholeP99 = percentile(whole, 50), percentile(whole, 99)
	return r, nil
}

// percentile returns a percentile in milliseconds; 0 if there is none.
func percentile(list []time.Duration, p int) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return float64(list[min(len(list)-1, len(list)*p/100)]) / float64(time.Millisecond)
}
