package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/internal/bench"
	"github.com/galley-ml/galley/internal/units"
	"github.com/galley-ml/galley/tokenizer"
)

// dataCmd groups the commands that prepare data.
type dataCmd struct {
	Tokenize dataTokenizeCmd `cmd:"" help:"Write texts as shards of tokens that training reads from disk."`
	Stats    dataStatsCmd    `cmd:"" help:"Count the documents and tokens of shards."`
}

type dataTokenizeCmd struct {
	Inputs    []string `arg:"" help:"Files and directories: .jsonl and .ndjson have a document a line, .parquet one a row, others are one; .gz and .zst are unpacked."`
	Out       string   `help:"Directory for the shards." required:"" placeholder:"DIR"`
	Tokenizer string   `help:"tokenizer.json; without it tokens are bytes." type:"existingfile" placeholder:"FILE"`
	End       string   `help:"Token to append to every document." placeholder:"TOKEN"`
	Field     string   `help:"Field of a JSON line, or column of a Parquet file, that holds its text." default:"text"`
	Skip      bool     `help:"Leave out and count lines that cannot be read; without it they are an error."`
	Workers   int      `help:"Documents tokenized at once; 0 means all cores."`
	Shard     int64    `help:"Tokens from which on a shard is full." default:"67108864"`
}

// Help returns the text that galley data tokenize --help adds.
func (dataTokenizeCmd) Help() string {
	return `Shards are pairs of .bin and .idx files in Megatron's layout. Documents keep their order, whatever
the number of workers. A run that was stopped goes on behind its last whole shard when it is started again.

Examples:
  galley data tokenize corpus/ --tokenizer tokenizer.json --end '<|endoftext|>' --out tokens
  galley data stats tokens`
}

func (c *dataTokenizeCmd) Run() error {
	if err := natural(map[string]int{"workers": c.Workers, "shard": int(c.Shard)}); err != nil {
		return err
	}
	config := data.TokenizeConfig{Tokenizer: data.Bytes{}, Name: "bytes", End: -1, Workers: c.Workers,
		ShardTokens: c.Shard, Documents: data.DocumentsConfig{Field: c.Field, Formats: formats},
		Progress: newTokenizeProgress()}
	if err := c.open(&config); err != nil {
		return err
	}
	if c.Skip {
		config.Documents.Skip = func(err error) { fmt.Fprintln(os.Stderr, "galley: skipped:", err) }
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	busy, start := bench.CPUSeconds(), time.Now()
	stats, err := data.Tokenize(ctx, c.Out, c.Inputs, config)
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("stopped after %d whole shards: run it again to go on", stats.Shards)
	}
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d documents, %d tokens, %d shards, %d lines skipped\n", c.Out, stats.Documents,
		stats.Tokens,
		stats.Shards, stats.Skipped)
	fmt.Printf("%s in %.2f s, %.2f s of processor time\n", units.Bytes(float64(stats.Bytes)),
		time.Since(start).Seconds(), bench.CPUSeconds()-busy)
	return nil
}

// open sets the tokenizer and the token that ends a document.
func (c *dataTokenizeCmd) open(config *data.TokenizeConfig) error {
	if c.Tokenizer == "" {
		if c.End != "" {
			return fmt.Errorf("--end=%q: bytes have no such token: want --tokenizer with it", c.End)
		}
		return nil
	}
	t, err := tokenizer.Load(c.Tokenizer)
	if err != nil {
		return err
	}
	name, err := filepath.Abs(c.Tokenizer)
	if err != nil {
		return err
	}
	config.Tokenizer, config.Name = t, fmt.Sprintf("%s, %d tokens", name, t.VocabSize())
	if c.End != "" {
		id, ok := t.ID(c.End)
		if !ok {
			return fmt.Errorf("--end=%q: %s has no such token", c.End, c.Tokenizer)
		}
		config.End = id
	}
	return nil
}

// newTokenizeProgress returns a function that prints a progress line now and then.
func newTokenizeProgress() func(data.TokenizeStats) {
	start, shown := time.Now(), time.Now()
	return func(s data.TokenizeStats) {
		if time.Since(shown) < quiet {
			return
		}
		shown = time.Now()
		fmt.Fprintf(os.Stderr, "%d documents  %d tokens  %.1f MB/s\n", s.Documents, s.Tokens,
			float64(s.Bytes)/1e6/time.Since(start).Seconds())
	}
}

type dataStatsCmd struct {
	Shards string `arg:"" help:"Directory of shards, or one without its ending." placeholder:"DIR"`
}

func (c *dataStatsCmd) Run() error {
	shards, err := data.OpenShards(c.Shards)
	if err != nil {
		return err
	}
	documents, tokens, longest := 0, 0, 0
	for _, s := range shards {
		defer s.Close()
		documents += s.Documents()
		tokens += s.Len()
		for i := range s.Documents() {
			longest = max(longest, s.DocumentLen(i))
		}
	}
	mean := float64(tokens) / float64(max(documents, 1))
	fmt.Printf(
		"shards     %d\ndocuments  %d\ntokens     %d\nmean       %.1f tokens a document\nlongest    %d tokens\n",
		len(shards),
		documents,
		tokens,
		mean,
		longest,
	)
	return nil
}
