package main

import (
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/strict"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/serve/engine"
)

// trainCmd trains a language model to predict the next token of a text.
type trainCmd struct {
	backendFlags
	Model     string  `help:"Hugging Face directory of a model to go on with; without it a new small one is made." type:"existingdir" placeholder:"DIR"`
	Tokenizer string  `help:"tokenizer.json; without it that of the model's directory, or bytes." type:"existingfile" placeholder:"FILE"`
	Save      string  `help:"Directory to write the trained model to, in Hugging Face's form; its weights are f32." type:"path" placeholder:"DIR"`
	Steps     int     `help:"Training steps." default:"600"`
	Batch     int     `help:"Sequences in a step." default:"16"`
	Seq       int     `help:"Tokens in a sequence." default:"128"`
	LR        float64 `help:"Highest learning rate; it warms up over a twentieth of the steps and falls along a cosine to a tenth." default:"0.003"`
	Decay     float64 `help:"Weight decay." default:"0.1"`
	Clip      float64 `help:"Limit of the gradients' norm; 0 is none." default:"1"`
	Seed      uint64  `help:"Seed of the first weights and of the order of the text." default:"1"`
	Threads   int     `help:"Threads; 0 means all cores."`
	Eager     bool    `help:"Run op by op in place of compiled."`
	BF16      bool    `name:"bf16" help:"Compute products in bf16, with f32 parameters and optimizer."`
	Layers    int     `help:"Blocks of a new model." default:"4"`
	Dim       int     `help:"Width of a new model." default:"128"`
	Heads     int     `help:"Attention heads of a new model." default:"4"`
	Prompt    string  `help:"Text to continue at the end." default:"Call me "`
	Tokens    int     `help:"Tokens to generate at the end; 0 is none." default:"300"`

	ValidEvery int           `help:"Steps between evaluations on held-out text; 0 is one at the end. The checkpoint with the least loss is kept." placeholder:"STEPS"`
	Log        []string      `help:"File to log every step to, by its name's end: .jsonl or .csv; may be given more than once." sep:"none" type:"path" placeholder:"FILE"`
	DetectNaN  bool          `name:"detect-nan" help:"Stop at the first op that computes a NaN and print its name and line; slower."`
	Watchdog   time.Duration `help:"Report the op that each device is running if a step makes no progress for this long; 0 is never." default:"5m"`

	Devices     int    `help:"Devices of this process, or with --backend of the accelerator; without --mesh or --plan, the planner chooses how to use those of this process." group:"Devices"`
	Plan        string `help:"File of galley plan to run." type:"existingfile" placeholder:"FILE" group:"Devices"`
	DryRun      bool   `help:"Build the programs of all devices without running them, and print the memory of each device, to the byte. With --plan and without --model, the model, batch and sequences are the plan's." group:"Devices"`
	Calibration string `help:"File of galley calibrate, for the planner." type:"existingfile" placeholder:"FILE" group:"Devices"`
	Cluster     string `help:"File of galley doctor --cluster under the same launcher, from which the planner takes the speed of communication between processes." type:"existingfile" placeholder:"FILE" group:"Devices"`
	Probe       string `help:"How long the planner may measure its best plans before it chooses: auto is a twentieth of the time that training should take, at most 30s, and none where that is less than 2s; off; or a time such as 20s." default:"auto" placeholder:"TIME" group:"Devices"`
	Adapt       string `help:"While it trains on many devices: on compares forecast and measurement, names stragglers and, with --checkpoint, moves to another plan where that pays; name only says so; off; auto is on where the planner chose the plan, and name with --mesh or --plan." enum:"auto,on,name,off" default:"auto" group:"Devices"`
	Learned     string `help:"File to write the calibration from these measurements to." type:"path" placeholder:"FILE" group:"Devices"`

	optimizerFlags  `group:"Optimizer"`
	dataFlags       `group:"Data"`
	strategyFlags   `group:"Devices"`
	mixedFlags      `group:"Devices"`
	checkpointFlags `group:"Checkpoints"`
}

