package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/strict"
	"github.com/galley-ml/galley/serve"
)

// serveCmd serves models over OpenAI's API.
type serveCmd struct {
	Dirs []string `arg:"" name:"dir" help:"Hugging Face directories of models, GGUF files, or directories of runs' checkpoints." type:"path"`
	checkpointChoice
	Name         []string          `help:"What requests call the models, in their order; without it the directories' names." placeholder:"NAME"`
	Host         string            `help:"Address to listen on; 0.0.0.0 is all." default:"127.0.0.1"`
	Port         int               `help:"Port to listen on; 0 takes a free one." default:"8000"`
	Tokenizer    string            `help:"tokenizer.json; without it that of the directory, or bytes." type:"existingfile" placeholder:"FILE"`
	ChatTemplate string            `help:"Jinja file; without it the model's own chat template." type:"existingfile" placeholder:"FILE"`
	Weights      string            `help:"Keep weights as f32, bf16, int8 or int4; without it as the model has them." enum:",f32,bf16,int8,int4" default:"" placeholder:"FORMAT"`
	Context      int               `help:"Longest sequence, prompt included; 0 is the model's max_position_embeddings, or what the pages hold."`
	CacheMb      int               `help:"Memory for keys and values in MiB; 0 is 1024, or less where less is of use."`
	Running      int               `help:"Sequences that are computed at once." default:"64"`
	Waiting      int               `help:"Requests that may wait; beyond them the answer is 503." default:"1024"`
	Budget       int               `help:"Maximum tokens in a step." default:"256"`
	Speculate    int               `help:"Tokens to guess from a text's own repetitions and compute with the next one; 0 is none."`
	MaxTokens    int               `help:"Tokens that a request may ask for; 0 is what the context allows."`
	MaxBodyMb    int               `help:"Maximum MiB of a request." default:"4"`
	Rate         float64           `help:"Requests a second of each key; 0 is no limit."`
	Keys         string            `help:"File with a key on each line, which requests must name; $GALLEY_API_KEYS has them with commas." type:"existingfile" placeholder:"FILE"`
	Origin       []string          `help:"Origin of web pages that may send requests from a browser (CORS); * is all." placeholder:"URL"`
	TlsCert      string            `help:"Certificate for https." type:"existingfile" placeholder:"FILE"`
	TlsKey       string            `help:"Its key." type:"existingfile" placeholder:"FILE"`
	Drain        time.Duration     `help:"How long requests that were taken may go on after SIGTERM." default:"30s"`
	Lora         map[string]string `help:"PEFT adapter that requests select by this name in place of the model's; may be given several times." placeholder:"NAME=DIR"`
	Adapters     string            `help:"Directory below which PEFT adapters may be loaded and unloaded while the server runs." type:"existingdir" placeholder:"DIR"`
	Draft        string            `help:"Smaller model of the same vocabulary that guesses --speculate tokens, or 4, for the model to check." type:"path" placeholder:"DIR"`
	KvCache      string            `help:"Keep keys and values as f32, bf16 or int8 with a scale for each head." enum:"f32,bf16,int8" default:"f32"`
	Threads      int               `help:"Threads; 0 means all cores."`
	TP           int               `name:"tp" help:"Devices of this process over which heads, their pages and matrices are split; they share the threads." default:"1"`
	engineFlags
	backend galley.Backend // nil is the host's CPU
}

// Help returns the text that galley serve --help adds.
func (serveCmd) Help() string {
	return `Examples:
  galley serve out                                        http://127.0.0.1:8000, a chat page and OpenAI's API
  galley serve llama-3-8b --weights bf16 --context 4096
  galley serve llama-3-8b.gguf                            llama.cpp's file, its integers as they are
  galley serve llama-3-8b --lora sql=sql-adapter --lora poems=poems-adapter
  galley serve llama-3-8b --kv-cache bf16                 twice as many tokens in the same memory
  galley serve llama-3-8b --draft llama-3-1b --speculate 4
  galley serve llama-3-8b --backend xla --weights bf16    on an accelerator
  galley serve llama-3-8b --tp 2                          heads and matrices split over two devices
  galley serve chat draft --name chat --name draft --host 0.0.0.0 --keys keys.txt
SIGTERM and SIGINT end it when the requests that were taken are answered, a second one at once. SIGHUP reads
the models again and swaps them without losing a request.`
}

func (c *serveCmd) Run() error {
	if err := c.validate(); err != nil {
		return err
	}
	keys, err := c.keys()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(c.Host, fmt.Sprint(c.Port)))
	if err != nil {
		return fmt.Errorf("--host=%s --port=%d: %w: want a free one", c.Host, c.Port, errors.Unwrap(err))
	}
	defer listener.Close()
	if c.backend, err = c.open(); err != nil {
		return err
	}
	return closed(c.backend, c.answer(listener, keys))
}

// answer loads the models and serves requests until the server ends.
func (c *serveCmd) answer(listener net.Listener, keys []string) error {
	models, err := c.models()
	if err != nil {
		return err
	}
	s, err := serve.New(
		serve.Config{Models: models, Keys: keys, Body: int64(c.MaxBodyMb) << 20, Tokens: c.MaxTokens,
			Rate: c.Rate, Origins: c.Origin, Adapters: c.Adapters},
	)
	if err != nil {
		return err
	}
	defer s.Close()
	return c.serve(s, listener, models)
}

