package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/serve"
	"github.com/galley-ml/galley/serve/engine"
)

func smallConfig(t testing.TB) models.Config {
	t.Helper()
	config, err := models.ParseConfig([]byte(`{"model_type": "llama", "vocab_size": 256, "hidden_size": 16,
		"intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
		"initializer_range": 0.4}`))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// newModel returns a small model of bytes.
func newModel(t testing.TB, name string, c engine.Config) *serve.Model {
	t.Helper()
	config := smallConfig(t)
	d := cpu.NewDevice(cpu.Config{})
	defer d.Close()
	m, err := models.New(config, nn.Config{Scope: d.NewSession(), Seed: 4})
	if err != nil {
		t.Fatal(err)
	}
	out := &serve.Model{Name: name, Text: data.Bytes{}, Created: time.Unix(1700000000, 0),
		Defaults: engine.Sampling{Temperature: 1}}
	c.Decode, c.Observe = data.Bytes{}.Decode, out.Observe
	if c.Context == 0 {
		c.Context = 512
	}
	if out.Engine, err = engine.New(m, c); err != nil {
		t.Fatal(err)
	}
	out.Chat, err = serve.NewChatTemplate(
		"{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>", nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func start(t testing.TB, c serve.Config, e engine.Config) (*serve.Server, string) {
	t.Helper()
	c.Models = []*serve.Model{newModel(t, "small", e)}
	return listening(t, c)
}

// listening starts a server.
func listening(t testing.TB, c serve.Config) (*serve.Server, string) {
	t.Helper()
	s, err := serve.New(c)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		web.Close()
		s.Close()
	})
	return s, web.URL
}

// post sends JSON and returns the status and the answer.
func post(t testing.TB, url, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, a.Header, string(text)
}

func parse(t testing.TB, text string) (out map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// at returns what is at a path of keys and numbers.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// events returns the data of a stream, without the last.
func events(t testing.TB, text string) []map[string]any {
	t.Helper()
	var out []map[string]any
	parts := strings.Split(strings.TrimSuffix(text, "\n\n"), "\n\n")
	if parts[len(parts)-1] != "data: [DONE]" {
		t.Fatalf("a stream ends with %q", parts[len(parts)-1])
	}
	for _, p := range parts[:len(parts)-1] {
		if !strings.HasPrefix(p, ":") {
			out = append(out, parse(t, strings.TrimPrefix(p, "data: ")))
		}
	}
	return out
}

// TestCompletions: at once and as a stream the text is the same, and counts are right.
func TestCompletions(t *testing.T) {
	_, url := start(t, serve.Config{}, engine.Config{})
	const ask = `{"model": "small", "prompt": ["ab", "cde"], "max_tokens": 12, "seed": 7, "n": 2, "logprobs": 2`
	status, _, text := post(t, url+"/v1/completions", ask+`}`)
	whole := parse(t, text)
	if status != 200 || len(at(whole, "choices").([]any)) != 4 || at(whole, "usage", "prompt_tokens") != 5.0 ||
		at(whole, "usage", "completion_tokens") != 48.0 || at(whole, "usage", "total_tokens") != 53.0 {
		t.Fatalf("%d %s", status, text)
	}
	_, h, text := post(
		t,
		url+"/v1/completions",
		ask+`, "stream": true, "stream_options": {"include_usage": true}}`,
	)
	if h.Get("Content-Type") != "text/event-stream" {
		t.Errorf("a stream has type %s", h.Get("Content-Type"))
	}
	var texts [4]string
	var finish [4]any
	list := events(t, text)
	for _, e := range list[:len(list)-1] {
		i := int(at(e, "choices", 0, "index").(float64))
		texts[i] += at(e, "choices", 0, "text").(string)
		if f := at(e, "choices", 0, "finish_reason"); f != nil {
			finish[i] = f
		}
	}
	for i := range texts {
		if want := at(whole, "choices", i, "text"); texts[i] != want || finish[i] != "length" {
			t.Errorf("choice %d: got %q, %v, want %q", i, texts[i], finish[i], want)
		}
		if n := len(at(whole, "choices", i, "logprobs", "tokens").([]any)); n != 12 {
			t.Errorf("choice %d: log-probabilities of %d tokens", i, n)
		}
	}
	if last := list[len(list)-1]; at(last, "usage", "completion_tokens") != 48.0 {
		t.Errorf("the last event is %v", last)
	}
	_, _, text = post(
		t,
		url+"/v1/completions",
		`{"prompt": [97, 98], "echo": true, "max_tokens": 1, "temperature": 0}`,
	)
	if s := at(parse(t, text), "choices", 0, "text").(string); !strings.HasPrefix(s, "ab") {
		t.Errorf("echo: got %q", s)
	}
}

func TestChat(t *testing.T) {
	_, url := start(t, serve.Config{}, engine.Config{})
	const ask = `{"model": "small", "messages": [{"role": "system", "content": "s"},
		{"role": "user", "content": [{"type": "text", "text": "Hi"}]}], "max_completion_tokens": 9, "temperature": 0,
		"logprobs": true, "top_logprobs": 3`
	status, _, text := post(t, url+"/v1/chat/completions", ask+`}`)
	a := parse(t, text)
	if status != 200 || at(a, "object") != "chat.completion" ||
		at(a, "choices", 0, "message", "role") != "assistant" ||
		at(a, "choices", 0, "finish_reason") != "length" ||
		at(a, "usage", "prompt_tokens") != float64(len("<system>s\n<user>Hi\n<assistant>")) {
		t.Fatalf("%d %s", status, text)
	}
	if p := at(a, "choices", 0, "logprobs", "content").([]any); len(p) != 9 ||
		at(
			p,
			0,
			"logprob",
		) != at(
			p,
			0,
			"top_logprobs",
			0,
			"logprob",
		) || len(at(p, 0, "top_logprobs").([]any)) != 3 {
		t.Errorf("log-probabilities: %v", p)
	}
	_, _, text = post(t, url+"/v1/chat/completions", ask+`, "stream": true}`)
	list := events(t, text)
	got := ""
	for _, e := range list {
		if s, ok := at(e, "choices", 0, "delta", "content").(string); ok {
			got += s
		}
	}
	if want := at(a, "choices", 0, "message", "content"); got != want ||
		at(list[0], "choices", 0, "delta", "role") != "assistant" {
		t.Errorf("stream: got %q, want %q", got, want)
	}
}

// TestErrors: every mistake has OpenAI's form, a status, and names the field.
func TestErrors(t *testing.T) {
	_, url := start(t, serve.Config{Body: 2000, Tokens: 100}, engine.Config{})
	for _, c := range []struct {
		path, body string
		status     int
		param      any
	}{
		{"/v1/completions", `{"prompt": "a", "temprature": 1}`, 400, "temprature"},
		{"/v1/completions", `{"prompt": "a"`, 400, nil},
		{"/v1/completions", `{"prompt": "a"} {}`, 400, nil},
		{"/v1/completions", `{"prompt": ""}`, 400, "prompt"},
		{"/v1/completions", `{"prompt": {}}`, 400, "prompt"},
		{"/v1/completions", `{}`, 400, "prompt"},
		{"/v1/completions", `{"prompt": [999]}`, 400, "prompt"},
		{"/v1/completions", `{"prompt": "a", "max_tokens": 0}`, 400, "max_tokens"},
		{"/v1/completions", `{"prompt": "a", "max_tokens": 101}`, 400, "max_tokens"},
		{"/v1/completions", `{"prompt": "a", "max_tokens": 1000}`, 400, "prompt"},
		{"/v1/completions", `{"prompt": "a", "temperature": -1}`, 400, "temperature"},
		{"/v1/completions", `{"prompt": "a", "stop": ""}`, 400, "stop"},
		{"/v1/completions", `{"prompt": "a", "n": 0}`, 400, "n"},
		{"/v1/completions", `{"prompt": "a", "suffix": "b"}`, 400, "suffix"},
		{"/v1/completions", `{"prompt": "a", "logit_bias": {"x": 1}}`, 400, "logit_bias"},
		{"/v1/completions", `{"prompt": "` + strings.Repeat("a", 3000) + `"}`, 413, nil},
		{"/v1/completions", `{"model": "other", "prompt": "a"}`, 404, "model"},
		{"/v1/chat/completions", `{"messages": []}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages": [{"role": "king", "content": "a"}]}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages": [{"role": "user"}]}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}`, 400,
			"messages"},
		{"/v1/chat/completions", `{"messages": [{"role": "user", "content": "a"}], "top_logprobs": 1}`, 400,
			"top_logprobs"},
		{"/v1/embeddings", `{"input": "a", "encoding_format": "x"}`, 400, "encoding_format"},
		{"/v1/nothing", `{}`, 404, nil},
	} {
		status, _, text := post(t, url+c.path, c.body)
		a := parse(t, text)
		if status != c.status || at(a, "error", "param") != c.param || at(a, "error", "message") == nil ||
			at(a, "error", "type") == nil {
			t.Errorf("%s %.80s: got %d %s", c.path, c.body, status, text)
		}
	}
}

// TestKeys: only those who have a key are let in, as often as they may.
func TestKeys(t *testing.T) {
	_, url := start(t, serve.Config{Keys: []string{"alpha", "beta"}, Rate: 2}, engine.Config{})
	const ask = `{"prompt": "a", "max_tokens": 1}`
	for key, want := range map[string]int{"": 401, "Bearer gamma": 401, "alpha": 401, "Bearer beta": 200} {
		if status, _, text := post(t, url+"/v1/completions", ask, "Authorization", key); status != want {
			t.Errorf("%q: got %d %s, want %d", key, status, text, want)
		}
	}
	status, retry := 0, ""
	for range 5 {
		var h http.Header
		if status, h, _ = post(t, url+"/v1/completions", ask, "Authorization", "Bearer alpha"); status == 429 {
			retry = h.Get("Retry-After")
		}
	}
	if retry != "1" {
		t.Errorf("five requests at once: got %d, Retry-After %q, want 429 and 1", status, retry)
	}
}

// TestOthers: models, embeddings, tokens, health, metrics, the page, and other origins.
func TestOthers(t *testing.T) {
	s, url := start(t, serve.Config{Origins: []string{"https://a.example"}}, engine.Config{})
	get := func(path string) (int, string) {
		a, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		text, _ := io.ReadAll(a.Body)
		return a.StatusCode, string(text)
	}
	if _, text := get("/v1/models"); at(parse(t, text), "data", 0, "id") != "small" {
		t.Errorf("models: %s", text)
	}
	if status, text := get("/v1/models/small"); status != 200 {
		t.Errorf("model: %s", text)
	}
	_, _, text := post(t, url+"/v1/embeddings", `{"input": ["one", "two"]}`)
	a := parse(t, text)
	sum := 0.0
	for _, x := range at(a, "data", 1, "embedding").([]any) {
		sum += x.(float64) * x.(float64)
	}
	if sum < 0.999 || sum > 1.001 {
		t.Errorf("an embedding of length %v", sum)
	}
	_, _, text = post(t, url+"/v1/embeddings", `{"input": "one", "encoding_format": "base64"}`)
	if b, ok := at(parse(t, text), "data", 0, "embedding").(string); !ok || len(b) != 88 {
		t.Errorf("base64: %s", text)
	}
	if _, _, text = post(t, url+"/tokenize", `{"prompt": "ab"}`); !strings.Contains(text, `"tokens":[97,98]`) {
		t.Errorf("tokenize: %s", text)
	}
	if _, _, text = post(t, url+"/detokenize", `{"tokens": [97,98]}`); !strings.Contains(text, `"prompt":"ab"`) {
		t.Errorf("detokenize: %s", text)
	}
	post(t, url+"/v1/completions", `{"prompt": "a", "max_tokens": 3}`)
	_, text = get("/metrics")
	checkMetrics(t, text)
	if !strings.Contains(text, `galley_generation_tokens_total{model_name="small"} 3`) {
		t.Errorf("metrics: %s", text)
	}
	if _, text = get("/"); !strings.Contains(text, "<title>Galley</title>") {
		t.Errorf("page: %.100s", text)
	}
	checkOrigins(t, url)
	if err := s.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
	if status, _ := get("/ready"); status != 503 {
		t.Errorf("ready after draining: %d", status)
	}
	if status, h, text := post(t, url+"/v1/completions", `{"prompt": "a"}`); status != 503 ||
		h.Get("Retry-After") == "" {
		t.Errorf("after draining: %d %s", status, text)
	}
	if status, _ := get("/health"); status != 200 {
		t.Errorf("health after draining: %d", status)
	}
}

func checkOrigins(t *testing.T, url string) {
	t.Helper()
	for origin, want := range map[string]string{"https://a.example": "https://a.example", "https://b.example": ""} {
		r, _ := http.NewRequest("OPTIONS", url+"/v1/completions", nil)
		r.Header.Set("Origin", origin)
		r.Header.Set("Access-Control-Request-Method", "POST")
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if got := a.Header.Get("Access-Control-Allow-Origin"); got != want {
			t.Errorf("%s: got %q, want %q", origin, got, want)
		}
	}
}

// TestReplace: a model is swapped while requests run; they end as they began.
func TestReplace(t *testing.T) {
	s, url := start(t, serve.Config{}, engine.Config{})
	r, err := http.Post(url+"/v1/completions", "application/json",
		strings.NewReader(`{"prompt": "a", "max_tokens": 400, "stream": true, "ignore_eos": true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if err := s.Replace(newModel(t, "small", engine.Config{})); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r.Body)
	if err != nil || len(events(t, string(text))) != 400 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if status, _, text := post(t, url+"/v1/completions", `{"prompt": "a"}`); status != 200 {
		t.Errorf("after it: %d %s", status, text)
	}
	if s.Replace(newModel(t, "other", engine.Config{})) == nil {
		t.Error("a model that is not served: got no error")
	}
}

// FuzzBodies: whatever is sent, the server answers with JSON and a status.
func FuzzBodies(f *testing.F) {
	for _, s := range []string{`{"prompt": "a"}`, `{"messages": [{"role": "user", "content": "a"}]}`,
		`{"input": [1]}`,
		`{"prompt": [[1], [2]], "n": 2, "stop": ["a"], "logit_bias": {"1": 5}}`, `{"tokens": [1, -1]}`, `[]`,
		`null`} {
		f.Add([]byte(s), uint8(0))
		f.Add([]byte(s), uint8(1))
	}
	c := serve.Config{
		Models: []*serve.Model{newModel(f, "small", engine.Config{Context: 40, Threads: 1})},
		Tokens: 4,
	}
	s, err := serve.New(c)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Close)
	paths := []string{"/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/tokenize", "/detokenize"}
	f.Fuzz(func(t *testing.T, body []byte, path uint8) {
		r := httptest.NewRequest("POST", paths[int(path)%len(paths)], bytes.NewReader(body))
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		kind := w.Header().Get("Content-Type")
		if w.Code == 500 || !slices.Contains([]string{"application/json", "text/event-stream"}, kind) {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	})
}