// Help returns the text that galley train --help adds.
func (trainCmd) Help() string {
	return `Examples:
  galley train                                          a small model on a book: two minutes on two cores
  galley train --steps 2000 --dim 256 --save out        larger and longer, kept
  galley train --model out --data notes.txt --lr 3e-4   go on with it on another text
  galley generate out --prompt "Call me"                then use it
  galley train --data corpus.jsonl --rows packed        documents packed into rows that keep them apart
  galley train --mix 0.7:web --mix 0.3:code             shards or texts, mixed by weight
  galley train --mesh dp=2,tp=2,pp=2 --zero 1 --micro 4 on eight devices of this process: the same losses
  galley train --devices 8                              the planner chooses how, and says why
  galley train --plan plan.yaml --dry-run               the memory of every device of a plan, and no step
  galley train --mesh pp=2 --rank-backends cpu,xla      the first stages on the host, the others on an accelerator
  galley train --shares xla=3,cpu=1                     a quarter of every batch on the host
  galley launch -n 4 -- train --mesh dp=4               on four processes: the same losses again
  galley train --checkpoint run --every 50              can be killed: run it again and it goes on
  galley train --checkpoint run --valid-every 50 --log run.jsonl   … with the best checkpoint kept, and a log
  galley train --checkpoint run --from 200 --rewind     go back to step 200
  galley train --backend xla --bf16 --dim 768           on an accelerator
  galley train --backend xla --batch 64 --micro 4       … which takes a batch in four parts, for less memory
  galley train --backend xla --mesh dp=4,tp=2 --zero 1  on eight of its devices, as one program
Ctrl-C, SIGTERM and SIGHUP end training after the step that is being taken; the last state and the model are
then saved, and the exit code tells the signal. A second one ends it at once.`
}

func (c *trainCmd) Run() error {
	if err := c.validate(); err != nil {
		return err
	}
	if c.Threads == 0 {
		c.Threads = threadsHere()
	}
	keepTo(c.Threads)
	d := galley.CPU(galley.Config{Threads: c.Threads})
	defer d.Close()
	t := &training{trainCmd: c, d: d}
	if c.DryRun {
		return t.dryRun(os.Stdout)
	}
	var err error
	if t.b, err = c.open(); err != nil {
		return err
	}
	err = t.run()
	if e := t.opened.Close(); err == nil {
		err = e
	}
	return closed(t.b, err)
}

// run trains: everything between checking the flags and printing the summary.
func (t *training) run() error {
	limitGarbage()
	if err := t.prepare(); err != nil {
		return err
	}
	if err := t.train(); err != nil {
		return err
	}
	if err := t.save(); err != nil {
		return err
	}
	if t.stopped != nil {
		return t.stopped
	}
	if err := t.generateSample(); err != nil {
		return err
	}
	t.kept()
	return nil
}

func (c *trainCmd) validate() error {
	err := positive(map[string]int{"steps": c.Steps, "batch": c.Batch, "seq": c.Seq, "layers": c.Layers,
		"dim": c.Dim, "heads": c.Heads})
	if err == nil {
		err = natural(map[string]int{"threads": c.Threads, "tokens": c.Tokens, "valid-every": c.ValidEvery})
	}
	if err == nil {
		err = c.validateCheckpoints()
	}
	for _, path := range c.Log {
		if _, e := logFormat(path); err == nil {
			err = e
		}
	}
	if err == nil {
		err = between(0, math.Inf(1), map[string]float64{"lr": c.LR, "decay": c.Decay, "clip": c.Clip})
	}
	if err == nil && c.Model == "" && c.Dim%(2*c.Heads) != 0 {
		err = fmt.Errorf("--dim=%d: want a multiple of %d: --heads=%d of an even width", c.Dim, 2*c.Heads, c.Heads)
	}
	if err == nil {
		err = positive(map[string]int{"programs": c.Programs})
	}
	if err == nil {
		err = c.validateOptimizer()
	}
	if err == nil {
		err = c.validateData(c.Seq)
	}
	if err == nil {
		err = c.validateDevices()
	}
	if err == nil && c.Save != "" {
		if e := writable(c.Save); e != nil {
			err = fmt.Errorf("--save: %w", e)
		}
	}
	return err
}

// validateDevices checks how the step is distributed, as far as possible without a model.
func (c *trainCmd) validateDevices() error {
	s, err := c.strategy()
	if err == nil && s != nil && c.Eager {
		return fmt.Errorf("--eager: op by op is on one device: got %v: want none of its flags", s)
	}
	if err == nil {
		err = c.mixedFlags.validate(c)
	}
	return err
}

// training is one run of the command.
type training struct {
	*trainCmd
	d         *galley.Device
	b         galley.Backend // nil means the CPU, d
	opened    opened         // the backends of ranks and shares
	tokenizer textTokenizer
	model     models.Model
	// text is the training data, eval the held-out data; nil is none.
	text, eval batches
	// weights, if not nil, are read by devices, each only its own shards.
	weights *models.Weights
	// loss computes the loss of a batch; nil means that of the next tokens. more are further facts.
	loss func(model models.Model, batch []*op.Tensor) *op.Tensor
	more []galley.Fact
	// shapes are the shapes of batches so far.
	shapes []string
	// watch, if set, receives the spans of devices.
	watch func(galley.Span)
	// traffic, if set, sums the bytes and times of collectives for the log.
	traffic *loggedTraffic
	// spread is the strategy of the steps; nil is one device.
	spread *galley.Strategy
	// stopped is set if a signal has ended training.
	stopped *stoppedError
	// learned is the calibration learned by probing or from the run; nil without either.
	learned *plan.Calibration
	// averages are the moving averages of the weights, if --ema keeps them.
	averages []array.Array
	// adapt watches the run, if it is adapted; next is the plan that the run changes to, moved the last change
	// of plan.
	adapt *adapter
	next  *galley.Strategy
	moved *moved
}

