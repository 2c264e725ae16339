package data

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// TokenizeConfig configures Tokenize.
type TokenizeConfig struct {
	// Tokenizer makes tokens of texts; Name identifies it: all shards of a directory must have the same one.
	Tokenizer Tokenizer
	Name      string
	// End is the token after every document; -1 is none.
	End int32
	// ShardTokens is the number of tokens after which a new shard begins; 0 means 2^26.
	ShardTokens int64
	// Workers is the number of documents tokenized at once; 0 means all cores.
	Workers int
	// Documents configures how files are read.
	Documents DocumentsConfig
	// Progress, if set, is called after every shard and now and then.
	Progress func(TokenizeStats)
}

// TokenizeStats is the progress of Tokenize.
type TokenizeStats struct {
	Documents int   `json:"documents"`
	Bytes     int64 `json:"bytes"` // of text
	Tokens    int64 `json:"tokens"`
	Skipped   int   `json:"skipped"` // lines that could not be read
	Shards    int   `json:"shards"`
}

// manifest is the content of shards.json: the shards of a directory. It is written after each shard, so that
// a run that was killed resumes after the last one.
type manifest struct {
	Tokenizer string        `json:"tokenizer"`
	End       int32         `json:"end"`
	Inputs    string        `json:"inputs"` // a hash of the names and sizes of the files
	Stats     TokenizeStats `json:"stats"`
	Done      bool          `json:"done"`
}

const manifestName = "shards.json"

// Tokenize writes the documents of files to shards in a directory, in the order of the files, whatever the
// number of workers. It resumes an earlier run with the same files and tokenizer; with others it returns an
// error.
func Tokenize(ctx context.Context, dir string, paths []string, c TokenizeConfig) (TokenizeStats, error) {
	if c.ShardTokens == 0 {
		c.ShardTokens = 1 << 26
	}
	if c.Workers == 0 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	m, err := openManifest(dir, paths, c)
	if err != nil || m.Done {
		return m.Stats, err
	}
	t := &tokenizing{config: c, dir: dir, manifest: m, now: m.Stats}
	err = t.run(ctx, paths)
	return t.manifest.Stats, err
}

func openManifest(dir string, paths []string, c TokenizeConfig) (manifest, error) {
	inputs, err := hashInputs(paths)
	if err != nil {
		return manifest{}, err
	}
	fresh := manifest{Tokenizer: c.Name, End: c.End, Inputs: inputs}
	text, err := os.ReadFile(filepath.Join(dir, manifestName))
	if errors.Is(err, os.ErrNotExist) {
		return fresh, os.MkdirAll(dir, 0o777)
	}
	if err != nil {
		return manifest{}, fmt.Errorf("data: %w", err)
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("data: %s: %w", filepath.Join(dir, manifestName), err)
	}
	if m.Tokenizer != fresh.Tokenizer || m.End != fresh.End || m.Inputs != fresh.Inputs {
		return m, fmt.Errorf("data: %s holds shards of other files or another tokenizer (%s, end %d): want a "+
			"new directory",
			dir, m.Tokenizer, m.End)
	}
	return m, nil
}

// hashInputs returns a hash of the files' names and sizes.
func hashInputs(paths []string) (string, error) {
	files, err := filesOf(paths)
	if err != nil {
		return "", err
	}
	h := fnv.New64a()
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return "", fmt.Errorf("data: %w", err)
		}
		fmt.Fprintf(h, "%s %d\n", f, info.Size())
	}
	return fmt.Sprintf("%d files, hash %016x", len(files), h.Sum64()), nil
}

// tokenizing is one run of Tokenize.
type tokenizing struct {
	config   TokenizeConfig
	dir      string
	manifest manifest // of the complete shards
	now      TokenizeStats
	shard    *ShardWriter

	skipped int // counted by the reader; the writer reads it after the reader has ended
}

// encoded is a tokenized document, passed from a worker to the writer.
type encoded struct {
	ids     []int32
	bytes   int
	skipped int // lines skipped up to this document
	err     error
}

