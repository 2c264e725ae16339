package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// serving starts galley serve on a free port and waits until it listens.
func serving(t *testing.T, args ...string) (*exec.Cmd, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, append([]string{"serve", "--port", "0"}, args...)...)
	c.Env = append(os.Environ(), asCommand+"=1")
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if url, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			go io.Copy(io.Discard, out)
			return c, url
		}
	}
	t.Fatal("it does not listen")
	return nil, ""
}

// TestServe: a model that was trained and saved is served; SIGHUP swaps it, and SIGTERM in the middle of an
// answer lets that end.
func TestServe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tiny")
	if code := run([]string{"train", "--steps", "1", "--dim", "32", "--heads", "4", "--batch", "4", "--seq",
		"16",
		"--tokens", "0", "--save", dir}); code != 0 {
		t.Fatalf("train: exit code %d", code)
	}
	template := filepath.Join(dir, "chat_template.jinja")
	if err := os.WriteFile(template, []byte("{% for m in messages %}{{ m.content }}{% endfor %}"),
		0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "other.gguf")
	if code := run([]string{"quantize", dir, file, "--weights", "int8"}); code != 0 {
		t.Fatalf("quantize: exit code %d", code)
	}
	c, url := serving(t, dir, file, "--context", "2000", "--tp", "2", "--kv-cache", "bf16")
	ask := func(path, body string) *http.Response {
		t.Helper()
		r, err := http.Post(url+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	var chat struct {
		Choices []struct{ Message struct{ Content string } }
	}
	r := ask(
		"/v1/chat/completions",
		`{"model": "tiny", "messages": [{"role": "user", "content": "Call me"}], "max_tokens": 5}`,
	)
	if err := json.NewDecoder(r.Body).Decode(&chat); err != nil || len(chat.Choices) != 1 {
		t.Fatalf("%v %+v", err, chat)
	}
	r.Body.Close()
	if r := ask("/v1/completions", `{"model": "other", "prompt": "a", "max_tokens": 2}`); r.StatusCode != 200 {
		t.Errorf("the GGUF file: got %s", r.Status)
	}
	c.Process.Signal(syscall.SIGHUP)
	r = ask("/v1/completions", `{"prompt": "a", "max_tokens": 1500, "stream": true, "ignore_eos": true}`)
	defer r.Body.Close()
	lines := bufio.NewScanner(r.Body)
	lines.Scan()
	c.Process.Signal(syscall.SIGTERM)
	n, last := 1, ""
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data: {") {
			n++
		}
		if lines.Text() != "" {
			last = lines.Text()
		}
	}
	if n != 1500 || last != "data: [DONE]" {
		t.Errorf("%d tokens after SIGTERM, then %q, %v", n, last, lines.Err())
	}
	if err := c.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// TestServeMistakes: each is one line with the place and the fix.
func TestServeMistakes(t *testing.T) {
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys.txt")
	if err := os.WriteFile(keys, []byte("k\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := &serveCmd{Dirs: []string{dir}, Running: 1, Budget: 1, MaxBodyMb: 1, Keys: keys, Host: "127.0.0.1"}
	c.TP = 1
	if err := c.Run(); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("keys that others can read: got %v", err)
	}
	c.Keys, c.Port = "", 99999
	if err := c.Run(); err == nil || !strings.Contains(err.Error(), "--port=99999") {
		t.Errorf("a port that there is not: got %v", err)
	}
	c.Port, c.Name = 0, []string{"a", "b"}
	if err := c.Run(); err == nil || !strings.Contains(err.Error(), "--name") {
		t.Errorf("too many names: got %v", err)
	}
}