// prepare checks the flags and reads the data, to find mistakes before anything takes time.
func (t *training) prepare() (err error) {
	var config models.Config
	if t.Model != "" {
		if config, err = models.ReadConfig(t.Model); err != nil {
			return err
		}
	}
	if t.tokenizer, err = openTokenizer(t.Tokenizer, t.Model); err != nil {
		return err
	}
	if t.Model == "" {
		config = t.newConfig()
	}
	if t.Tokens > 0 {
		if _, err := t.tokenizer.prompt(t.Prompt, config.Vocab); err != nil {
			return err
		}
	}
	if err := longEnough(config, t.Seq); err != nil {
		return err
	}
	source, tokens, err := t.read(config.Vocab)
	if err == nil {
		err = t.checkData()
	}
	if err != nil {
		return err
	}
	// Parameters, gradients and two moments, and the logits: the least memory of a step.
	if err := fits("training",
		16*parameters(config)+4*float64(t.Batch)*float64(t.Seq)*float64(config.Vocab)); err != nil {
		return err
	}
	if t.model, err = t.makeModel(config); err != nil {
		return err
	}
	t.tokenizer.note(t.Model, config.Vocab)
	t.introduce(source, tokens)
	if t.Model != "" && t.Save == "" && t.Checkpoint == "" {
		fmt.Fprintln(os.Stderr, "galley: note: the trained model will not be kept: --save DIR writes it")
	}
	if t.Model != "" && t.LR == newModelLR {
		fmt.Fprintf(os.Stderr,
			"galley: note: --lr=%v is for new models: one that is trained already wants less, such as --lr 1e-4\n",
			t.LR)
	}
	return nil
}

// newModelLR is the default of --lr.
const newModelLR = 0.003

// longEnough returns an error if the model's context is shorter than --seq tokens.
func longEnough(c models.Config, seq int) error {
	if n := c.Limit(); n > 0 && seq > n {
		return fmt.Errorf("--seq=%d: the model has n_positions %d", seq, n)
	}
	return nil
}

// parameters returns the number of a model's parameters, from shapes alone.
func parameters(c models.Config) float64 {
	m, err := models.New(c, nn.Config{})
	if err != nil {
		return 0 // models.New reports the error again when the model is made
	}
	n := 0.0
	for _, p := range m.Params() {
		n += float64(p.Type.Shape.Len())
	}
	return n
}

// read cuts the text into windows to train on and, if it is long enough, some to hold out.
func (t *training) read(vocab int) (source string, tokens int, err error) {
	if !t.plain() {
		return t.readCorpus(vocab)
	}
	text, source := data.MobyDick(), "Moby-Dick"
	if len(t.Data) > 0 {
		if text, err = readTexts(t.Data); err != nil {
			return "", 0, err
		}
		source = strict.Name(strings.Join(t.Data, " and "))
	}
	ids := t.tokenizer.Encode(text)
	if err := inVocabulary(ids, vocab); err != nil {
		return "", 0, fmt.Errorf("%s: %w", source, err)
	}
	if len(ids) <= t.Seq {
		return "", 0, fmt.Errorf("%s: text is shorter than a window: got %d tokens, want more than --seq=%d",
			source, len(ids), t.Seq)
	}
	train, held, err := data.Split(ids, 1-t.Held)
	if err != nil {
		return "", 0, err
	}
	if len(train) <= t.Seq {
		train, held = ids, nil
	}
	config := data.SamplerConfig{Batch: t.Batch, Seq: t.Seq, Seed: t.Seed}
	s, err := data.NewSampler(train, config)
	if err != nil {
		return "", 0, fmt.Errorf("%s: %w", source, err)
	}
	t.text = windowBatches{s}
	// A short text may have no whole held-out window; then nothing is evaluated.
	if s, err := data.NewSampler(held, config); err == nil {
		t.eval = windowBatches{s}
	}
	return source, len(ids), nil
}

func (t *training) newConfig() models.Config {
	return models.Config{
		Family: "llama", Vocab: t.tokenizer.VocabSize(), Hidden: t.Dim, Intermediate: (t.Dim*8/3 + 15) / 16 * 16,
		Layers: t.Layers, Heads: t.Heads, Positions: max(t.Seq, 1024), InitStd: 0.02, Tied: true,
	}
}