// serve serves requests until a signal arrives.
func (c *serveCmd) serve(s *serve.Server, l net.Listener, models []*serve.Model) error {
	web := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	scheme := "http"
	if c.TlsCert != "" {
		pair, err := tls.LoadX509KeyPair(c.TlsCert, c.TlsKey)
		if err != nil {
			return fmt.Errorf("--tls-cert, --tls-key: %w", err)
		}
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}})
		scheme = "https"
	}
	came := make(chan os.Signal, 4)
	signal.Notify(came, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(came)
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(l) }()
	for _, m := range models {
		weights, pages := m.Engine.Bytes()
		fmt.Printf("%s: weights %s, context %d, %s for keys and values\n", m.Name, gigabytes(float64(weights)),
			m.Engine.Limit(), gigabytes(float64(pages)))
	}
	fmt.Printf("listening on %s://%s\n", scheme, l.Addr())
	for {
		select {
		case err := <-failed:
			return err
		case sig := <-came:
			if sig == syscall.SIGHUP {
				c.reload(s)
				continue
			}
			return c.drain(s, web, came, sig)
		}
	}
}

// drain finishes the accepted requests and ends the server.
func (c *serveCmd) drain(s *serve.Server, web *http.Server, came <-chan os.Signal, sig os.Signal) error {
	fmt.Fprintf(
		os.Stderr,
		"galley: %s: answering what was taken, at most %v\n",
		signalName(sig.(syscall.Signal)),
		c.Drain,
	)
	ctx, cancel := context.WithTimeout(context.Background(), c.Drain)
	defer cancel()
	go func() {
		if x, ok := <-came; ok {
			fmt.Fprintf(os.Stderr, "galley: %s again: ended at once\n", signalName(x.(syscall.Signal)))
			os.Exit(128 + int(x.(syscall.Signal)))
		}
	}()
	if err := s.Drain(ctx); err != nil {
		return fmt.Errorf("--drain=%v: requests were still being answered: %w", c.Drain, err)
	}
	return web.Shutdown(ctx)
}

// reload loads all models again; one that cannot be loaded stays as it is.
func (c *serveCmd) reload(s *serve.Server) {
	models, err := c.models()
	for _, m := range models {
		if err == nil {
			err = s.Replace(m)
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "galley: SIGHUP: %v: the models stay as they are\n", err)
		return
	}
	fmt.Fprintln(os.Stderr, "galley: SIGHUP: the models were read again")
}

func (c *serveCmd) validate() error {
	err := natural(
		map[string]int{"port": c.Port, "context": c.Context, "cache-mb": c.CacheMb, "waiting": c.Waiting,
			"max-tokens": c.MaxTokens, "threads": c.Threads, "speculate": c.Speculate},
	)
	if err == nil {
		err = positive(
			map[string]int{"tp": c.TP, "running": c.Running, "budget": c.Budget, "max-body-mb": c.MaxBodyMb},
		)
	}
	if err == nil {
		err = between(0, 1e9, map[string]float64{"rate": c.Rate})
	}
	switch {
	case err != nil:
		return err
	case c.Port > 65535:
		return fmt.Errorf("--port=%d: want 0 to 65535", c.Port)
	case len(c.Name) > 0 && len(c.Name) != len(c.Dirs):
		return fmt.Errorf("--name: got %d names for %d models", len(c.Name), len(c.Dirs))
	case c.Draft != "" && len(c.Dirs) > 1:
		return errors.New("--draft: it guesses for one model: want one directory")
	case c.Backend != "cpu" && (len(c.Lora) > 0 || c.Adapters != ""):
		return fmt.Errorf("--backend=%s: --lora, --adapters: models there have no adapters yet: serve the "+
			"adapter's own "+
			"directory, which is the model with it merged", c.Backend)
	case (c.TlsCert == "") != (c.TlsKey == ""):
		return errors.New("--tls-cert, --tls-key: want both or none")
	}
	return nil
}

// keys reads the API keys from a file that other users cannot read, or from the environment.
func (c *serveCmd) keys() ([]string, error) {
	text := strings.ReplaceAll(os.Getenv("GALLEY_API_KEYS"), ",", "\n")
	if c.Keys != "" {
		info, err := os.Stat(c.Keys)
		if err != nil {
			return nil, err
		}
		if info.Mode().Perm()&0o077 != 0 {
			return nil, fmt.Errorf("--keys=%s: others can read it: chmod 600 %s", c.Keys, c.Keys)
		}
		raw, err := strict.ReadFile(c.Keys, strict.Config)
		if err != nil {
			return nil, err
		}
		text = string(raw)
	}
	var keys []string
	for _, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			keys = append(keys, line)
		}
	}
	if c.Keys != "" && len(keys) == 0 {
		return nil, fmt.Errorf("--keys=%s: it has no keys: want one on each line", c.Keys)
	}
	return keys, nil
}

// nameOf returns the name of a model in requests.
func (c *serveCmd) nameOf(i int) string {
	if len(c.Name) > 0 {
		return c.Name[i]
	}
	path, err := filepath.Abs(c.Dirs[i])
	if err != nil {
		path = c.Dirs[i]
	}
	return strings.TrimSuffix(filepath.Base(path), ".gguf")
}
