package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// evalCmd measures how well a model predicts a text, or answers questions.
type evalCmd struct {
	Dir string `arg:"" help:"Hugging Face directory of the model, its GGUF file, adapter in PEFT's form, or directory of a run's checkpoints." type:"path"`
	checkpointChoice
	backendFlags
	Data       []string `help:"Texts, as galley train takes them; without it the chapters of Moby-Dick that that holds out. May be repeated." sep:"none" type:"path" placeholder:"PATH"`
	Field      string   `help:"Field of a JSON line, or column of a Parquet file, that holds its text." default:"text"`
	Perplexity bool     `help:"Print the perplexity of a text, which is the default without --task."`
	Task       []string `help:"JSON Lines of questions, in place of a text: several choices, or one answer. May be repeated." sep:"none" type:"path" placeholder:"FILE"`
	Delimiter  string   `help:"Text between a question and its answer." default:" "`
	Begin      string   `help:"Token to put before every question." placeholder:"TOKEN"`
	Skip       bool     `help:"Leave out and count lines that cannot be read; without it they are an error."`
	JSON       bool     `name:"json" help:"Print results as JSON."`
	Tokenizer  string   `help:"tokenizer.json; without it that of the model, or bytes." type:"existingfile" placeholder:"FILE"`
	Batch      int      `help:"Sequences at a time." default:"16"`
	Seq        int      `help:"Tokens in a sequence, at most with --task." default:"128"`
	Batches    int      `help:"Batches to read; 0 is all of the text." default:"0"`
	Threads    int      `help:"Threads; 0 means all cores."`
	Against    string   `help:"Compare with this model, of which the first is another form: its perplexity, the divergence from it, equal first choices." type:"path" placeholder:"DIR"`
	Weights    string   `help:"With --against: keep the first model's weights as f32, bf16, int8 or int4." enum:",f32,bf16,int8,int4" default:"" placeholder:"FORMAT"`

	strategyFlags `group:"Devices"`
}

// Help returns the text that galley eval --help adds.
func (evalCmd) Help() string {
	return `Of a text, prints the mean loss of a token, in nats, and the perplexity, e to its power. The text is
read in windows of --seq tokens, each of which begins without a past; of a mixture of experts it says how
their work is shared. Of questions, prints acc, the share whose right choice the model rates highest,
acc_norm, the same by log-likelihood a byte, or exact_match, the share of answers that the model would have
said itself, always taking the likeliest token.

Examples:
  galley eval out --data notes.txt
  galley eval small --perplexity --against out
                                         what integers change: perplexities, divergence, equal first choices
  galley eval run --best                 the best checkpoint of a run, on the held-out part of the book
  galley eval out --task arc.jsonl --task sums.jsonl --seq 1024 --mesh dp=2
Questions have the common shapes of lm-evaluation-harness's tasks:
  {"question": "…", "choices": ["…", "…"], "answer": 1}      HellaSwag's, ARC's, PIQA's, MMLU's and WinoGrande's fields, too
  {"question": "…", "answer": "…"}                           the answer, exactly`
}

func (c *evalCmd) Run() error {
	err := positive(map[string]int{"batch": c.Batch, "seq": c.Seq})
	if err == nil {
		err = natural(map[string]int{"batches": c.Batches, "threads": c.Threads})
	}
	if err == nil && len(c.Task) > 0 && (len(c.Data) > 0 || c.Batches > 0) {
		err = errors.New("--task: --data and --batches are for texts: want one of them")
	}
	if err == nil && c.Perplexity && len(c.Task) > 0 {
		err = errors.New("--task, --perplexity: tasks have no perplexity: want one of them")
	}
	if err == nil && c.Weights != "" && c.Against == "" {
		err = fmt.Errorf("--weights=%s: it is for --against", c.Weights)
	}
	if err == nil && c.Against != "" && (len(c.Task) > 0 || c.Mesh != "" || c.JSON) {
		err = errors.New("--against: --task, --mesh and --json are for one model: want one of them")
	}
	if err != nil {
		return err
	}
	e := &evaluating{evalCmd: c}
	if e.dir, err = openModelDir(c.Dir, c.checkpointChoice); err != nil {
		return err
	}
	defer e.dir.close()
	if e.b, err = c.open(); err != nil {
		return err
	}
	return closed(e.b, e.run())
}

// evaluating is one run of the command.
type evaluating struct {
	*evalCmd
	dir       *modelDir
	config    models.Config
	tokenizer textTokenizer
	d         *galley.Device
	b         galley.Backend
	model     models.Model
	trainer   *galley.Trainer
}

func (e *evaluating) run() (err error) {
	if e.config, err = e.dir.config(); err != nil {
		return err
	}
	if err := longEnough(e.config, e.Seq); err != nil {
		return err
	}
	if e.tokenizer, err = openTokenizer(e.Tokenizer, e.dir.dir); err != nil {
		return err
	}
	work, err := e.prepare()
	if err != nil {
		return err
	}
	if err := fits(e.Dir,
		4*parameters(e.config)+4*float64(e.Batch)*float64(e.Seq)*float64(e.config.Vocab)); err != nil {
		return err
	}
	e.tokenizer.note(e.dir.dir, e.config.Vocab)
	if e.Against != "" {
		return work()
	}
	e.d = galley.CPU(galley.Config{Threads: e.Threads})
	defer e.d.Close()
	if err := e.load(); err != nil {
		return err
	}
	defer e.trainer.Close()
	return work()
}