func (t *training) makeModel(config models.Config) (models.Model, error) {
	c := nn.Config{Scope: t.d.NewSession(), Seed: t.Seed}
	switch {
	case t.Model == "" && t.byBox(): // devices initialize their own shards
		return models.New(config, nn.Config{Seed: t.Seed})
	case t.Model == "":
		return models.New(config, c)
	case t.byBox():
		w, err := models.Open(t.Model)
		if err != nil {
			return nil, err
		}
		t.weights = w
		return w.Model, nil
	}
	return models.LoadAhead(t.Model, t.ahead(), c)
}

// byBox reports whether devices read or initialize only their own shards of the weights.
func (t *training) byBox() bool {
	s, err := t.strategy()
	spread := s != nil || t.Plan != "" || t.Devices > 0 || job != nil
	return err == nil && spread && t.b == nil && t.ahead() == 0 && t.mixedFlags.Shares == ""
}

func (t *training) introduce(source string, tokens int) {
	params := 0
	for _, p := range t.model.Params() {
		params += p.Type.Shape.Len()
	}
	size := fmt.Sprintf("%d tokens", tokens)
	if n := len(t.streams()); n > 0 {
		size = "tokenized as they are needed"
		if tokens > 0 {
			size = fmt.Sprintf("%d tokens, and %d tokenized as they are needed", tokens, n)
		}
	}
	fmt.Printf("%s, %.2fM parameters, on %s (%s), %d steps of %d×%d tokens, %d thread(s)\n",
		t.model.Config().Family, float64(params)/1e6, source, size, t.Steps, t.Batch, t.Seq, t.d.Threads())
}

// lossOf returns the loss of a batch: windows, or ids and labels, also with segments and positions of packed
// rows.
func (t *training) lossOf(model models.Model, batch []*op.Tensor) *op.Tensor {
	if t.loss != nil {
		return t.loss(model, batch)
	}
	switch len(batch) {
	case 1:
		return nextToken(model, batch[0])
	case 2:
		return model.Loss(batch[0], batch[1])
	}
	return models.PackedLoss(model, batch[0], batch[1], batch[2], batch[3])
}

// nextToken returns the next-token loss of windows of seq+1 tokens.
func nextToken(model models.Model, windows *op.Tensor) *op.Tensor {
	n := windows.Dim(1)
	return model.Loss(op.Narrow(windows, 1, 0, n-1), op.Narrow(windows, 1, 1, n))
}

// heldFrom is the share of a text that is trained on; the rest is held out.
const heldFrom = 0.95

// evalBatches is the number of batches of held-out text to evaluate.
const evalBatches = 4

// save writes the model; that of a job was saved before its devices were closed.
func (t *training) save() error {
	if job.Size() > 1 {
		return nil
	}
	return t.saveEach(nil)
}

// saveEach writes the model with the values that each provides or, if each is nil, the parameters' values.
// Processes of a job other than the first only send theirs.
func (t *training) saveEach(each func(f func(p *nn.Param, value array.Array) error) error) error {
	switch {
	case t.Save == "":
		return nil
	case !job.First():
		return each(nil)
	}
	c := models.SaveConfig{Tokenizer: t.tokenizer.text, Each: each}
	if err := models.Save(t.Save, t.model, c); err != nil {
		return err
	}
	fmt.Printf("saved to %s\n", t.Save)
	return nil
}

// kept prints what the run has left on disk, and the flags that would keep more.
func (t *training) kept() {
	switch {
	case t.Save != "":
		fmt.Printf("the model is in %s: galley generate %[1]s continues texts with it\n", t.Save)
	case t.Checkpoint != "":
		fmt.Printf(
			"the state is in %s: galley generate %[1]s continues texts with it, --save DIR writes the model\n",
			t.Checkpoint,
		)
	default:
		fmt.Println(
			"the model was not kept: --save DIR writes it for galley generate, --checkpoint DIR the state of the run",
		)
	}
}

func (t *training) generateSample() error {
	if t.Tokens == 0 || !job.First() {
		return nil
	}
	config := t.model.Config()
	ids, err := t.tokenizer.prompt(t.Prompt, config.Vocab)
	if err != nil {
		return err
	}
	tokens := t.Tokens
	if n := config.Limit(); n > 0 {
		tokens = min(tokens, n-len(ids))
	}
	if tokens < 1 {
		return nil
	}
	fmt.Println()
	q := question{prompt: t.Prompt, ids: ids, Request: engine.Request{Prompt: ids, Tokens: tokens,
		Stop: config.StopTokens(), Sampling: engine.Sampling{Temperature: 0.8, TopK: 40, Seed: t.Seed}}}
	if !served(config) {
		return generateByOps(t.model, t.tokenizer, q)
	}
	return generateText(t.model, t.tokenizer, q, engine.Config{})
}