// run reads documents, encodes them in workers, and writes the results in the order of the documents: a queue
// of channels, a few for each worker, keeps the order.
func (t *tokenizing) run(ctx context.Context, paths []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	queue := make(chan chan encoded, 4*t.config.Workers)
	work := make(chan func(), 4*t.config.Workers)
	var workers sync.WaitGroup
	for range t.config.Workers {
		workers.Go(func() {
			for f := range work {
				f()
			}
		})
	}
	written := t.manifest.Stats.Documents // read here, because the writer changes it
	go func() {
		t.read(ctx, paths, written, queue, work)
		close(work)
		workers.Wait()
		close(queue)
	}()
	err := t.write(ctx, queue)
	cancel()
	for range queue { // drain the queue so that the reader can end
	}
	if err != nil && t.shard != nil {
		t.shard.Discard()
	}
	return err
}

// read queues the documents after those that were written before.
func (t *tokenizing) read(ctx context.Context, paths []string, written int, queue chan<- chan encoded,
	work chan<- func()) {
	config, c := t.config.Documents, t.config
	if skip := config.Skip; skip != nil {
		config.Skip = func(err error) { t.skipped++; skip(err) }
	}
	done := 0
	for d, err := range Documents(paths, config) {
		if done++; err == nil && done <= written {
			continue
		}
		promise := make(chan encoded, 1)
		skipped := t.skipped
		select {
		case queue <- promise:
		case <-ctx.Done():
			return
		}
		if err != nil {
			promise <- encoded{err: err}
			return
		}
		work <- func() {
			ids := c.Tokenizer.Encode(d.Text)
			if c.End >= 0 {
				ids = append(ids, c.End)
			}
			promise <- encoded{ids: ids, bytes: len(d.Text), skipped: skipped}
		}
	}
}

func (t *tokenizing) write(ctx context.Context, queue <-chan chan encoded) error {
	for promise := range queue {
		select {
		case e := <-promise:
			if e.err != nil {
				return e.err
			}
			if err := t.add(e); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t.now.Skipped = t.skipped
	t.manifest.Done = true
	return t.finishShard()
}

func (t *tokenizing) add(e encoded) (err error) {
	if t.shard == nil {
		name := fmt.Sprintf("shard-%05d", t.now.Shards)
		if t.shard, err = NewShardWriter(filepath.Join(t.dir, name), t.config.Tokenizer.VocabSize()); err != nil {
			return err
		}
	}
	if err := t.shard.Add(e.ids); err != nil {
		return err
	}
	t.now.Documents++
	t.now.Bytes += int64(e.bytes)
	t.now.Tokens += int64(len(e.ids))
	t.now.Skipped = e.skipped
	if t.now.Documents%1024 == 0 && t.config.Progress != nil {
		t.config.Progress(t.now)
	}
	if t.shard.Tokens() < t.config.ShardTokens {
		return nil
	}
	return t.finishShard()
}

// finishShard closes the shard, if there is one, and then records it in the manifest.
func (t *tokenizing) finishShard() error {
	if t.shard != nil {
		err := t.shard.Close()
		t.shard = nil
		if err != nil {
			return err
		}
		t.now.Shards++
	}
	t.manifest.Stats = t.now
	text, err := json.MarshalIndent(t.manifest, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(t.dir, manifestName)
	if err := errors.Join(os.WriteFile(path+".part", append(text, '\n'), 0o666),
		os.Rename(path+".part", path)); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	if t.config.Progress != nil {
		t.config.Progress(t.now)
	}
	return nil
}

// OpenShards opens all shards of a directory, or the one with a prefix.
func OpenShards(path string) (shards []*Shard, err error) {
	defer func() {
		if err != nil {
			for _, s := range shards {
				s.Close()
			}
		}
	}()
	prefixes := []string{strings.TrimSuffix(strings.TrimSuffix(path, ".idx"), ".bin")}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if prefixes, err = filepath.Glob(filepath.Join(path, "*.idx")); err != nil || len(prefixes) == 0 {
			return nil, fmt.Errorf("data: %s: it has no shards (*.idx, *.bin)", path)
		}
		slices.Sort(prefixes)
	}
	for _, p := range prefixes {
		s, err := OpenShard(strings.TrimSuffix(p, ".idx"))
		if err != nil {
			return shards, err
		}
		shards = append(shards, s)
	}
	return shards, nil
}
