package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/galley-ml/galley/internal/bench"
)

// benchServeCmd measures the latency and throughput of a server.
type benchServeCmd struct {
	output
	URL      string        `arg:"" help:"Server of OpenAI's API, such as http://127.0.0.1:8000."`
	Model    string        `help:"Model that requests name; without it the server's own choice." placeholder:"NAME"`
	Requests int           `help:"Requests to send." default:"64"`
	Clients  int           `help:"Concurrent clients." default:"8"`
	Rate     float64       `help:"Requests a second; 0 is as fast as clients can."`
	Words    int           `help:"Words of a prompt." default:"100"`
	Shared   int           `help:"Words that all prompts begin with."`
	Tokens   int           `help:"Tokens to generate for each." default:"32"`
	Goal     time.Duration `help:"How long a first token may take for a request to count as good; 0 counts all."`
	Seed     uint64        `help:"Seed of the words." default:"1"`
}

// Help returns the text that galley bench serve --help adds.
func (benchServeCmd) Help() string {
	return `Prints tokens a second, and the median and 99th percentile of the time to the first token, between
tokens and of whole answers, as clients see them. $OPENAI_API_KEY, where it is set, is sent as the key.

Examples:
  galley bench serve http://127.0.0.1:8000 --clients 64 --requests 500
  galley bench serve http://127.0.0.1:8000 --words 500 --shared 450 --json
  galley bench serve http://127.0.0.1:8000 --rate 5 --goal 500ms`
}

func (c *benchServeCmd) Run() error {
	err := positive(map[string]int{"requests": c.Requests, "clients": c.Clients, "words": c.Words,
		"tokens": c.Tokens})
	if err == nil {
		err = natural(map[string]int{"shared": c.Shared})
	}
	if err == nil {
		err = between(0, 1e6, map[string]float64{"rate": c.Rate})
	}
	switch {
	case err != nil:
		return err
	case c.Shared > c.Words:
		return fmt.Errorf("--shared=%d: want no more than --words=%d", c.Shared, c.Words)
	case !strings.HasPrefix(c.URL, "http://") && !strings.HasPrefix(c.URL, "https://"):
		return fmt.Errorf("%s: want a URL that begins with http:// or https://", c.URL)
	case c.Goal < 0:
		return errors.New("--goal: want 0 or more")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	r, err := bench.Serve{URL: strings.TrimSuffix(c.URL, "/"), Key: os.Getenv("OPENAI_API_KEY"), Model: c.Model,
		Requests: c.Requests, Clients: c.Clients, Rate: c.Rate, Words: c.Words, Shared: c.Shared, Tokens: c.Tokens,
		Goal: c.Goal, Seed: c.Seed}.Run(ctx)
	if err != nil {
		return err
	}
	return c.print(r)
}