// prepare reads the evaluation data and returns the function that evaluates it, so that mistakes are found
// before a model is loaded.
func (e *evaluating) prepare() (func() error, error) {
	if len(e.Task) > 0 {
		return e.questions()
	}
	windows, source, err := e.windows()
	if e.Against != "" {
		return func() error { return e.compare(e.dir, windows, source) }, err
	}
	return func() error { return e.text(windows, source) }, err
}

// load reads the model and distributes it by the strategy.
func (e *evaluating) load() error {
	s, err := e.strategy()
	if err != nil {
		return err
	}
	whole, err := e.dir.load(nn.Config{Scope: e.d.NewSession()})
	if err != nil {
		return err
	}
	e.model = whole
	if s != nil {
		if e.model, _, err = galley.Arrange(whole, *s, e.Seq); err != nil {
			return err
		}
	}
	e.trainer, err = galley.NewTrainer(
		galley.TrainerConfig{Device: e.d, Backend: e.b, Strategy: s, Params: whole.Params(),
			Optimizer: optim.SGD{},
			Loss:      func(batch []*op.Tensor) *op.Tensor { return nextToken(e.model, batch[0]) }},
	)
	return err
}

// text prints the loss of a text.
func (e *evaluating) text(windows []array.Array, source string) error {
	v := e.trainer.NewEvaluator()
	defer v.Close()
	tell := progressPrinter()
	loss, err := v.Mean(context.Background(), func(i int) []array.Array {
		if i == len(windows) {
			return nil
		}
		tell("evaluating", i, len(windows))
		return []array.Array{windows[i]}
	})
	if err != nil {
		return err
	}
	tokens := 0
	for _, w := range windows {
		tokens += w.Shape()[0] * e.Seq
	}
	if e.JSON {
		return printJSON(map[string]any{"model": e.dir.name(), "data": source, "tokens": tokens, "loss": loss,
			"perplexity": math.Exp(loss)})
	}
	fmt.Printf("%s on %s (%d tokens): loss %.4f, perplexity %.4g\n", e.dir.name(), source, tokens, loss,
		math.Exp(loss))
	return e.routers(windows[0])
}

// routers prints how the routers share out tokens to experts.
func (e *evaluating) routers(windows array.Array) error {
	if e.b != nil {
		return nil
	}
	stats, err := routerStats(e.trainer, e.model, windows, 0)
	for i, s := range stats {
		fmt.Println(routerLine(i, len(stats), s))
	}
	return err
}

// windows returns the text's batches: every window once, the remaining ones in a smaller last batch.
func (e *evaluating) windows() ([]array.Array, string, error) {
	ids, source, err := e.ids()
	if err != nil {
		return nil, "", err
	}
	if err := inVocabulary(ids, e.config.Vocab); err != nil {
		return nil, "", fmt.Errorf("%s: %w", source, err)
	}
	var list []array.Array
	for rest := ids; len(rest) > e.Seq && (e.Batches == 0 || len(list) < e.Batches); {
		s, err := data.NewSampler(rest, data.SamplerConfig{Batch: min(e.Batch, (len(rest)-1)/e.Seq),
			Seq: e.Seq, Order: data.Sequential})
		if err != nil {
			return nil, "", err
		}
		b := s.Batch(0)
		list, rest = append(list, b), rest[b.Shape()[0]*e.Seq:]
	}
	if len(list) == 0 {
		return nil, "", fmt.Errorf("%s: text is shorter than a window: got %d tokens, want more than --seq=%d",
			source, len(ids), e.Seq)
	}
	return list, source, nil
}

// ids returns the tokens of the text.
func (e *evaluating) ids() ([]int32, string, error) {
	if len(e.Data) == 0 {
		_, ids, err := data.Split(e.tokenizer.Encode(data.MobyDick()), heldFrom)
		return ids, "the held-out part of Moby-Dick", err
	}
	source := e.Data[0]
	if n := len(e.Data); n > 1 {
		source = fmt.Sprintf("%s and %d more", source, n-1)
	}
	config := data.EncodeConfig{Tokenizer: e.tokenizer, End: -1,
		Documents: data.DocumentsConfig{Field: e.Field, Formats: formats}}
	if e.Skip {
		config.Documents.Skip = func(err error) { fmt.Fprintln(os.Stderr, "galley: skipped:", err) }
	}
	var corpora []*data.Corpus
	for _, path := range e.Data {
		c, err := openCorpus(path, config)
		if err != nil {
			return nil, "", err
		}
		corpora = append(corpora, c)
	}
	all := data.JoinCorpora(corpora...)
	ids := make([]int32, all.Len())
	all.Read(ids, 0)
	return ids, source, nil
}

// openCorpus returns the documents of shards, or of texts.
func openCorpus(path string, config data.EncodeConfig) (*data.Corpus, error) {
	if data.IsShards(path) {
		c, _, err := data.OpenCorpus(path) // mapped until the process ends
		return c, err
	}
	return data.Encode([]string{path}, config)
}
