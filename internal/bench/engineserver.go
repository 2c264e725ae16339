package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/galley-ml/galley/serve"
	"github.com/galley-ml/galley/serve/engine"
)

// server times sequences from Go and over HTTP in turns; the fastest of three rounds counts.
func (b *engineBench) server(out *EngineResult) error {
	s, err := serve.New(serve.Config{Models: []*serve.Model{{Name: "bench", Engine: b.e, Text: numbers{},
		Defaults: engine.Sampling{}}}})
	if err != nil {
		return err
	}
	web := httptest.NewServer(s)
	defer web.Close()
	var cpu [2]float64
	for range 3 {
		for i, ask := range []func(ids []int32) error{
			func(ids []int32) error {
				return b.generate(engine.Request{Prompt: ids, Tokens: 4 * b.Runs}, nil)
			},
			func(ids []int32) error { return stream(web.URL, ids, 4*b.Runs) },
		} {
			speed, work, err := b.together(ask)
			if err != nil {
				return err
			}
			to := []*float64{&out.Engine, &out.Server}[i]
			*to = max(*to, speed)
			if cpu[i] == 0 || work < cpu[i] {
				cpu[i] = work
			}
		}
	}
	out.ServerCPU = cpu[0] / cpu[1]
	return nil
}

// together runs the requests of all sequences at once, and returns tokens per second and the processor time.
func (b *engineBench) together(ask func(ids []int32) error) (speed, cpu float64, err error) {
	errs := make([]error, b.Sequences)
	prompts := make([][]int32, b.Sequences)
	for i := range prompts {
		prompts[i] = b.prompt(b.Prompt)
	}
	began, before := time.Now(), CPUSeconds()
	var wg sync.WaitGroup
	for i := range prompts {
		wg.Go(func() { errs[i] = ask(prompts[i]) })
	}
	wg.Wait()
	for _, e := range errs {
		if e != nil {
			err = e
		}
	}
	tokens := float64(4 * b.Runs * b.Sequences)
	return tokens / time.Since(began).Seconds(), CPUSeconds() - before, err
}

// stream requests a stream of tokens from a server and reads all of it.
func stream(url string, ids []int32, tokens int) error {
	body, err := json.Marshal(map[string]any{"prompt": ids, "max_tokens": tokens, "temperature": 0,
		"stream": true})
	if err != nil {
		return err
	}
	a, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err == nil && (a.StatusCode != http.StatusOK || !strings.Contains(string(text), "[DONE]")) {
		err = fmt.Errorf("bench: the server answers %d %.200s", a.StatusCode, text)
	}
	return err
}
