package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/data/parquet"
	"github.com/galley-ml/galley/internal/strict"
)

// dataFlags choose the training data, and how it becomes rows of a batch.
type dataFlags struct {
	Data     []string `help:"Text file, or file or directory of documents: .jsonl, .ndjson and .parquet have many, .gz and .zst are unpacked; or the shards of galley data tokenize. Without it the first chapters of Moby-Dick. May be repeated: one follows the other." sep:"none" type:"path" placeholder:"PATH"`
	Mix      []string `help:"Data and its share of all samples, in place of --data: 0.7:web --mix 0.3:code. May be repeated." sep:"none" placeholder:"WEIGHT:PATH"`
	Field    string   `help:"Field of a JSON line, or column of a Parquet file, that holds its text." default:"text"`
	End      string   `help:"Token to append to every document that is tokenized here." placeholder:"TOKEN"`
	Skip     bool     `help:"Leave out and count lines that cannot be read; without it they are an error."`
	Stream   bool     `help:"Tokenize texts while training needs them, in place of all of them first. Shards are mapped as always."`
	Rows     string   `help:"What a row of a batch is: windows of all tokens, documents packed with a mask that keeps them apart, or one document, padded." enum:"windows,packed,padded" default:"windows"`
	Lengths  []int    `help:"With --rows padded: lengths that rows are padded to, the shortest that fits; a program is compiled for each." placeholder:"N,N…"`
	Programs int      `help:"Most programs to compile for --lengths." default:"8"`
	Held     float64  `help:"Share of the documents to hold out for evaluation." default:"0.05"`

	StreamBlock int64 `help:"With --stream: about how many bytes of text are tokenized and shuffled together." default:"4194304" hidden:""`
}

// batches makes the batches of a run, each by the number of its first sample.
type batches interface {
	From(sample int64) []array.Array
	Facts() []data.Fact
}

// windowBatches makes the batches of a sampler.
type windowBatches struct{ *data.Sampler }

func (w windowBatches) From(sample int64) []array.Array { return []array.Array{w.Sampler.From(sample)} }

// validateData checks the flags as far as possible without looking at files.
func (f dataFlags) validateData(seq int) error {
	switch {
	case len(f.Data) > 0 && len(f.Mix) > 0:
		return errors.New("--data and --mix: want one of them")
	case f.Stream && len(f.Data)+len(f.Mix) == 0:
		return errors.New("--stream: want --data or --mix, of texts")
	case f.Stream && len(f.Lengths) > 0:
		return errors.New(
			"--stream and --lengths: buckets are of documents that are tokenized first: want one of them",
		)
	case f.StreamBlock < 0:
		return fmt.Errorf("--stream-block=%d: want more than 0", f.StreamBlock)
	case len(f.Lengths) > 0 && f.Rows != "padded":
		return fmt.Errorf("--lengths: rows are %s: want --rows padded", f.Rows)
	case len(f.Lengths) > 0 && len(f.Mix) > 0:
		return errors.New("--lengths and --mix: buckets are of one source: want one of them")
	case len(f.Lengths) > 0 && slices.Max(f.Lengths) != seq:
		return fmt.Errorf("--lengths=%v: want the longest to be --seq=%d", f.Lengths, seq)
	}
	if !(f.Held >= 0 && f.Held < 1) {
		return fmt.Errorf("--held=%v: want 0 to less than 1", f.Held)
	}
	_, err := f.sources()
	return err
}

// dataSource is one source of a mixture, with its weight.
type dataSource struct {
	name   string
	weight float64
	paths  []string
}

// sources returns the data sources that the flags name.
func (f dataFlags) sources() ([]dataSource, error) {
	if len(f.Mix) == 0 {
		return []dataSource{{strings.Join(f.Data, " and "), 1, f.Data}}, nil
	}
	var list []dataSource
	for _, m := range f.Mix {
		number, path, ok := strings.Cut(m, ":")
		w, err := strconv.ParseFloat(number, 64)
		if !ok || err != nil || path == "" {
			return nil, fmt.Errorf("--mix=%s: want a weight and a path: 0.7:web", strict.Name(m))
		}
		list = append(list, dataSource{path, w, []string{path}})
	}
	return list, nil
}

// plain reports whether the data is plain text files, read one after the other in windows, without
// documents.
func (f dataFlags) plain() bool {
	if len(f.Mix) > 0 || f.Rows != "windows" || f.End != "" || f.Stream {
		return false
	}
	for _, path := range f.Data {
		info, err := os.Stat(path)
		if err != nil || info.IsDir() ||
			slices.Contains([]string{".jsonl", ".ndjson", ".parquet", ".gz", ".zst", ".idx",
				".bin"}, filepath.Ext(path)) {
			return false
		}
	}
	return true
}

// formats are the file formats besides plain text and JSON lines.
var formats = map[string]data.Format{".parquet": parquet.Read}

// readCorpus makes batches of documents, for training and for evaluation.
func (t *training) readCorpus(vocab int) (name string, tokens int, err error) {
	sources, err := t.sources()
	if err != nil {
		return "", 0, err
	}
	var train, held []data.MixtureSource
	for i, s := range sources {
		if i > 0 {
			name += ", "
		}
		name += strict.Name(s.name)
		if t.Stream && !slices.ContainsFunc(s.paths, data.IsShards) {
			if err := t.streamed(s, vocab, &train, &held); err != nil {
				return "", 0, err
			}
			continue
		}
		c, err := t.open(s, vocab)
		if err != nil {
			return "", 0, err
		}
		tokens += c.Len()
		kept, valid, err := c.Split(t.Held, heldSeed)
		if err != nil {
			return "", 0, err
		}
		if len(t.Lengths) > 0 {
			return name, tokens, t.buckets(kept, valid)
		}
		rows, err := t.rows(kept)
		if err != nil {
			return "", 0, fmt.Errorf("%s: %w", strict.Name(s.name), err)
		}
		train = append(
			train,
			data.MixtureSource{Name: s.name, Rows: rows, Weight: s.weight, Fact: data.HashTokens(kept)},
		)
		if rows, err := t.rows(valid); err == nil && rows.Len() > 0 { // too little held-out data is no error
			held = append(held, data.MixtureSource{Name: s.name, Rows: rows, Weight: s.weight})
		}
	}
	return name, tokens, t.mix(train, held)
}

// heldSeed chooses the held-out documents: the same ones for all seeds, so that runs can be compared.
const heldSeed = 0x6865_6c64

// mix makes the run's batches from mixtures, for training and for evaluation.
func (t *training) mix(train, held []data.MixtureSource) error {
	c := data.MixtureConfig{Batch: t.Batch, Seq: t.Seq, Seed: t.Seed, Packed: t.Rows == "packed"}
	m, err := data.NewMixture(train, c)
	if err != nil {
		return err
	}
	t.text = m
	if len(held) > 0 {
		h, err := data.NewMixture(held, c)
		if err != nil {
			return err
		}
		t.eval = h
	}
	return nil
}

// buckets makes the run's batches from examples of many lengths, padded to few lengths.
func (t *training) buckets(train, held *data.Corpus) error {
	c := data.BucketsConfig{Batch: t.Batch, Seed: t.Seed, Lengths: t.Lengths, Programs: t.Programs}
	b, err := data.NewBuckets(data.Pieces(train, t.Seq), c)
	if err != nil {
		return err
	}
	t.text = b
	if held.Len() > 0 {
		h, err := data.NewBuckets(data.Pieces(held, t.Seq), c)
		if err != nil {
			return err
		}
		t.eval = h
	}
	return nil
}

// rows returns the documents as rows, as --rows chooses.
func (t *training) rows(c *data.Corpus) (data.RowSource, error) {
	switch t.Rows {
	case "packed":
		return data.Pack(data.Pieces(c, t.Seq), t.Seq)
	case "padded":
		return data.Pad(data.Pieces(c, t.Seq), t.Seq)
	}
	return data.Windows(c, t.Seq)
}

// open returns the documents of a source: shards, or texts that are tokenized now.
func (t *training) open(s dataSource, vocab int) (*data.Corpus, error) {
	var list []*data.Corpus
	for _, path := range s.paths {
		c, err := t.openPath(path)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	if len(list) == 0 { // no --data
		list = append(list, data.NewCorpus(t.tokenizer.Encode(data.MobyDick())))
	}
	c := data.JoinCorpora(list...)
	if id := data.Largest(c); int(id) >= vocab {
		return nil, fmt.Errorf("%s: %w", strict.Name(s.name), inVocabulary([]int32{id}, vocab))
	}
	return c, nil
}

func (t *training) openPath(path string) (*data.Corpus, error) {
	if data.IsShards(path) {
		if t.End != "" {
			return nil, fmt.Errorf("--end=%s: %s is tokenized already", t.End, strict.Name(path))
		}
		c, _, err := data.OpenCorpus(path) // mapped until the process ends
		return c, err
	}
	config := data.EncodeConfig{Tokenizer: t.tokenizer, End: -1,
		Documents: data.DocumentsConfig{Field: t.Field, Formats: formats}}
	skipped := 0
	if t.Skip {
		config.Documents.Skip = func(error) { skipped++ }
	}
	if t.End != "" {
		id, err := t.tokenizer.id(t.End)
		if err != nil {
			return nil, fmt.Errorf("--end=%q: %w", t.End, err)
		}
		config.End = id
	}
	c, err := data.Encode([]string{path}, config)
	if skipped > 0 {
		fmt.Fprintf(
			os.Stderr,
			"galley: note: %s: %d lines could not be read and are left out\n",
			strict.Name(path),
			skipped,
		)
	}
	return c, err
}

// printProgram prints that a batch needs a new program compiled, and why, if its shape is new.
func (t *training) printProgram(batch []array.Array) {
	shape := fmt.Sprint(batch[0].Shape())
	if slices.Contains(t.shapes, shape) {
		return
	}
	t.shapes = append(t.shapes, shape)
	if len(t.Lengths) > 0 {
		fmt.Printf("compiling program %d of at most %d: the first batch of rows of %d tokens\n", len(t.shapes),
			len(t.Lengths), batch[0].Shape()[1])
	}
}
